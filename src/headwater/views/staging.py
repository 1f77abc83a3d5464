"""What a task does with its rows of a view: puts them in order, keeps bad keys apart, stages the rest.

Runs in Spark's Python workers, called through `mapInArrow` by `applying`. Rows of a view with a key are
held in memory, a task's share of a batch at a time: `maxOffsetsPerTrigger` bounds it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.views.ordering import RECORD, in_order
from headwater.views.target import VALID_FROM, Kind, Part, Refusal, Shape, Target

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 50_000


@dataclass(frozen=True)
class Staged:
    """A task's answer to the driver."""

    part: Part

    def to_json(self) -> str:
        part = self.part
        refused = [[each.row, each.reason, each.number] for each in part.refused]
        return json.dumps([part.number, part.place, part.rows, refused])

    @classmethod
    def from_json(cls, text: str) -> Staged:
        number, place, rows, refused = json.loads(text)
        found = (Refusal(row, reason, number, place_in) for row, reason, place_in in refused)
        return cls(Part(number, place, rows, tuple(found)))


def stage_part(
    target: Target, batch: int, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Stage a task's rows; yields one row with what the driver must know."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "runs inside a task"
    number = context.partitionId()
    refused: list[Refusal] = []
    ready = _filled(_ready(target.shape, rows, number, refused))
    first = next(ready, None)
    part = Part(number, "", 0)
    if first is not None:
        part = target.stage(batch, number, _chain(first, ready))
    if refused:
        part = replace(part, refused=(*refused, *part.refused))
    answer = pa.array([Staged(part).to_json()], pa.string())
    yield pa.RecordBatch.from_arrays([answer], names=["part"])


def find_origins(
    shape: Shape, wanted: Collection[str], rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For those of the rows whose JSON is wanted, the record each came from."""
    import pyarrow as pa

    from headwater.views.json_rows import documents

    for batch in rows:
        texts = documents(batch.select(shape.schema.names))
        found = [place for place, text in enumerate(texts) if text in wanted]
        if found:
            chosen = batch.take(pa.array(found, pa.int64()))
            arrays = [pa.array([texts[place] for place in found], pa.string())]
            arrays += [chosen.column(name) for name in RECORD]
            yield pa.RecordBatch.from_arrays(arrays, names=["row", "topic", "partition", "offset"])


def identity(shape: Shape, row: str) -> str:
    """The text under which `find_origins` knows a refused row: its own columns, in their order."""
    said = json.loads(row)
    own = {name: said.get(name) for name in shape.schema.names}
    return json.dumps(own, ensure_ascii=False, separators=(",", ":"))


def _ready(
    shape: Shape, rows: Iterator[pa.RecordBatch], part: int, refused: list[Refusal]
) -> Iterator[pa.RecordBatch]:
    """As `Target.stage` takes them; rows without a key are noted as refused."""
    import pyarrow as pa

    if shape.kind is Kind.APPEND:
        yield from rows
        return
    held = [with_keys(shape, batch, part, refused) for batch in rows]
    if held:
        yield from in_order(pa.Table.from_batches(held), shape).to_batches(ROWS_AT_ONCE)


def with_keys(
    shape: Shape, batch: pa.RecordBatch, part: int, refused: list[Refusal]
) -> pa.RecordBatch:
    """The rows that have what every row needs; the others are noted."""
    import pyarrow.compute as pc

    from headwater.views.json_rows import documents

    needed = [(name, f"its key {name} is null") for name in shape.key]
    if shape.kind is Kind.HISTORY:
        needed.append((VALID_FROM, "it does not say since when it is so"))
    for name, reason in needed:
        column = batch.column(name)
        if column.null_count:
            bad = batch.filter(column.is_null()).select(shape.schema.names)
            refused += [Refusal(text, reason, part) for text in documents(bad)]
            batch = batch.filter(pc.is_valid(column))
    return batch


def _filled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
