"""The records inside a batch: reading them all (`keys`: their keys only). `build` makes the batch again.

The broker's produce and fetch paths never come here. Compaction, lookup by time, the broker's own
topics and readers without a columnar decoder do. A record, its integers as in `varint`:

    length            bytes of the record after this field
    attributes        one byte, unused
    timestamp_delta   added to the batch's base_timestamp
    offset_delta      added to the batch's base_offset
    key_length        -1 for no key
    key
    value_length      -1 for no value: a tombstone
    value
    header_count
    headers           each: key length, key in UTF-8, value length or -1, value

Each length must end exactly where the next field begins, and the last record where the payload
ends. Offset deltas must rise from record to record, but not by one: compaction leaves gaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headwater.record import batch as batches
from headwater.record import varint
from headwater.record.batch import BatchHeader
from headwater.record.builder import build
from headwater.record.errors import CorruptBatch
from headwater.record.varint import Buffer

__all__ = [
    "Headers",
    "Record",
    "build",
    "decode",
    "each",
    "payload",
    "times",
]

Headers = tuple[tuple[str, bytes | None], ...]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class Record(NamedTuple):
    """One fact: where it is in its partition, when it was, and what it says.

    Header names that are not UTF-8 keep their bytes as surrogate escapes, to be written back.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode(batch: Buffer, position: int = 0) -> list[Record]:
    """All records of the batch at `position`; the checksum is the caller's business."""
    return list(each(batch, position))


def each(batch: Buffer, position: int = 0) -> Iterator[Record]:
    """The same one after the other: a small batch may have millions, each a hundred times its size. Damage
    is met where it is."""
    header = batches.read_header(batch, position)
    data = payload(batch, header, position)
    try:
        if header.is_log_append_time:
            at = header.max_timestamp
            for record in _decode(data, header):
                yield record._replace(timestamp=at)
        else:
            yield from _decode(data, header)
    except IndexError:
        raise CorruptBatch("the records break off") from None


def times(data: bytes, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of each record in an uncompressed payload; nothing else of them is looked at."""
    position, end = 0, len(data)
    at = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(header.record_count):
            size, position = varint.read(data, position, end)
            record_end = position + (size >> 1)
            if size & 1 or record_end > end:
                raise CorruptBatch(f"a record at byte {position} has an impossible length")
            delta, position = varint.read(data, position + 1, record_end, 10)
            number, _ = varint.read(data, position, record_end)
            timestamp = header.base_timestamp + ((delta >> 1) ^ -(delta & 1))
            offset = header.base_offset + ((number >> 1) ^ -(number & 1))
            yield offset, timestamp if at is None else at
            position = record_end
    except IndexError:
        raise CorruptBatch("the records break off") from None


def payload(batch: Buffer, header: BatchHeader, position: int = 0) -> bytes:
    """The records of the batch at `position`, uncompressed."""
    if header.record_count < 0:
        raise CorruptBatch(f"a batch of {header.record_count} records")
    if header.record_count == 0 and header.size == batches.HEADER_BYTES:
        return b""  # what compaction leaves of a producer's last batch: no records, any codec
    return bytes(batches.payload(batch, position))


def _decode(data: bytes, header: BatchHeader) -> Iterator[Record]:
    # One long loop, because calls would cost more than the work: integers of one or two bytes,
    # as nearly all are, are read in place. IndexError means that the data ended inside a record.
    make = tuple.__new__
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    position, end, previous = 0, len(data), -1
    wide = abs(base_timestamp) >> 62  # then, or with such a delta, a sum may overflow
    key: bytes | None
    value: bytes | None
    for _ in range(header.record_count):
        n = data[position]
        position += 1
        if n > 127:
            more = data[position]
            if more > 127:
                n, position = varint.read(data, position - 1, end)
            else:
                n += (more << 7) - 128
                position += 1
        record_end = position + (n >> 1)
        if n & 1 or record_end > end:
            raise CorruptBatch(f"a record at byte {position} has an impossible length")

        position += 1
        n = data[position]
        position += 1
        if n > 127:
            more = data[position]
            if more > 127:
                n, position = varint.read(data, position - 1, end, 10)
                wide |= n >> 62
            else:
                n += (more << 7) - 128
                position += 1
        timestamp = base_timestamp + ((n >> 1) ^ -(n & 1))

        n = data[position]
        position += 1
        if n > 127:
            more = data[position]
            if more > 127:
                n, position = varint.read(data, position - 1, end)
            else:
                n += (more << 7) - 128
                position += 1
        if n & 1 or n <= previous:
            raise CorruptBatch(f"the offset of a record at byte {position} is not after the last")
        previous = n

        key_length = data[position]
        position += 1
        if key_length > 127:
            key_length, position = varint.read(data, position - 1, end)
        if key_length & 1:
            if key_length != 1:
                raise CorruptBatch(f"a key at byte {position} has a negative length")
            key = None
        else:
            start = position
            position += key_length >> 1
            key = data[start:position]

        value_length = data[position]
        position += 1
        if value_length > 127:
            more = data[position]
            if more > 127:
                value_length, position = varint.read(data, position - 1, end)
            else:
                value_length += (more << 7) - 128
                position += 1
        if value_length & 1:
            if value_length != 1:
                raise CorruptBatch(f"a value at byte {position} has a negative length")
            value = None
        else:
            start = position
            position += value_length >> 1
            value = data[start:position]

        headers: Headers = ()
        if data[position]:
            headers, position = _decode_headers(data, position, record_end)
        else:
            position += 1
        if position != record_end:
            raise CorruptBatch(f"a record's fields end at byte {position}, not at {record_end}")
        if wide and not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise CorruptBatch("a timestamp does not fit into 64 bits")
        yield make(Record, (base_offset + (previous >> 1), timestamp, key, value, headers))
    if position != end or (previous >> 1) > header.last_offset_delta:
        raise CorruptBatch(f"{header.record_count} records do not end where the batch ends")


def _decode_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = varint.decode(data, position, end)
    if not 0 <= count <= end - position:
        raise CorruptBatch(f"{count} headers do not fit into a record")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = varint.decode(data, position, end)
        if not 0 <= length <= end - position:
            raise CorruptBatch(f"a header's name at byte {position} has an impossible length")
        name = data[position : position + length].decode("utf-8", "surrogateescape")
        position += length
        length, position = varint.decode(data, position, end)
        if length == -1:
            headers.append((name, None))
            continue
        if not 0 <= length <= end - position:
            raise CorruptBatch(f"a header's value at byte {position} has an impossible length")
        headers.append((name, data[position : position + length]))
        position += length
    return tuple(headers), position
