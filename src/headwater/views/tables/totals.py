"""Running totals of a view's groups, in its state: a change costs what it changes, not what its group holds.

Used by `upkeep` in step 3, in place of Spark, for a view that `aggregation` has found to be such a one. Rows
as they were are taken off the totals, rows as they are now are added to them.

    totals          for each group: g0, … its columns; n its rows; and of each measured column
                    n_C its values, up_C the sum of those above zero, down_C of those below
    values_C        for each group, a counted multiset of a column: v a value, n how many rows have it
    totalled        up to which batch the totals are, and of what: those of another batch are made anew

Sums are kept apart by sign, so it is known whether Spark, which adds in an order of its own, could have left
the range of its type on the way: then it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headwater.views.tables.aggregation import (
    AVERAGE,
    COUNT,
    GREATEST,
    LEAST,
    SUM,
    Aggregation,
    Measure,
)
from headwater.views.tables.program import TOUCHED
from headwater.views.tables.store import Store

_LONG_MAX = 2**63 - 1
_DOUBLE_EXACT_MAX = 2**53
"""Spark averages integers as floating-point numbers, which up to here are exact."""


@dataclass(frozen=True)
class Totals:
    """Those of one view. All is done in the transaction at hand."""

    store: Store
    of: Aggregation
    key: Sequence[int]
    """Which group's column each column of `touched` is."""
    result: pa.Schema

    # ---- up to which batch they are ---------------------------------------------------------------

    def are_of(self, batch: int) -> bool:
        self.store.run("CREATE TABLE IF NOT EXISTS totalled (batch BIGINT, what VARCHAR)")
        return self.store.rows("SELECT batch, what FROM totalled") == [(batch, self._what)]

    def finish(self, batch: int) -> None:
        """Say that they are of this batch."""
        self.store.run("DELETE FROM totalled")
        self.store.run("INSERT INTO totalled VALUES ($1, $2)", [batch, self._what])

    @property
    def _what(self) -> str:
        return repr(self.of)

    # ---- upkeep -----------------------------------------------------------------------------------

    def count(self) -> None:
        """Make them anew, from the table as it is."""
        rows = f"SELECT *, 1 AS sign FROM t{self.of.table}"
        self.store.run(f"CREATE OR REPLACE TABLE totals AS {self._sums(rows)}")
        for column in self._valued:
            self.store.run(
                f"CREATE OR REPLACE TABLE values_{column} AS {self._values(rows, column)}"
            )

    def move(self, before: str, after: str) -> None:
        """Take rows off and add others, given as SQL."""
        rows = f"SELECT *, -1 AS sign FROM ({before}) UNION ALL SELECT *, 1 AS sign FROM ({after})"
        self._add("totals", self._groups, self._sums(rows), self._summed)
        for column in self._valued:
            keys = [*self._groups, "v"]
            self._add(f"values_{column}", keys, self._values(rows, column), ["n"])

    def _add(self, table: str, keys: Sequence[str], moved: str, sums: Sequence[str]) -> None:
        """Add to the numbers of a table; what has come to no rows goes."""
        shown = ", ".join(f"m.{key}" for key in keys)
        added = ", ".join(f"m.{name} + coalesce(t.{name}, 0) AS {name}" for name in sums)
        same = " AND ".join(f"m.{key} IS NOT DISTINCT FROM t.{key}" for key in keys)
        self.store.run(
            f"""CREATE OR REPLACE TEMP TABLE moved AS SELECT {shown}, {added}, t.rowid AS place
            FROM ({moved}) m LEFT JOIN {table} t ON {same}"""
        )
        self.store.run(f"DELETE FROM {table} WHERE rowid IN (SELECT place FROM moved)")
        self.store.run(f"INSERT INTO {table} SELECT * EXCLUDE (place) FROM moved WHERE n <> 0")

    def _sums(self, rows: str) -> str:
        parts = ["CAST(sum(sign) AS BIGINT) AS n"]
        for column in self._counted:
            parts.append(
                f"CAST(coalesce(sum(sign) FILTER ({column} IS NOT NULL), 0) AS BIGINT) AS n_{column}"
            )
        for column in self._added:
            wide = self._wide(column)
            value = f"CAST({column} AS {wide})"
            signed = f"CASE WHEN sign > 0 THEN {value} ELSE -{value} END"
            parts += [
                f"CAST(coalesce(sum({signed}) FILTER ({column} {side} 0), 0) AS {wide}) AS {name}_{column}"
                for name, side in (("up", ">"), ("down", "<"))
            ]
        return f"SELECT {self._as_groups}, {', '.join(parts)} FROM ({rows}) GROUP BY ALL"

    def _values(self, rows: str, column: str) -> str:
        return (
            f"SELECT {self._as_groups}, {column} AS v, CAST(sum(sign) AS BIGINT) AS n FROM ({rows}) "
            f"WHERE {column} IS NOT NULL GROUP BY ALL HAVING sum(sign) <> 0"
        )

    def _wide(self, column: str) -> str:
        kind = self._kind(column)
        return f"DECIMAL(38, {kind.scale})" if types.is_decimal(kind) else "HUGEINT"

    # ---- what the view shows of them --------------------------------------------------------------

    def touched(self) -> pa.Table | None:
        """The view's rows of the touched groups; None where Spark has to be asked."""
        only = " AND ".join(
            f"t.g{group} IS NOT DISTINCT FROM x.w{n}" for n, group in enumerate(self.key)
        )
        joined = "".join(self._extremes(column, only) for column in self._valued)
        shown = ", ".join(f"{self._shown(n)} AS v{n}" for n in range(len(self.of.shown)))
        found = self.store.arrow(
            f"SELECT {shown}, {self._exact} AS exact FROM totals t {joined} SEMI JOIN {TOUCHED} x ON {only}"
        )
        if not pc.all(found["exact"], min_count=0).as_py():
            return None
        return found.drop_columns(["exact"]).rename_columns(self.result.names).cast(self.result)

    def _extremes(self, column: str, only: str) -> str:
        own = ", ".join(f"t.{group}" for group in self._groups)
        same = " AND ".join(f"{column}.{g} IS NOT DISTINCT FROM t.{g}" for g in self._groups)
        return f""" LEFT JOIN (SELECT {own}, min(v) AS least, max(v) AS greatest
            FROM values_{column} t SEMI JOIN {TOUCHED} x ON {only} GROUP BY ALL) {column} ON {same}"""

    def _shown(self, number: int) -> str:
        what = self.of.shown[number]
        if not isinstance(what, Measure):
            return f"t.g{what}"
        column = what.column
        if what.kind == COUNT:
            return "t.n" if column is None else f"t.n_{column}"
        if what.kind in (LEAST, GREATEST):
            return f"{column}.{what.kind}"
        total = f"t.up_{column} + t.down_{column}"
        if what.kind == AVERAGE:
            value = f"CAST({total} AS DOUBLE) / CAST(t.n_{column} AS DOUBLE)"
        else:
            kind = self.result.field(number).type
            spelt = (
                f"DECIMAL({kind.precision}, {kind.scale})" if types.is_decimal(kind) else "BIGINT"
            )
            value = f"TRY_CAST({total} AS {spelt})"
        return f"CASE WHEN t.n_{column} > 0 THEN {value} END"

    @property
    def _exact(self) -> str:
        """Whether Spark would come to the same, in whatever order it adds."""
        whole = [c for c in self.of.measured(SUM) if types.is_integer(self._kind(c))]
        tests = [f"(t.up_{c} <= {_LONG_MAX} AND t.down_{c} >= {-_LONG_MAX})" for c in whole]
        tests += [
            f"(t.up_{c} - t.down_{c} <= {_DOUBLE_EXACT_MAX})" for c in self.of.measured(AVERAGE)
        ]
        return " AND ".join(tests) or "true"

    # ---- names ------------------------------------------------------------------------------------

    @property
    def _groups(self) -> list[str]:
        return [f"g{n}" for n in range(len(self.of.groups))]

    @property
    def _as_groups(self) -> str:
        return ", ".join(f"{column} AS g{n}" for n, column in enumerate(self.of.groups))

    @property
    def _added(self) -> list[str]:
        return self.of.measured(SUM, AVERAGE)

    @property
    def _counted(self) -> list[str]:
        return self.of.measured(SUM, AVERAGE, COUNT)

    @property
    def _valued(self) -> list[str]:
        return self.of.measured(LEAST, GREATEST)

    @property
    def _summed(self) -> list[str]:
        counts = [f"n_{column}" for column in self._counted]
        return ["n", *counts, *(f"{s}_{c}" for c in self._added for s in ("up", "down"))]

    def _kind(self, column: str) -> pa.DataType:
        return self.store.tables[self.of.table].columns.field(column).type
