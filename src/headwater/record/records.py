"""The records inside a batch: reading them all, their keys only, and writing a batch of them.

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

Each length must end exactly where the next field begins, the last record where the payload ends, and
offset deltas must rise from record to record. They need not be dense: compaction leaves gaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headwater.record import batch as batches
from headwater.record import codecs, varint
from headwater.record.batch import BatchHeader
from headwater.record.errors import CorruptBatch
from headwater.record.varint import Buffer

Headers = tuple[tuple[str, bytes | None], ...]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_NO_TIMESTAMP = -1


class Record(NamedTuple):
    """One fact: where it is in its partition, when it was, and what it says.

    Header names that are not UTF-8 are kept with surrogate escapes, so that they can be written back.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode(batch: Buffer, position: int = 0) -> list[Record]:
    """All records of the batch at `position`; the checksum is the caller's business."""
    header = batches.read_header(batch, position)
    data = _payload(batch, position, header)
    try:
        records = _decode(data, header)
    except IndexError:
        raise CorruptBatch("the records break off") from None
    if header.is_log_append_time:
        at = header.max_timestamp
        return [Record(offset, at, *rest) for offset, _, *rest in records]
    return records


def _payload(batch: Buffer, position: int, header: BatchHeader) -> bytes:
    if header.record_count < 0:
        raise CorruptBatch(f"a batch of {header.record_count} records")
    if header.record_count == 0 and header.batch_length == batches.HEADER_BYTES - 12:
        return b""  # what compaction leaves of a producer's last batch: no records, any codec
    return bytes(batches.payload(batch, position))


def _decode(data: bytes, header: BatchHeader) -> list[Record]:
    # One long loop, because calls would cost more than the work: integers of one or two bytes, which
    # nearly all are, are read in place. IndexError means that the data ended inside a record.
    records: list[Record] = []
    append, make = records.append, tuple.__new__
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
        if key_length == 1:
            key = None
        else:
            if key_length > 127:
                key_length, position = varint.read(data, position - 1, end)
            if key_length & 1:
                raise CorruptBatch(f"a key at byte {position} has a negative length")
            start = position
            position += key_length >> 1
            key = data[start:position]

        value_length = data[position]
        position += 1
        if value_length == 1:
            value = None
        else:
            if value_length > 127:
                more = data[position]
                if more > 127:
                    value_length, position = varint.read(data, position - 1, end)
                else:
                    value_length += (more << 7) - 128
                    position += 1
            if value_length & 1:
                raise CorruptBatch(f"a value at byte {position} has a negative length")
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
        append(make(Record, (base_offset + (previous >> 1), timestamp, key, value, headers)))
    if position != end or (previous >> 1) > header.last_offset_delta:
        raise CorruptBatch(f"{header.record_count} records do not end where the batch ends")
    if wide and any(not _INT64_MIN <= record.timestamp <= _INT64_MAX for record in records):
        raise CorruptBatch("a timestamp does not fit into 64 bits")
    return records


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


def keys(batch: Buffer, position: int = 0) -> list[tuple[int, bytes | None, bool]]:
    """Offset, key and whether there is a value, of each record: what compaction decides by.

    Values and headers are skipped, not checked: `decode` refuses some batches that this reads.
    """
    header = batches.read_header(batch, position)
    data = _payload(batch, position, header)
    found: list[tuple[int, bytes | None, bool]] = []
    at, end = 0, len(data)
    for _ in range(header.record_count):
        length, at = varint.decode(data, at, end)
        record_end = at + length
        if not 0 <= length <= end - at:
            raise CorruptBatch(f"a record at byte {at} has an impossible length")
        _, at = varint.decode(data, at + 1, record_end, 10)
        delta, at = varint.decode(data, at, record_end)
        key_length, at = varint.decode(data, at, record_end)
        key = None if key_length < 0 else data[at : at + key_length]
        value_length, _ = varint.decode(data, at + max(key_length, 0), record_end)
        found.append((header.base_offset + delta, key, value_length >= 0))
        at = record_end
    if at != end:
        raise CorruptBatch(f"{header.record_count} records do not end where the batch ends")
    return found


def first_at_or_after(batch: Buffer, timestamp: int, position: int = 0) -> Record | None:
    """The first record of the batch, in offset order, that is not older than `timestamp`."""
    return next((r for r in decode(batch, position) if r.timestamp >= timestamp), None)


def build(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: int = codecs.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """A batch of these records, which must come in the order of their offsets.

    No records at all are allowed when `last_offset_delta` is given: compaction keeps such a batch
    for its producer's sequence. `delete_horizon_ms` takes the place of the base timestamp (KIP-534).
    """
    kept = list(records)
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    elif base_timestamp is None:
        base_timestamp = kept[0].timestamp if kept else _NO_TIMESTAMP
    if log_append_time is not None:
        max_timestamp = log_append_time
    elif max_timestamp is None:
        max_timestamp = max((r.timestamp for r in kept), default=_NO_TIMESTAMP)
    if last_offset_delta is None:
        assert kept, "a batch without records needs the last offset delta that it had"
        last_offset_delta = kept[-1].offset - base_offset
    attributes = (
        (codec if kept else codecs.NONE)
        | (log_append_time is not None) << 3
        | transactional << 4
        | control << 5
        | (delete_horizon_ms is not None) << 6
    )
    payload = b"".join([_encode(record, base_offset, base_timestamp) for record in kept])
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(kept),
    )
    return batches.pack(header, codecs.compress(attributes & 7, payload, level))


def _encode(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    spell = varint.encode
    offset, timestamp, key, value, headers = record
    fields = [
        b"\0",
        spell(timestamp - base_timestamp),
        spell(offset - base_offset),
        b"\1" if key is None else spell(len(key)),
        key or b"",
        b"\1" if value is None else spell(len(value)),
        value or b"",
        spell(len(headers)),
    ]
    for name, content in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        fields += (spell(len(encoded)), encoded)
        fields += (b"\1",) if content is None else (spell(len(content)), content)
    body = b"".join(fields)
    return spell(len(body)) + body
