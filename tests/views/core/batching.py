"""A driver and its one task without Spark: changes in the order of the log, cut into batches anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.testing.targets import at
from headwater.views.order import order_of
from headwater.views.stage import stage_rows
from headwater.views.targets.contract import DELETED, Applied, Refusal, RowsRefused, Target

TURNS_MAX = 20
Change = tuple[Any, ...]
"""The columns of a row, and whether it is deleted."""


@dataclass
class Outcome:
    """What readers see, and what went to the dead letters: rows and reasons."""

    rows: list[str]
    letters: list[tuple[str, str]] = field(default_factory=list)


def batches(changes: Sequence[Change], cuts: Iterable[int]) -> list[Sequence[Change]]:
    ends = [0, *sorted(set(cuts)), len(changes)]
    return [changes[a:b] for a, b in itertools.pairwise(ends) if a < b]


def followed(target: Target, given: Sequence[Sequence[Change]]) -> Outcome:
    """What a target holds after these batches."""
    target.create()
    epoch = target.claim()
    every = target.judges_rows()
    letters: list[Refusal] = []
    for number, changes in enumerate(given):
        rows = iter([_arrow(target, changes)])
        part = stage_rows(target, number, 0, rows, every=every)
        letters += part.refused
        for _ in range(TURNS_MAX):
            try:
                parts = [part] if part.rows else []
                target.commit(Applied(number, epoch, at(number + 1)), parts)
                break
            except RowsRefused as error:
                letters += error.refusals
        else:
            raise AssertionError("rows are refused again and again")
    with target.reading() as (_, found):
        tables = [pa.Table.from_batches([batch]) for batch in found]
    shown = [repr(row) for table in tables for row in table.to_pylist()]
    said = sorted((each.row, each.reason) for each in letters)
    return Outcome(sorted(shown), said)


def _arrow(target: Target, changes: Sequence[Change]) -> pa.RecordBatch:
    schema = target.shape.schema
    schema = schema.append(pa.field(DELETED, pa.bool_())).append(
        pa.field(order_of(target.shape), pa.int64())
    )
    rows = [(*change, number) for number, change in enumerate(changes)]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
