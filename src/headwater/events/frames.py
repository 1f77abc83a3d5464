"""Events in Spark: columns that every query can use, old versions lifted to today's shape.

    events = frames.decoded(hw.stream("accounts"), accounts)
    events.where("type = 'Deposited'").select("id", F.from_json("data", "amount LONG").amount)

Columns: `id`, `n`, `type` (without version), `data` (JSON of today's version), `command`, `who`, `why`,
`correlation`, `causation`, `at`, `_deleted`; and `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`
of the record. A record without a value (`headwater forget` sends them) has only its id and `_deleted`, so
that a view with the id as its key deletes the row. The aggregate travels to the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headwater.events import fence, plain
from headwater.events.aggregate import AnyAggregate
from headwater.events.codec import correlation_of
from headwater.events.upcasters import Upcasts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["SCHEMA", "decoded"]

_OF_THE_RECORD = {
    "key": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
}
_TEXTS = ("type", "data", "command", "who", "why", "correlation", "causation")
SCHEMA = (
    "id string, n long, "
    + ", ".join(f"{name} string" for name in _TEXTS)
    + ", at timestamp, _deleted boolean, "
    + ", ".join(f"_{name} {kind}" for name, kind in _OF_THE_RECORD.items())
)


def decoded(records: DataFrame, aggregate: AnyAggregate) -> DataFrame:
    """Records with Kafka's columns as events; batch or streaming."""
    upcasts = plain.upcasts_of(aggregate)

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _decoded(batch, upcasts)

    return records.select("value", *_OF_THE_RECORD).mapInArrow(decode, SCHEMA)


def _decoded(batch: pa.RecordBatch, upcasts: Upcasts) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts: dict[str, list[str | None]] = {name: [] for name in _TEXTS}
    ids: list[str] = []
    numbers: list[int | None] = []
    batch = batch.filter(
        pc.invert(pc.equal(batch.column("key"), pa.scalar(fence.KEY)).fill_null(False))
    )
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    for key, value in zip(keys, values, strict=True):
        if value is None:
            ids.append((key or b"").decode())
            numbers.append(None)
            for column in texts.values():
                column.append(None)
            continue
        event = plain.decode(value)
        type, data = plain.lifted(event, upcasts)
        ids.append(event.id)
        numbers.append(event.n)
        meta = (event.who, event.why, correlation_of(event), event.causation)
        said = (type, data.decode(), event.command, *meta)
        for column, text in zip(texts.values(), said, strict=True):
            column.append(text)
    at = batch.column("timestamp")
    arrays = [
        pa.array(ids, pa.string()),
        pa.array(numbers, pa.int64()),
        *(pa.array(column, pa.string()) for column in texts.values()),
        at,
        batch.column("value").is_null(),
        *(batch.column(name) for name in _OF_THE_RECORD),
    ]
    names = ["id", "n", *_TEXTS, "at", "_deleted", *(f"_{name}" for name in _OF_THE_RECORD)]
    return pa.RecordBatch.from_arrays(arrays, names)
