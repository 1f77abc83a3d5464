"""The record batch, version 2: the unit in which records travel, are stored and are checked.

Everything that handles batches without looking at their records comes here: the broker before it
appends what a producer sent, the log when it assigns offsets and when it recovers, readers when
they walk what they fetched. The layout is Kafka's, on the wire and on disk alike, big-endian:

    at  bytes  field              meaning
     0      8  base_offset        offset of the first record                   not in the checksum
     8      4  batch_length       bytes that follow this field                 not in the checksum
    12      4  leader_epoch       set by the broker                            not in the checksum
    16      1  magic              2                                            not in the checksum
    17      4  crc                CRC-32C of everything from byte 21 to the end
    21      2  attributes         bits 0-2 codec, 3 log append time, 4 transactional,
                                  5 control, 6 base_timestamp is the delete horizon
    23      4  last_offset_delta  last offset minus base_offset
    27      8  base_timestamp     what the records' timestamp deltas are relative to
    35      8  max_timestamp      the largest timestamp, or the append time
    43      8  producer_id        -1 when the producer is not idempotent, -2 when the broker itself writes
                                  what it must be able to tell from its clients' records
    51      2  producer_epoch
    53      4  base_sequence
    57      4  record_count       records that are present
    61      …  records, compressed by the codec as one piece

The magic must be read before anything after byte 16: older formats share only the first 17 bytes.
The base offset and the leader epoch must be all that the broker patches when it appends a batch;
they lie outside the checksum so that it need not be computed again. Compaction must keep
base_offset and last_offset_delta even when records between them go: record_count may be smaller
than the offsets say.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from headwater.record import claims, codecs, validate
from headwater.record.errors import (
    CorruptBatch,
    InvalidBatch,
    PayloadTooLarge,
    RecordError,
    UnknownMagic,
)
from headwater.record.varint import Buffer

__all__ = [
    "BROKER_PRODUCER_ID",
    "CRC_START",
    "HEADER_BYTES",
    "LOG_OVERHEAD",
    "BatchHeader",
    "Buffer",
    "CorruptBatch",
    "InvalidBatch",
    "Produced",
    "RecordError",
    "UnknownMagic",
    "check",
    "check_crc",
    "pack",
    "payload",
    "read_header",
    "recompress",
    "restamp",
    "scan",
    "validate_produced",
    "with_append_time",
]

BROKER_PRODUCER_ID = -2
"""`validate` refuses it of every client."""
HEADER_BYTES = 61
LOG_OVERHEAD = 12
"""Bytes up to and including batch_length, which counts only what follows it."""
CRC_START = 21
"""Where the part that the checksum covers begins: at the attributes."""

_MAGIC_AT = 16
_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")
_UNCHECKED = struct.Struct(">qiibI")


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & 0x08)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & 0x40)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; after 2147483647 comes 0. Without a sequence: -1."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % (1 << 31)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Neither the checksum nor the end of the batch is looked at."""
    remaining = len(buffer) - position
    if remaining <= _MAGIC_AT:
        raise CorruptBatch(f"a batch header has {HEADER_BYTES} bytes, here are {remaining}")
    magic = buffer[position + _MAGIC_AT]
    if magic != 2:
        raise UnknownMagic(f"message format {magic} is not supported, only 2 is")
    if remaining < HEADER_BYTES:
        raise CorruptBatch(f"a batch header has {HEADER_BYTES} bytes, here are {remaining}")
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.batch_length < _LENGTH_MIN:
        raise CorruptBatch(
            f"a batch says it is {header.batch_length} bytes long, which is too short"
        )
    return header


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the whole batch is in the buffer and has the checksum it claims."""
    end = position + header.size
    if end > len(buffer):
        raise CorruptBatch(
            f"a batch of {header.size} bytes, but only {len(buffer) - position} here"
        )
    actual = crc32c(memoryview(buffer)[position + CRC_START : end])
    if actual != header.crc:
        raise CorruptBatch(f"the checksum is {actual:#010x}, the header says {header.crc:#010x}")


def check(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of a batch that is whole and intact; what follows it in the buffer is ignored."""
    header = read_header(buffer, position)
    check_crc(buffer, position, header)
    return header


