"""Setting one wrong bit of a batch right: by its checksum one can tell which it is. Pure.

A repair calls it, and whoever replays markers. CRC-32C is linear: by how much a checksum is off depends on
nothing but the place of the wrong bit, and no two places in a batch (below 2^31 bits) are off by the same.

    0 … 16   base offset, length, leader epoch, magic   no checksum covers them: left alone
    17       crc                                        off by one bit: the rest is right
    21 …     what it covers
"""

from __future__ import annotations

from crc32c import crc32c

from headwater.record import batch as batches
from headwater.record import records
from headwater.record.batch import CRC_START, HEADER_BYTES
from headwater.record.errors import RecordError
from headwater.record.varint import Buffer

SIZE_MAX = 1024 * 1024
"""Of a batch that is looked at: one step for each byte."""
_CRC_AT = CRC_START - 4
_POLYNOMIAL = 0x82F63B78
_ALL = 0xFFFFFFFF


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]
_BYTE_OF = {entry >> 24: byte for byte, entry in enumerate(_TABLE)}
_BIT_OF = {_TABLE[1 << bit]: bit for bit in range(8)}
"""By how much the checksum is off if one bit of the last byte is wrong → which."""


def corrected(batch: Buffer) -> bytes | None:
    """The batch as it was, if its length is right and one bit of it is wrong; None if that is not so."""
    try:
        header = batches.read_header(batch)
    except RecordError:
        return None
    if header.size != len(batch) or len(batch) > SIZE_MAX:
        return None
    data = bytearray(batch)
    off = crc32c(memoryview(data)[CRC_START:]) ^ header.crc
    if off & (off - 1) == 0:
        data[_CRC_AT:CRC_START] = (header.crc ^ off).to_bytes(4, "big")
    else:
        place = _wrong_bit(off, len(data) - CRC_START)
        if place is None:
            return None
        data[len(data) - 1 - place[0]] ^= 1 << place[1]
    return _readable(bytes(data)) if off else None


def restored(region: Buffer) -> bytes | None:
    """The one batch in these bytes, if its length, its magic or one bit of the rest is wrong."""
    data = bytearray(region)
    if len(data) < HEADER_BYTES:
        return None
    data[8:12] = (len(data) - batches.LOG_OVERHEAD).to_bytes(4, "big")
    data[16] = 2
    try:
        batches.check(data)
        return bytes(data)
    except RecordError:
        return corrected(data)


def _wrong_bit(off: int, size: int) -> tuple[int, int] | None:
    """(bytes behind it, which of the eight) of the bit that makes this difference."""
    for behind in range(size):
        if off in _BIT_OF:
            return behind, _BIT_OF[off]
        byte = _BYTE_OF[off >> 24]  # one step back: as it was before the last byte was added
        off = ((off ^ _TABLE[byte]) << 8 | byte) & _ALL
    return None


def is_intact(batch: Buffer) -> bool:
    """Whether it is whole, and has the checksum that it claims."""
    try:
        batches.check(batch)
        return True
    except RecordError:
        return False


def _readable(batch: bytes) -> bytes | None:
    try:
        batches.check(batch)
        return batch if records.decode(batch) else None
    except RecordError:
        return None
