"""What can be set right of bytes that are no whole batch, so that no record is lost.

Either the frame alone is wrong, which no checksum covers and which can be told from what lies around it: base
offset, length, leader epoch, magic. Or one bit of the rest, and the checksum tells which.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.broker.inspection.reader import Reader
from headwater.broker.inspection.scan import LARGE_BYTES, Broken
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.correction import corrected
from headwater.record.errors import RecordError
from headwater.record.varint import Buffer


class Correction(NamedTuple):
    """The right header for the bytes behind it, or all of the batch; with what to say of it."""

    header: BatchHeader
    head: bytes | None
    batch: bytes | None
    what: str
    says: str


def correction(reader: Reader, seen: Broken, next_offset: int | None) -> Correction | None:
    """None if more is wrong. `next_offset`: where what follows begins, if that is known."""
    if seen.end - seen.position > LARGE_BYTES:
        return None
    region = reader.get(seen.position, seen.end - seen.position)
    if head := _fixed_header(region, seen.follows, next_offset):
        what, says = "only its frame is damaged, the records are whole", "write the right frame"
        return Correction(batches.read_header(head), head, None, what, f"{says}; no record is lost")
    if batch := set_right(region, seen.follows, next_offset):
        what, says = "one bit is all that is wrong", "set that bit right; no record is lost"
        return Correction(batches.read_header(batch), None, batch, what, says)
    return None


def _fixed_header(region: memoryview, follows: int, next_offset: int | None) -> bytes | None:
    """The header of a broken region if only what no checksum covers is wrong with it.

    That is the base offset, the length, the leader epoch and the magic. None if more is wrong.
    """
    if len(region) < HEADER_BYTES:
        return None
    head = bytearray(region[:HEADER_BYTES])
    head[8:12] = (len(region) - batches.LOG_OVERHEAD).to_bytes(4, "big", signed=True)
    head[16] = 2
    try:
        header = batches.read_header(head)
        batches.check_crc(bytes(head) + bytes(region[HEADER_BYTES:]), 0, header)
    except RecordError:
        return None
    delta = header.last_offset_delta
    ends = follows + delta + 1
    if next_offset is None or next_offset == ends:
        head[0:8] = follows.to_bytes(8, "big")
    elif not follows <= header.base_offset <= next_offset - delta - 1:
        return None
    return bytes(head)


def set_right(region: Buffer, follows: int, next_offset: int | None) -> bytes | None:
    """The batch as it was, if one bit of it is wrong and its offsets can be."""
    whole = corrected(region)
    if whole is None:
        return None
    header = batches.read_header(whole)
    is_within = next_offset is None or header.next_offset <= next_offset
    return whole if follows <= header.base_offset and is_within else None
