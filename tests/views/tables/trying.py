"""A view kept current through a history, with crashes, by its query in DuckDB; compared every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headwater.views.tables.plan import Plan
from headwater.views.tables.upkeep import Upkeep
from tests.views.tables.histories import Held, Tables, as_changes, keyed
from tests.views.tables.queries import Query

DERIVED = {
    "computed": {
        0: lambda row: row["c3"] and row["c3"].lower(),
        1: lambda row: row["c2"] and row["c2"].lower(),
    }
}


class BySql:
    """A view's query in DuckDB, on given rows."""

    def __init__(self, query: Query, plan: Plan) -> None:
        self._connection = duckdb.connect(":memory:")
        self._sql = query.sql
        self._plan = plan

    def __call__(self, rows: Mapping[int, pa.Table]) -> pa.Table:
        for n, name in enumerate("abc"):
            self._connection.register(name, rows[n].rename_columns(self._plan.tables[n].row.names))
        found = self._connection.sql(self._sql).to_arrow_table()
        return found.select(self._plan.result.names).cast(self._plan.result)


def follow(
    history: Sequence[Any], plan: Plan, query: Query, folder: Path, *, in_memory: bool = True
) -> None:
    """Apply every batch, some only after a crash, and compare."""
    upkeep, tables, view = Upkeep(plan, folder, in_memory), Tables(), Held(query.key)
    compute = BySql(query, plan)
    try:
        for number, (crash, batch) in enumerate(history):
            tables.take(batch)
            changes = as_changes(batch, plan.columns, DERIVED.get(plan.name, {}))
            upkeep = crashed(upkeep, crash, number, changes, compute, view)
            upkeep.apply(number, lambda changes=changes: changes, compute, view.taking(number))
            assert view.rows == keyed(compute(tables.arrow(plan.tables, plan.columns)), query.key)
    finally:
        upkeep.close()


def crashed(
    upkeep: Upkeep, crash: str, batch: int, changes: Any, compute: Any, view: Held
) -> Upkeep:
    """Begin a batch and end it as a crash would; what comes after a start anew."""

    class Crash(Exception):
        pass

    def fail(*_: object) -> Any:
        raise Crash

    def write_and_fail(difference: Any) -> None:
        view.taking(batch)(difference)
        raise Crash

    how = {
        "while computing": (fail, view.taking(batch)),
        "before the target": (compute, fail),
        "after the target": (compute, write_and_fail),
    }
    if crash in how:
        with suppress(Crash):
            upkeep.apply(batch, lambda: changes, *how[crash])
        if batch % 2:
            upkeep.close()
        else:
            upkeep.let_go()
        upkeep = Upkeep(upkeep.plan, upkeep.folder, upkeep.in_memory)
        assert upkeep.batch == batch - 1 or crash == "while computing"
    return upkeep
