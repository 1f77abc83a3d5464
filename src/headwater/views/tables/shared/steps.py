"""The four steps of one attempt of one batch: from a manifest and changes to the next manifest, all in files.

Made by `upkeep`. Every step is written before the next one reads it, below the attempt's own folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from headwater.views.tables.decoder import Table, state_schema
from headwater.views.tables.plan import Plan
from headwater.views.tables.program import TOUCHED, Program
from headwater.views.tables.shared import net
from headwater.views.tables.shared.difference import ViewLayout, compared, counted, twice
from headwater.views.tables.shared.manifest import Manifest, Piece
from headwater.views.tables.shared.pieces import BUCKETS, Files, Layout, bucket

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMES = re.compile(r"\b(?:t|change|rows|keys)\d+\b|\btouched\b")
Function = Callable[["SparkSession", Mapping[int, "DataFrame"]], "DataFrame"]


@dataclass(frozen=True)
class Steps:
    """One attempt of one batch."""

    plan: Plan
    files: Files
    layouts: Sequence[Layout]
    view: ViewLayout
    batch: int
    attempt: str

    def run(self, state: Manifest, changes: Sequence[DataFrame], function: Function) -> Manifest:
        """The state after it; all files are written."""
        old = self._folded(state)
        deltas, touching = self._net(old, changes)
        tables = tuple(
            pieces.with_delta(deltas[n]) if n in deltas else pieces
            for n, pieces in enumerate(old.tables)
        )
        now = replace(old, batch=self.batch, tables=tables, difference=None)
        program = None if self.batch == 0 else self.plan.program
        if program is not None:
            touching = [n for n in touching if program.looks_at(n)]
        if not touching and self.batch > 0:
            return now
        found = self._difference(old, now, program, touching, function)
        return (
            now
            if found is None
            else replace(now, held=now.held.with_delta(found), difference=found)
        )

    def _folded(self, state: Manifest) -> Manifest:
        files, attempt = self.files, self.attempt
        tables = tuple(
            files.folded(pieces, self.layouts[n], attempt, f"t{n}")
            for n, pieces in enumerate(state.tables)
        )
        return replace(
            state, tables=tables, held=files.folded(state.held, self.view.held, attempt, "held")
        )

    # ---- step 1 -----------------------------------------------------------------------------------

    def _net(
        self, old: Manifest, changes: Sequence[DataFrame]
    ) -> tuple[dict[int, Piece], list[int]]:
        """A delta of each table in which something changes, and in which of them more than a time does."""
        written = []
        for n, (count, buckets) in self._looked_at(changes).items():
            if count:
                layout = self.layouts[n]
                known = self.files.rows(old.tables[n], layout, buckets)
                found = net.net(changes[n], known, layout, self.batch)
                self.files.write(found, f"{self.attempt}/t{n}")
                written.append(n)
        deltas, touching = {}, []
        for n, (count, changed) in self._counted(written).items():
            if count:
                deltas[n] = Piece(f"{self.attempt}/t{n}", count)
            if changed:
                touching.append(n)
        return deltas, touching

    def _looked_at(self, changes: Sequence[DataFrame]) -> dict[int, tuple[int, list[int] | None]]:
        """How many changes each table has, and which of its buckets they are about; None: all."""
        from pyspark.sql import functions as F  # noqa: N812

        asked = []
        for n, rows in enumerate(changes):
            olds = [f"m{m}" for m in range(len(self.layouts[n].keys))]
            now, then = bucket(self.layouts[n].keys), bucket(olds)
            asked.append(
                rows.agg(
                    F.lit(n),
                    F.count("*"),
                    F.count_if("emptied"),
                    F.collect_set(now),
                    F.collect_set(F.when(F.col("m0").isNotNull(), then)),
                )
            )
        found = {}
        for n, count, emptied, now, then in reduce(_union, asked).collect():
            about = {*now, *then}
            found[n] = count, None if emptied or len(about) == BUCKETS else sorted(about)
        return dict(sorted(found.items()))

    def _counted(self, tables: Sequence[int]) -> dict[int, tuple[int, int]]:
        """How many rows each delta has, and how many that are more than said again."""
        from pyspark.sql import functions as F  # noqa: N812

        counts = F.count("*"), F.count_if(~F.col("same"))
        asked = [self._delta(n).agg(F.lit(n), *counts) for n in tables]
        rows = reduce(_union, asked).collect() if asked else []
        return {n: (count, changed) for n, count, changed in sorted(rows)}

    def _delta(self, table: int) -> DataFrame:
        columns = net.delta_columns(self.layouts[table].columns)
        return self.files.read([f"{self.attempt}/t{table}"], columns)

    # ---- steps 2 to 4 -----------------------------------------------------------------------------

    def _difference(
        self,
        old: Manifest,
        now: Manifest,
        program: Program | None,
        touching: Sequence[int],
        function: Function,
    ) -> Piece | None:
        touched = None
        if program is None:
            rows = {n: self._own(n, self._table(now, n)) for n in range(len(self.layouts))}
        else:
            touched = self._touched(old, now, program, touching)
            rows = self._deciding(now, program, touched)
        given = {n: each.toDF(*self.plan.tables[n].row.names) for n, each in rows.items()}
        held = self.files.rows(now.held, self.view.held)
        followed = {} if program is None else self.plan.followed
        result = function(self.files.spark, given)
        name = f"{self.attempt}/difference"
        self.files.write(compared(result, held, self.view, self.batch, touched, followed), name)
        written = self.files.read([name], self.view.columns)
        count, times = counted(written)
        if times > 1:
            self.plan.must_be_distinct(twice(written, self.view))
        return Piece(name, count) if count else None

    def _table(self, state: Manifest, table: int) -> DataFrame:
        return self.files.rows(state.tables[table], self.layouts[table])

    def _own(self, table: int, rows: DataFrame) -> DataFrame:
        """Without the columns that only the state needs."""
        return rows.select(*(f"c{n}" for n in range(len(self.plan.tables[table].row.names))))

    def _touched(
        self, old: Manifest, now: Manifest, program: Program, touching: Sequence[int]
    ) -> DataFrame:
        """The keys that the changed rows touch: as they were in the old state, as they are in the new."""
        parts = []
        for state, rows_of in ((old, net.before), (now, net.after)):
            seen = {n: rows_of(self._delta(n), self.layouts[n]) for n in touching}
            names = {f"change{n}": rows for n, rows in seen.items()}
            names |= {f"t{n}": self._table(state, n) for n in range(len(self.layouts))}
            for table, each in program.upward:
                if table in seen:
                    parts.append(self._sql(each.sql, names))
        found = reduce(_union, parts)
        name = f"{self.attempt}/touched"
        self.files.write(found.distinct(), name)
        return self.files.read([name], found.schema)

    def _deciding(
        self, now: Manifest, program: Program, touched: DataFrame
    ) -> dict[int, DataFrame]:
        """The rows of every table that decide over the touched keys, each in a file."""
        known = {f"t{n}": self._table(now, n) for n in range(len(self.layouts))}
        known[TOUCHED] = touched
        for name, statement in program.downward:
            known[name] = self._sql(statement.sql, known)
        found = {}
        for n, layout in enumerate(self.layouts):
            names = program.rows.get(n, ())
            if not names:
                found[n] = self._own(n, self.files.read([], layout.columns))
                continue
            rows = reduce(_union, (known[name] for name in names))
            if len(names) > 1:
                rows = rows.dropDuplicates(list(layout.keys))
            place = f"{self.attempt}/rows{n}"
            self.files.write(self._own(n, rows), place)
            found[n] = self.files.read([place], self._own(n, rows).schema)
        return found

    def _sql(self, sql: str, names: Mapping[str, DataFrame]) -> DataFrame:
        """A statement of the program by Spark: its tables have names that no user's have."""
        for name in set(_NAMES.findall(sql)):
            names[name].createOrReplaceTempView(f"headwater_state_{name}")
        spelt = _NAMES.sub(lambda found: f"headwater_state_{found.group()}", sql)
        return self.files.spark.sql(spelt)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)


def layout_of(table: Table, spark: SparkSession) -> Layout:
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    # All may be null: of a row that is gone, only the key is known.
    own = [StructField(each.name, each.dataType) for each in state_schema(table, spark).fields]
    columns = StructType([*own, StructField("p", IntegerType()), StructField("ts", LongType())])
    return Layout(columns, tuple(f"c{n}" for n in table.keys))
