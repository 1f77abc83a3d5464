"""The keys of a batch's records, by which compaction decides and compacted topics refuse; see `records`.

Compaction counts records by their number in the batch, and not by their offset, where the number is
enough: numbers need no decoding (`read_keys`, `pick`).
"""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep

from headwater.record import batch as batches
from headwater.record import varint
from headwater.record.batch import BatchHeader
from headwater.record.errors import CorruptBatch
from headwater.record.records import payload
from headwater.record.varint import Buffer

_INT64_MIN = -(1 << 63)
_BREATH = (1 << 14) - 1
"""After so many records other threads have their turn, as in `validate`."""


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


def payload_of(header: BatchHeader, batch: Buffer) -> bytes:
    """The records, uncompressed; a batch that has none may have any codec."""
    return bytes(batches.payload(batch)) if header.record_count else b""


def offsets_of(header: BatchHeader, batch: Buffer) -> range | list[int]:
    """The offset of each record; where none is missing, they need not be read."""
    if header.record_count == header.last_offset_delta + 1:
        return range(header.base_offset, header.next_offset)
    return [offset for offset, _, _ in each_key(batch)]


def read_keys(payload: bytes, count: int) -> tuple[list[bytes | None], list[int]]:
    """The key of each record, and the numbers of those without a value. Raises CorruptBatch.

    This is where compaction spends its time, so it is one loop, and offsets are skipped.
    """
    keys: list[bytes | None] = []
    without_value: list[int] = []
    append = keys.append
    position, end = 0, len(payload)
    try:
        for number in range(count):
            if number & _BREATH == _BREATH:
                sleep(0)
            length = payload[position]
            position += 1
            if length > 127:
                more = payload[position]
                if more > 127:
                    length, position = varint.read(payload, position - 1, end)
                else:
                    length += (more << 7) - 128
                    position += 1
            record_end = position + (length >> 1)
            position += 1
            while payload[position] > 127:  # the timestamp
                position += 1
            position += 1
            while payload[position] > 127:  # the offset
                position += 1
            position += 1
            length = payload[position]
            position += 1
            if length > 127:
                length, position = varint.read(payload, position - 1, end)
            if length & 1:
                append(None)
            else:
                append(payload[position : position + (length >> 1)])
                position += length >> 1
            if payload[position] & 1:  # an odd length is negative: no value
                without_value.append(number)
            if position >= record_end:
                raise CorruptBatch(f"a record's fields reach beyond its end at byte {record_end}")
            position = record_end
    except IndexError:
        raise CorruptBatch("the records break off") from None
    if position != end:
        raise CorruptBatch(f"{count} records do not end where the batch ends")
    return keys, without_value


def pick(payload: bytes, kept: list[int]) -> tuple[bytes, int]:
    """The records of these numbers, byte for byte, and the largest of their timestamp deltas.

    For payloads that `read_keys` has accepted: goes from length to length.
    """
    pieces: list[bytes] = []
    largest = _INT64_MIN
    number = start = body = position = 0
    end = len(payload)
    for wanted in kept:
        while number <= wanted:
            start = position
            length = payload[position]
            position += 1
            if length > 127:
                more = payload[position]
                if more > 127:
                    length, position = varint.read(payload, position - 1, end)
                else:
                    length += (more << 7) - 128
                    position += 1
            body = position
            position += length >> 1
            number += 1
        pieces.append(payload[start:position])
        delta = payload[body + 1]  # after the attributes
        if delta > 127:
            delta, _ = varint.read(payload, body + 1, end, 10)
        delta = (delta >> 1) ^ -(delta & 1)
        if delta > largest:
            largest = delta
    return b"".join(pieces), largest
