"""One micro-batch of a view over tables whose state is on shared storage: the four steps, by executors.

    1  the rows that change, as they were and as they are                         (netting)
    2  the view's keys that they touch, before in the old state, after in the new (views.tables.program)
    3  the view's function on the rows that decide over these keys
    4  the difference from what the view holds                                    (difference)

    then   the manifest, with all of it ──▶ the target, with the position ──▶ Spark's commit of the batch

What lies between two steps is a file of the batch's attempt, so each is computed once, and a lost worker
costs its tasks alone. The driver plans, and knows numbers of rows and names of files; it holds no row.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.views.tables.decoding import Table, state_schema
from headwater.views.tables.plan import Plan
from headwater.views.tables.program import TOUCHED, Program
from headwater.views.tables.shared import netting, takeover
from headwater.views.tables.shared.difference import ViewLayout, compared, counted, twice
from headwater.views.tables.shared.folder import Folder
from headwater.views.tables.shared.manifest import Manifest, Piece, leftovers, nothing
from headwater.views.tables.shared.pieces import BUCKETS, DATA, Files, Layout, bucket
from headwater.views.targets.contract import Misfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MANIFESTS = "manifests"
_NAMES = re.compile(r"\b(?:t|change|rows|keys)\d+\b|\btouched\b")
Changes = Callable[[Files, str], Sequence["DataFrame"]]
"""The changes of each table, as files under a name."""
Function = Callable[["SparkSession", Mapping[int, "DataFrame"]], "DataFrame"]
Write = Callable[["DataFrame"], None]
"""Brings a difference into the target, unless that has the batch."""


class SharedUpkeep:
    """A view over tables, kept current by one run of its query."""

    def __init__(self, spark: SparkSession, plan: Plan, place: str, result: StructType) -> None:
        self.plan = plan
        self._folder = Folder(spark, place)
        self._view = ViewLayout(result, plan.key)
        self._layouts = [_layout(table, spark) for table in plan.tables]
        self.state = self._known()

    @property
    def batch(self) -> int:
        """The last that is in the state; its target may not have it."""
        return self.state.batch

    def _known(self) -> Manifest:
        batches = [int(name) for name in self._folder.names(MANIFESTS) if name.isdecimal()]
        if not batches:
            return nothing(self.plan.query, len(self.plan.tables))
        found = Manifest.from_json(self._folder.read(f"{MANIFESTS}/{max(batches)}"))
        if found.query != self.plan.query:
            raise Misfit(
                f"the state in {self._folder.address} is that of another query; rebuild the view, with "
                "headwater rebuild or another name"
            )
        return found

    def take_over(self, spark: SparkSession, folder: Path, function: Function) -> None:
        """Begin with what one machine kept in a file there, where there is nothing else."""
        if self.batch >= 0 or not takeover.has_file(folder):
            return
        files = Files(spark, self._folder.address)
        found = takeover.taken_over(self.plan, folder, files, self._layouts, self._view, function)
        if found.batch >= 0:
            self._folder.write_new(f"{MANIFESTS}/{found.batch}", found.to_json())
            self.state = found
        takeover.remove_file(folder)

    def apply(
        self, spark: SparkSession, batch: int, changes: Changes, function: Function, write: Write
    ) -> None:
        """Bring a batch into the state and the view; one that is in the state, into the view again."""
        if batch > self.batch + 1:
            raise Misfit(
                f"the checkpoint of the view {self.plan.name!r} goes on with batch {batch}, and the "
                f"state of its tables ends with {self.batch}; put back what is missing, or rebuild the "
                "view with headwater rebuild"
            )
        files = Files(spark, self._folder.address)
        if batch == self.batch + 1:
            attempt = f"{batch}-{uuid.uuid4().hex[:12]}"
            work = _Batch(self.plan, files, self._layouts, self._view, batch, attempt)
            found = work.run(self.state, changes(files, f"{attempt}/changes"), function)
            self._folder.write_new(f"{MANIFESTS}/{batch}", found.to_json())
            before, self.state = self.state, found
            self._clean(before, attempt)
        write(self._difference(files))

    def _difference(self, files: Files) -> DataFrame:
        piece = self.state.difference
        if piece is None:
            return self._view.nothing_for_target(files.spark)
        return self._view.for_target(files.read([piece.name], self._view.columns))

    def _clean(self, before: Manifest, mine: str) -> None:
        """What only the batches before needed. The one before stays: its files are still being read where a
        driver that was replaced is not yet gone."""
        for name in self._folder.names(MANIFESTS):
            if name.isdecimal() and int(name) < before.batch:
                self._folder.remove(f"{MANIFESTS}/{name}")
        for name in leftovers(self._folder.names(DATA), (before, self.state)):
            self._folder.remove(f"{DATA}/{name}")
        for name in self._folder.names(f"{DATA}/{mine}"):  # what lay between two steps
            if f"{mine}/{name}" not in self.state.needed:
                self._folder.remove(f"{DATA}/{mine}/{name}")


@dataclass(frozen=True)
class _Batch:
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
                found = netting.net(changes[n], known, layout, self.batch)
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
        columns = netting.delta_columns(self.layouts[table].columns)
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
        for state, rows_of in ((old, netting.before), (now, netting.after)):
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


def _layout(table: Table, spark: SparkSession) -> Layout:
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    # All may be null: of a row that is gone, only the key is known.
    own = [StructField(each.name, each.dataType) for each in state_schema(table, spark).fields]
    columns = StructType([*own, StructField("p", IntegerType()), StructField("ts", LongType())])
    return Layout(columns, tuple(f"c{n}" for n in table.keys))
