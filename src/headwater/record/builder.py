"""Writing a batch of records, for those who produce them here: compaction, the broker's own topics,
transaction markers, tests. Called as `records.build`; the layout is described there and in `batch`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headwater.record import batch as batches
from headwater.record import codecs, varint
from headwater.record.batch import BatchHeader

if TYPE_CHECKING:
    from headwater.record.records import Record

_NO_TIMESTAMP = -1


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
    for its producer's sequence. `delete_horizon_ms` takes the base timestamp's place (KIP-534).
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
        if not kept:
            raise ValueError("a batch without records needs the last offset delta that it had")
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
