"""Random histories of three tables: after every batch a view is what its query gives, from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.views.tables.decoding import Table
from headwater.views.tables.frames import computing
from headwater.views.tables.planning import empty_frames, marked, plan
from headwater.views.tables.upkeep import Plan, Upkeep
from tests.conftest import SOAK
from tests.views.tables.histories import HISTORIES, Held, Tables, as_changes, keyed
from tests.views.tables.queries import QUERIES, ROWS, Query

DERIVED = {
    "computed": {
        0: lambda row: row["c3"] and row["c3"].lower(),
        1: lambda row: row["c2"] and row["c2"].lower(),
    }
}


@pytest.fixture(scope="module")
def plans(spark: SparkSession) -> dict[str, Plan]:
    return {name: planned(spark, name, query) for name, query in QUERIES.items()}


def planned(spark: SparkSession, name: str, query: Query) -> Plan:
    tables = [Table(f"t{n}", StructType.fromDDL(row), ("id",)) for n, row in enumerate(ROWS)]
    frame = on_frames(query)(spark, empty_frames(spark, tables))
    return plan(name, query.key, frame, tables)


def on_frames(query: Query) -> Any:
    def function(_: SparkSession, frames: Mapping[int, DataFrame]) -> DataFrame:
        return query.function(*(marked(frames[n], n) for n in range(3)))

    return function


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


def test_the_key_is_followed_as_far_as_it_can_be(plans: dict[str, Plan]):
    followed = {name: each.program and each.program.key for name, each in plans.items()}
    assert followed == {name: each.followed or each.key for name, each in QUERIES.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_a_view_is_its_query_after_every_batch(
    plans: dict[str, Plan], name: str, tmp_path_factory: pytest.TempPathFactory
):
    @settings(max_examples=300 if SOAK else 30)
    @given(HISTORIES)
    def after_every_batch(history: list[Any]) -> None:
        follow(history, plans[name], QUERIES[name], tmp_path_factory.mktemp("state"))

    after_every_batch()


def follow(history: Sequence[Any], plan: Plan, query: Query, folder: Path) -> None:
    upkeep, tables, view = Upkeep(plan, folder), Tables(), Held(query.key)
    compute = BySql(query, plan)
    derived = DERIVED.get(plan.name, {})
    for number, batch in enumerate(history):
        tables.take(batch)
        changes = as_changes(batch, plan.columns, derived)
        upkeep.apply(number, lambda changes=changes: changes, compute, view.write)
        expected = compute(tables.arrow(plan.tables, plan.columns))
        assert view.rows == keyed(expected, query.key)
    upkeep.close()


@settings(max_examples=20 if SOAK else 2)
@given(history=HISTORIES.filter(lambda history: sum(map(len, history)) > 12))
def test_the_same_by_spark_for_all_views_at_once(
    history: list[Any],
    spark: SparkSession,
    plans: dict[str, Plan],
    tmp_path_factory: pytest.TempPathFactory,
):
    folder, tables = tmp_path_factory.mktemp("state"), Tables()
    kept = {name: (Upkeep(plans[name], folder / name), Held(q.key)) for name, q in QUERIES.items()}
    for number, batch in enumerate(history):
        tables.take(batch)
        for name, (upkeep, view) in kept.items():
            each = plans[name]
            changes = as_changes(batch, each.columns, DERIVED.get(name, {}))
            compute = computing(spark, each, on_frames(QUERIES[name]), folder)
            upkeep.apply(number, lambda changes=changes: changes, compute, view.write)
            expected = BySql(QUERIES[name], each)(tables.arrow(each.tables, each.columns))
            assert view.rows == keyed(expected, QUERIES[name].key), name
    for upkeep, _ in kept.values():
        upkeep.close()
