"""What joins and groups of a view compare besides columns: Spark's SQL over the columns of each changed row.

Called by `envelopes` for the changes of a batch, and by `pipelines.expected_rows` for whole tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.tables.bad_values import BadValue, Refuse
from headwater.views.tables.decoder import Table
from headwater.views.tables.frames import frame_of
from headwater.views.tables.set_aside import NOBODY, Blame, by_halves

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 20_000


@dataclass(frozen=True)
class Derived:
    """Adds d0, … to changes."""

    spark: SparkSession
    refuse: Refuse
    """Gets the records of which they cannot be computed."""
    blame: Blame = NOBODY

    def __call__(self, table: Table, changes: pa.Table) -> pa.Table:
        if not table.derived:
            return changes
        own = [f"c{n}" for n in range(len(table.row.names))]
        shown = [f"{text} AS d{n}" for n, text in enumerate(table.derived)]

        def of(rows: pa.Table) -> pa.Table:
            given = frame_of(self.spark, rows.select(own), table.row, None)
            return given.selectExpr(*shown).toArrow()

        parts = []
        for start in range(0, max(changes.num_rows, 1), AT_ONCE):
            some = changes.slice(start, AT_ONCE)
            part, _ = self.blame.tried(partial(of, some))
            parts.append(self._but_what_fails(table, some, of) if part is None else part)
        derived = pa.concat_tables(parts)
        columns = {name: changes[name] for name in own}
        columns |= {name: derived[name] for name in derived.column_names}
        rest = changes.column_names[len(own) :]
        return pa.table(columns | {name: changes[name] for name in rest})

    def _but_what_fails(
        self, table: Table, changes: pa.Table, of: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """Nothing for a row of which it cannot be computed, and a dead letter of its record: no key is found
        by it, so none might be set aside."""

        def some(numbers: Sequence[int]) -> tuple[Sequence[int], pa.Table]:
            return numbers, of(changes.take(pa.array(numbers, pa.int64())))

        found, failed = by_halves(range(changes.num_rows), some, self.blame)
        places = [n for numbers, _ in found for n in numbers] + [n for n, _ in failed]
        given = [each for _, each in found] or [of(changes.slice(0, 0))]
        schema = given[0].schema
        nothing = pa.table([pa.nulls(len(failed), kind) for kind in schema.types], schema.names)
        p, o = changes["p"].to_pylist(), changes["o"].to_pylist()
        self.refuse([BadValue(table.topic, p[n], o[n], why, b"") for n, why in failed])
        united = pa.concat_tables([*given, nothing.cast(schema)])
        return united.take(pc.sort_indices(pa.array(places, pa.int64())))
