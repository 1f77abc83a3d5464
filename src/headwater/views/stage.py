"""What a task does with its rows of a view: puts them in order, keeps bad keys apart, stages the rest.

Runs in Spark's Python workers, called through `mapInArrow` by `applier`. Rows of a view with a key are
held in memory, a task's share of a batch at a time: `maxOffsetsPerTrigger` bounds it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.views.order import RECORD, in_order
from headwater.views.targets.contract import DELETED, VALID_FROM, Kind, Part, Refusal, Shape, Target

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
    target: Target, batch: int, rows: Iterator[pa.RecordBatch], *, every: bool = False
) -> Iterator[pa.RecordBatch]:
    """Stage a task's rows; yields one row with what the driver must know.

    `every`: the target judges rows, and gets every change of a key.
    """
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "runs inside a task"
    number = context.partitionId()
    part = stage_rows(target, batch, number, rows, every=every)
    answer = pa.array([Staged(part).to_json()], pa.string())
    yield pa.RecordBatch.from_arrays([answer], names=["part"])


def stage_rows(
    target: Target, batch: int, number: int, rows: Iterator[pa.RecordBatch], *, every: bool
) -> Part:
    """Stage what is to count of a part's rows."""
    refused: list[Refusal] = []
    ready = _filled(_ready(target, rows, number, refused, every=every))
    first = next(ready, None)
    part = Part(number, "", 0)
    if first is not None:
        part = target.stage(batch, number, _chain(first, ready))
    return replace(part, refused=(*refused, *part.refused)) if refused else part


def find_origins(
    shape: Shape, wanted: Collection[str], rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For those of the rows whose JSON is wanted, the record each came from."""
    import pyarrow as pa

    from headwater.views.targets.float_keys import with_one_zero
    from headwater.views.targets.json_rows import documents

    for batch in rows:
        texts = documents(with_one_zero(batch.select(shape.schema.names), shape.key))
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


def key_text(key: Sequence[str], row: str) -> bytes | None:
    """The key of a refused row as a record of a topic would have it; None where it has none."""
    said = json.loads(row)
    found = {name: said.get(name) for name in key}
    if not found or None in found.values():
        return None
    value = found if len(found) > 1 else next(iter(found.values()))
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _ready(
    target: Target,
    rows: Iterator[pa.RecordBatch],
    part: int,
    refused: list[Refusal],
    *,
    every: bool,
) -> Iterator[pa.RecordBatch]:
    """As `Target.stage` takes them; rows that cannot count are noted as refused."""
    import pyarrow as pa

    shape = target.shape
    if shape.kind is Kind.APPEND:
        yield from rows
        return
    held = [with_keys(shape, batch, part, refused) for batch in rows]
    if not held:
        return
    given = pa.Table.from_batches(held)
    chosen = in_order(given, shape, every=every)
    if chosen.num_rows < given.num_rows:
        # What is chosen is judged when it is staged, but a row behind which another stood never would be.
        taken = [_taken(target, batch, part, refused) for batch in held]
        chosen = in_order(pa.Table.from_batches(taken), shape)
    yield from chosen.to_batches(ROWS_AT_ONCE)


def _taken(
    target: Target, batch: pa.RecordBatch, part: int, refused: list[Refusal]
) -> pa.RecordBatch:
    """The rows that the target can take; the others are noted."""
    from headwater.views.targets.json_rows import documents
    from headwater.views.targets.staged_files import all_but, refusals

    bad = refusals(target.shape, batch, target.refused)
    for number, reason in bad.items():
        shown = batch.slice(number, 1).select(target.shape.schema.names)
        refused.append(Refusal(documents(shown)[0], reason, part))
    return batch.filter(all_but(bad, batch.num_rows)) if bad else batch


def with_keys(
    shape: Shape, batch: pa.RecordBatch, part: int, refused: list[Refusal]
) -> pa.RecordBatch:
    """The rows that have what every row needs, their keys as Spark compares them; the others are noted."""
    import pyarrow.compute as pc

    from headwater.views.targets.float_keys import with_one_zero
    from headwater.views.targets.json_rows import documents

    needed = [(name, f"its key {name} is null") for name in shape.key]
    if shape.kind is Kind.HISTORY:
        needed.append((VALID_FROM, "it does not say since when it is so"))
    for name, reason in needed:
        column = batch.column(name)
        if column.null_count:
            bad = batch.filter(column.is_null()).select(shape.schema.names)
            refused += [Refusal(text, reason, part) for text in documents(bad)]
            batch = batch.filter(pc.is_valid(column))
    return with_one_zero(batch, shape.key)


def deletes(shape: Shape, refusals: Iterable[Refusal]) -> pa.RecordBatch | None:
    """Rows that delete the keys of refused ones; None where these have no key."""
    import pyarrow as pa

    from headwater.views.targets.json_rows import from_objects
    from headwater.views.targets.staged_files import staged_schema

    said = [json.loads(each.row) for each in refusals]
    keys = {
        json.dumps([row.get(n) for n in shape.key]): row for row in said if isinstance(row, dict)
    }
    named = [
        {name: row[name] for name in shape.key}
        for row in keys.values()
        if all(row.get(name) is not None for name in shape.key)
    ]
    if not named:
        return None
    schema = staged_schema(shape)
    rows = from_objects(named, schema)
    gone = pa.array([True] * len(named))
    return rows.set_column(schema.get_field_index(DELETED), schema.field(DELETED), gone)


def _filled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
