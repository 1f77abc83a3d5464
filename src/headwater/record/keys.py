"""The keys of a batch's records, by which compaction decides and compacted topics refuse; see `records`."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.record import batch as batches
from headwater.record import varint
from headwater.record.batch import BatchHeader
from headwater.record.errors import CorruptBatch
from headwater.record.records import payload
from headwater.record.varint import Buffer


def each_key(batch: Buffer, position: int = 0) -> Iterator[tuple[int, bytes | None, bool]]:
    """Offset, key and whether there is a value, of each record: what compaction decides by. One after the
    other: a small batch may have millions.

    Values and headers are skipped, not checked: this reads some batches that `decode` refuses. The
    offsets are checked: they rise, and stay within the batch.
    """
    header = batches.read_header(batch, position)
    data = payload(batch, header, position)
    try:
        yield from _decode_keys(data, header)
    except IndexError:
        raise CorruptBatch("the records break off") from None


def _decode_keys(data: bytes, header: BatchHeader) -> Iterator[tuple[int, bytes | None, bool]]:
    base_offset = header.base_offset
    position, end, previous = 0, len(data), -1
    key: bytes | None
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
        while data[position] > 127:  # the timestamp is not wanted
            position += 1
        position += 1
        n = data[position]
        position += 1
        if n > 127:
            n, position = varint.read(data, position - 1, end)
        length = data[position]
        position += 1
        if length > 127:
            length, position = varint.read(data, position - 1, end)
        if length & 1:
            key = None
        else:
            start = position
            position += length >> 1
            key = data[start:position]
        has_value = not data[position] & 1  # an odd length is negative: no value
        if n & 1 or position >= record_end:
            raise CorruptBatch(f"a record's fields reach beyond its end at byte {record_end}")
        if n <= previous:
            raise CorruptBatch(f"the offset of a record at byte {position} is not after the last")
        previous = n
        yield base_offset + (n >> 1), key, has_value
        position = record_end
    if position != end or (previous >> 1) > header.last_offset_delta:
        raise CorruptBatch(f"{header.record_count} records do not end where the batch ends")