def scan(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch, by headers only; stops before a partial last one."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        if position + header.size > end:
            return
        yield position, header
        position += header.size


class Produced(NamedTuple):
    """A batch that a client sent, and that is sound; `keyless`: one of its records has no key."""

    header: BatchHeader
    """As it came; its `max_timestamp` need not be true."""
    earliest: int
    """The earliest timestamp of its records, as they say themselves; -1 if they have none."""
    latest: int
    keyless: bool


def validate_produced(
    buffer: Buffer,
    *,
    payload_bytes_max: int = codecs.SIZE_MAX,
    on_payload: Callable[[int], None] | None = None,
    headers_max: int = validate.HEADERS_MAX,
    on_headers: Callable[[int], None] | None = None,
) -> Produced:
    """Check the one batch that a client sent, and each of its records (`validate`).

    Raises CorruptBatch for damage, which a client may mend by sending it again; UnknownMagic for old
    formats; InvalidBatch for what no client may send, and what would be no better the next time:
    not exactly one batch, a header that is not true, records that do not add up to its count.
    `on_payload` is told how many bytes compressed records have become. PayloadTooLarge: they take more
    than `payload_bytes_max`, or have more than `headers_max` headers; `on_headers` is told how many
    had to be looked at.
    """
    if len(buffer) > _MAGIC_AT and buffer[_MAGIC_AT] not in (0, 1, 2):
        raise CorruptBatch(f"there is no message format {buffer[_MAGIC_AT]}")
    if len(buffer) < HEADER_BYTES:
        raise InvalidBatch(f"{len(buffer)} bytes are no record batch")
    header = read_header(buffer)
    if header.size > len(buffer):
        raise InvalidBatch(f"a batch of {header.size} bytes, but only {len(buffer)} are here")
    check_crc(buffer, 0, header)
    if header.size < len(buffer):
        raise InvalidBatch(f"{len(buffer) - header.size} bytes follow the batch; one is allowed")
    claims.check_claims(header)
    if header.codec == codecs.NONE:
        records, start = buffer, HEADER_BYTES
    else:
        stored = memoryview(buffer)[HEADER_BYTES:]
        start = 0
        records = codecs.decompress(header.codec, stored, payload_bytes_max, single=True)
        if on_payload is not None:
            on_payload(len(records))
    try:
        looked = validate.check_records(
            records, start, header.record_count, header.base_timestamp, headers_max
        )
    except PayloadTooLarge:
        raise
    except CorruptBatch as error:
        raise InvalidBatch(str(error)) from error
    if on_headers is not None:
        on_headers(looked.headers)
    claims.check_latest(looked.latest)
    return Produced(header, looked.earliest, looked.latest, looked.keyless)


def restamp(batch: Buffer, *, base_offset: int, leader_epoch: int) -> bytes:
    """The first 21 bytes of the batch as the log stores it; the rest is stored as it came."""
    _, length, _, magic, crc = _UNCHECKED.unpack_from(batch)
    return _UNCHECKED.pack(base_offset, length, leader_epoch, magic, crc)


def with_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """The batch for a topic with `message.timestamp.type=LogAppendTime`.

    As in Kafka only max_timestamp changes: it then stands for every record's timestamp.
    """
    header = read_header(batch)
    return pack(
        header._replace(attributes=header.attributes | 0x08, max_timestamp=timestamp_ms),
        memoryview(batch)[HEADER_BYTES : header.size],
    )


def recompress(batch: Buffer, codec: int, level: int | None = None) -> bytes:
    """The same batch with its records compressed by another codec."""
    header = read_header(batch)
    return pack(
        header._replace(attributes=header.attributes & ~7 | codec),
        codecs.compress(codec, payload(batch), level),
    )


def payload(batch: Buffer, position: int = 0, size_max: int = codecs.SIZE_MAX) -> Buffer:
    """The records of the batch at `position`, uncompressed; a view if they were stored so."""
    header = read_header(batch, position)
    end = position + header.size
    if end > len(batch):
        raise CorruptBatch(f"a batch of {header.size} bytes, but only {len(batch) - position} here")
    stored = memoryview(batch)[position + HEADER_BYTES : end]
    return (
        stored if header.codec == codecs.NONE else codecs.decompress(header.codec, stored, size_max)
    )


def pack(header: BatchHeader, stored: Buffer) -> bytes:
    """The batch with this header before `stored`; length and checksum are computed here."""
    checked = _CHECKED.pack(*header[5:])
    crc = crc32c(stored, crc32c(checked))
    length = _LENGTH_MIN + len(stored)
    return b"".join(
        (_UNCHECKED.pack(header.base_offset, length, header.leader_epoch, 2, crc), checked, stored)
    )
