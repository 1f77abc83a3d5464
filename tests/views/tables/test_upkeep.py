"""Random histories of three tables: after every batch a view is what its query gives, from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headwater.views.tables.decoder import Table
from headwater.views.tables.errors import NotByRow
from headwater.views.tables.frames import computing
from headwater.views.tables.plan import Plan
from headwater.views.tables.planner import empty_frames, marked, plan
from headwater.views.tables.upkeep import Upkeep
from headwater.views.targets.contract import Misfit
from tests.conftest import SOAK
from tests.views.tables import static_queries
from tests.views.tables.histories import HISTORIES, Held, Tables, as_changes, keyed, seeded
from tests.views.tables.queries import QUERIES, ROWS, Query
from tests.views.tables.static_queries import static
from tests.views.tables.trying import DERIVED, BySql, crashed, follow


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


def test_the_key_is_followed_as_far_as_it_can_be(plans: dict[str, Plan]):
    followed = {name: each.program and each.program.key for name, each in plans.items()}
    assert followed == {name: each.followed or each.key for name, each in QUERIES.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_a_view_is_its_query_after_every_batch(
    plans: dict[str, Plan], name: str, tmp_path_factory: pytest.TempPathFactory
):
    @settings(max_examples=300 if SOAK else 3)
    @given(HISTORIES, st.booleans())
    def after_every_batch(history: list[Any], in_memory: bool) -> None:
        folder = tmp_path_factory.mktemp("state")
        follow(history, plans[name], QUERIES[name], folder, in_memory=in_memory)

    after_every_batch()


@pytest.mark.parametrize("name", static_queries.QUERIES)
def test_a_view_over_a_table_and_other_rows_is_its_query_after_every_batch(
    spark: SparkSession, name: str, tmp_path_factory: pytest.TempPathFactory
):
    query = static_queries.QUERIES[name]
    found = planned(spark, f"static {name}", query)
    assert found.program is not None and found.program.key == (query.followed or query.key)

    @settings(max_examples=300 if SOAK else 5)
    @given(HISTORIES, st.booleans())
    def after_every_batch(history: list[Any], in_memory: bool) -> None:
        folder = tmp_path_factory.mktemp("state")
        follow(history, found, query, folder, in_memory=in_memory)

    after_every_batch()


def test_the_same_with_other_rows_by_spark(spark: SparkSession, tmp_path: Path):
    for name, query in static_queries.QUERIES.items():
        each, tables, view = planned(spark, name, query), Tables(), Held(query.key)
        upkeep = Upkeep(each, tmp_path / name)
        for number, batch in enumerate(seeded(3, batches=4 if SOAK else 2)):
            tables.take(batch)
            changes = as_changes(batch, each.columns, {})
            compute = computing(spark, each, on_frames(query), tmp_path)
            upkeep.apply(number, lambda changes=changes: changes, compute, view.taking(number))
            expected = BySql(query, each)(tables.arrow(each.tables, each.columns))
            assert view.rows == keyed(expected, query.key), name
        upkeep.close()


REFUSED: dict[str, tuple[str, Any]] = {
    "static left": ("i", lambda a, b: static(a).join(a, a.b == F.col("i"), "left")),
    "static left, by the table": ("id", lambda a, b: static(a).join(a, a.b == F.col("i"), "left")),
    "right static": ("i", lambda a, b: a.join(static(a), a.b == F.col("i"), "right")),
    "full static": (
        "id",
        lambda a, b: a.select("id", "t").join(static(a).withColumnRenamed("i", "id"), "id", "full"),
    ),
    "static semi": ("i", lambda a, b: static(a).join(a, a.b == F.col("i"), "left_semi")),
    "static anti": ("i", lambda a, b: static(a).join(a, a.b == F.col("i"), "left_anti")),
    "key of static": ("i", lambda a, b: a.join(static(a), a.b == F.col("i"))),
    "static alone": ("i", lambda a, b: static(a)),
    "union and join": (
        "id",
        lambda a, b: a.select("id", "b").union(static(a).select("i", "m")).join(
            b.withColumnRenamed("id", "k"), F.col("b") == F.col("k"), "left"
        ),
    ),
    "cross": ("id", lambda a, b: a.crossJoin(b.select("s"))),
    "count of all": ("n", lambda a, b: a.agg(F.count("*").alias("n"))),
    "static with a limit": (
        "id", lambda a, b: a.select("id").union(static(a).select("i").limit(2))
    ),
    "window over all": (
        "id", lambda a, b: a.withColumn("r", F.row_number().over(Window.orderBy("id")))
    ),
    "window by another column": (
        "id", lambda a, b: a.withColumn("r", F.row_number().over(Window.partitionBy("b").orderBy("id")))
    ),
    "sample": ("id", lambda a, b: a.sample(0.5, 1)),
    "limit": ("id", lambda a, b: a.orderBy("n").limit(3)),
    "offset": ("id", lambda a, b: a.orderBy("n").offset(3)),
    "dropDuplicates of some": ("b", lambda a, b: a.dropDuplicates(["b"])),
    "rollup": ("b", lambda a, b: a.rollup("b").count()),
    "first": ("b", lambda a, b: a.groupBy("b").agg(F.first("n").alias("n"))),
    "scalar subquery": (
        "id", lambda a, b: a.withColumn("m", b.select(F.max("id")).scalar())
    ),
    "exists": ("id", lambda a, b: a.where(b.where(F.col("id") > 1).exists())),
    "collated groups": (
        "t", lambda a, b: a.groupBy(F.collate("t", "UTF8_LCASE").alias("t")).count()
    ),
    "collated join": (
        "id",
        lambda a, b: a.join(b.select("s"), F.collate("t", "UTF8_LCASE") == F.collate("s", "UTF8_LCASE")),
    ),
    "static by chance": ("id", lambda a, b: a.crossJoin(static(a).select(F.rand().alias("r")))),
    **{
        text: ("id", lambda a, b, text=text: a.withColumn("x", F.expr(text)))
        for text in (
            "rand()",
            "randn()",
            "uuid()",
            "shuffle(array(1, 2, 3))",
            "randstr(4)",
            "uniform(1, 10)",
            "monotonically_increasing_id()",
            "spark_partition_id()",
            "current_timestamp()",
            "now()",
            "localtimestamp()",
            "current_date()",
            "unix_timestamp()",
            "input_file_name()",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_right_row_by_row_is_refused(spark: SparkSession, name: str):
    key, function = REFUSED[name]
    query = Query((key,), lambda a, b, c: function(a, b), "")
    with pytest.raises(NotByRow):
        planned(spark, name, query)


def test_exists_of_an_array_is_no_query_in_an_expression(spark: SparkSession):
    query = replace(
        QUERIES["filter"],
        function=lambda a, b, c: a.where(F.exists(F.array("n"), lambda each: each > 2)),
    )
    assert planned(spark, "exists", query).program is not None


def test_a_batch_that_the_target_has_is_not_computed_again(plans: dict[str, Plan], tmp_path: Path):
    """Its records may be gone by then: a topic that is compacted loses them."""
    plan, query = plans["join and aggregate"], QUERIES["join and aggregate"]
    compute, view = BySql(query, plan), Held(query.key)
    batches = [
        [(1, "put", 1, 1, (None, "x")), (0, "put", 1, 1, (1, 1, "t"))],
        [(0, "put", 1, 1, (1, 2, "u")), (0, "put", 2, 2, (1, 2, "w"))],
        [(0, "delete", 2, 2, (None, None, None))],
    ]
    first, second, third = (as_changes(each, plan.columns, {}) for each in batches)
    upkeep = Upkeep(plan, tmp_path)
    upkeep.apply(0, lambda: first, compute, view.taking(0))
    upkeep = crashed(upkeep, "after the target", 1, second, compute, view)

    def gone() -> Any:
        raise AssertionError("the records of the batch were asked for")

    upkeep.apply(1, gone, compute, view.taking(1))
    upkeep.apply(1, gone, compute, view.taking(1))
    upkeep.apply(2, lambda: third, compute, view.taking(2))
    assert view.rows == {("x",): {"s": "x", "t": "u", "n": 1}}
    with pytest.raises(Misfit, match="goes on with batch 7, and the state of its tables ends"):
        upkeep.apply(7, gone, compute, view.taking(7))
    upkeep.close()


def test_state_of_another_query_is_not_used(plans: dict[str, Plan], tmp_path: Path):
    Upkeep(plans["left"], tmp_path).store.close()
    with pytest.raises(Misfit, match="is that of another query"):
        Upkeep(plans["inner"], tmp_path).store  # noqa: B018


def test_a_value_that_becomes_empty_or_nothing_is_seen(spark: SparkSession, tmp_path: Path):
    table = Table("t", StructType.fromDDL("id BIGINT, x ARRAY<INT>, y STRUCT<z: INT>"), ("id",))
    frame = marked(empty_frames(spark, [table])[0], 0).where("id > 0")
    each = plan("nested", ("id",), frame, [table])
    marks = [("gone", pa.bool_()), ("emptied", pa.bool_()), ("m0", pa.int64())]
    schema = pa.schema([*each.columns[0], *marks, ("p", pa.int32()), ("o", pa.int64())])
    schema = schema.append(pa.field("ts", pa.int64()))
    upkeep, view = Upkeep(each, tmp_path), Held(("id",))
    for number, (x, y) in enumerate(
        [
            (None, None),
            ([], None),
            ([None], None),
            ([None], {"z": None}),
            ([], {"z": None}),
            (None, None),
        ]
    ):
        row = {"c0": 1, "c1": x, "c2": y, "gone": False, "emptied": False, "p": 0, "o": number}
        row["ts"] = number
        changes = [pa.Table.from_pylist([row], schema)]
        upkeep.apply(
            number,
            lambda changes=changes: changes,
            lambda rows: rows[0].rename_columns(table.row.names).cast(each.result),
            view.taking(number),
        )
        assert view.rows == {(1,): {"id": 1, "x": x, "y": y}}
    upkeep.close()


def test_an_older_change_of_another_partition_is_not_the_last_word_in_a_later_batch(
    spark: SparkSession, tmp_path: Path
):
    """As after a topic has got more partitions, and is read again in several batches."""
    table = Table("t", StructType.fromDDL("id BIGINT, x INT"), ("id",))
    frame = marked(empty_frames(spark, [table])[0], 0).where("id > 0")
    each = plan("older", ("id",), frame, [table])
    marks = [("gone", pa.bool_()), ("emptied", pa.bool_()), ("m0", pa.int64())]
    places = [("p", pa.int32()), ("o", pa.int64()), ("ts", pa.int64())]
    schema = pa.schema([*each.columns[0], *marks, *places])
    upkeep, view = Upkeep(each, tmp_path), Held(("id",))
    usual = {"c0": 1, "c1": None, "gone": False, "emptied": False, "m0": None, "o": 0}
    batches = [
        ({"c1": 7, "p": 1, "ts": 20}, 7),
        ({"c1": 5, "p": 0, "ts": 10}, 7),  # older, from the partition where the key was before
        ({"p": 0, "ts": 15, "gone": True}, 7),
        ({"c0": 2, "c1": 9, "m0": 1, "p": 0, "ts": 16}, 7),  # a row that had the key, and left it
        ({"c1": 8, "p": 1, "o": 1, "ts": 19}, 8),  # in one partition the offset is the order
        ({"c1": 8, "p": 0, "ts": 30}, 8),  # the same, told by the other partition
        ({"c1": 6, "p": 1, "o": 2, "ts": 25}, 8),
        ({"c1": 4, "p": 1, "o": 3, "ts": 40}, 4),
        ({"c1": 4, "p": 1, "o": 4, "ts": 60}, 4),  # said again: it is as new as that
        ({"c1": 3, "p": 0, "ts": 50}, 4),
        ({"p": 0, "ts": 61, "gone": True}, None),
    ]
    for number, (change, wanted) in enumerate(batches):
        changes = [pa.Table.from_pylist([{**usual, **change}], schema)]
        upkeep.apply(
            number,
            lambda changes=changes: changes,
            lambda rows: rows[0].rename_columns(table.row.names).cast(each.result),
            view.taking(number),
        )
        assert view.rows.get((1,), {}).get("x") == wanted, number
    upkeep.close()


def test_a_function_that_caches_its_tables_sees_the_rows_of_each_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.views.tables.frames.LARGE_BYTES", 0)
    query = replace(QUERIES["filter"], function=lambda a, b, c: a.cache().where("n > 2"))
    each, view = planned(spark, "cached", query), Held(query.key)
    upkeep = Upkeep(each, tmp_path)
    for number in range(2):
        changes = as_changes([(0, "put", number, 0, (1, 3, "t"))], each.columns, {})
        compute = computing(spark, each, on_frames(query), tmp_path)
        upkeep.apply(number, lambda changes=changes: changes, compute, view.taking(number))
    assert sorted(view.rows) == [(0,), (1,)]
    assert not list(tmp_path.glob("*.parquet"))
    upkeep.close()
    spark.catalog.clearCache()


def test_two_rows_with_one_key_are_a_mistake_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path
):
    query = replace(QUERIES["right"], key=("b",))
    plan = planned(spark, "ambiguous", query)
    upkeep, view = Upkeep(plan, tmp_path), Held(query.key)
    batch = [(1, "put", 1, 1, (None, "x"))] + [(0, "put", n, n, (1, 1, "t")) for n in (1, 2)]
    with pytest.raises(Misfit, match=r"two rows with the key \(1\)"):
        upkeep.apply(
            0, lambda: as_changes(batch, plan.columns, {}), BySql(query, plan), view.taking(0)
        )
    assert (view.rows, upkeep.store.batch) == ({}, -1)
    upkeep.close()


def test_the_same_by_spark_for_all_views_at_once(
    spark: SparkSession, plans: dict[str, Plan], tmp_path: Path
):
    tables, kept = Tables(), {}
    for name, query in QUERIES.items():
        compute = computing(spark, plans[name], on_frames(query), tmp_path / name)
        kept[name] = (Upkeep(plans[name], tmp_path / name), Held(query.key), compute)
    for number, batch in enumerate(seeded(7, batches=12 if SOAK else 2)):
        tables.take(batch)
        for name, (upkeep, view, compute) in kept.items():
            each = plans[name]
            changes = as_changes(batch, each.columns, DERIVED.get(name, {}))
            upkeep.apply(number, lambda changes=changes: changes, compute, view.taking(number))
            expected = BySql(QUERIES[name], each)(tables.arrow(each.tables, each.columns))
            assert view.rows == keyed(expected, QUERIES[name].key), name
    for upkeep, _, _ in kept.values():
        upkeep.close()
