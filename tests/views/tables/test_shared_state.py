"""The state on shared storage: the same histories, by executors; after every batch a view is its query."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.views.tables.plan import Plan
from headwater.views.tables.shared.chain import MANIFESTS
from headwater.views.tables.shared.folder import Folder
from headwater.views.tables.shared.manifest import Manifest
from headwater.views.tables.shared.upkeep import SharedUpkeep
from headwater.views.tables.store import Difference
from headwater.views.tables.upkeep import Upkeep
from headwater.views.targets.contract import DELETED, Fenced, Misfit
from tests.conftest import SOAK
from tests.views.tables.histories import Held, Tables, as_changes, keyed
from tests.views.tables.queries import QUERIES, Query
from tests.views.tables.test_upkeep import on_frames, planned
from tests.views.tables.trying import DERIVED, BySql

CHOSEN = ["full", "anti", "aggregate and join", "computed", "right"]
"""What differs most in how keys are followed; all of them with HEADWATER_SOAK."""

PUT, DELETE, MOVE, EMPTY = "put", "delete", "move", "empty"
HISTORY: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "",
        [
            *((0, PUT, n, 0, (n % 4 if n else None, n % 3, "xXy"[n % 3])) for n in range(6)),
            *((1, PUT, n, 0, (n % 3, "xX"[n % 2])) for n in range(4)),
            *((2, PUT, n, 0, ("u",)) for n in range(3)),
        ],
    ),
    (
        "after the target",
        [
            (1, DELETE, 1, 0, None),
            (1, PUT, 2, 0, (0, None)),
            (0, MOVE, 3, 5, (2, 4, "X")),
            (0, PUT, 4, 0, (4 % 4, 4 % 3, "X")),
            (2, PUT, 5, 0, (None,)),
        ],
    ),
    ("before the target", [(0, EMPTY, 0, 0, None), (0, PUT, 1, 0, (2, None, "y")), (1, PUT, 1, 0, (1, "x"))]),
    ("", []),
]  # fmt: skip


class ByFrames:
    """A view kept by `SharedUpkeep`, with a target in memory."""

    def __init__(self, spark: SparkSession, plan: Plan, query: Query, folder: Path) -> None:
        self.spark, self.plan, self.query, self.folder = spark, plan, query, folder
        self.function = on_frames(query)
        self.place = Folder(spark, folder.as_uri())
        empty = {n: spark.createDataFrame([], table.row) for n, table in enumerate(plan.tables)}
        self.result = self.function(spark, empty).schema
        self.upkeep = self.opened()
        self.tables, self.view = Tables(), Held(query.key)

    def opened(self) -> SharedUpkeep:
        """As a driver on another machine would find it."""
        return SharedUpkeep(self.spark, self.plan, self.place, self.result)

    def apply(self, batch: int, changes: list[pa.Table], write: Any) -> None:
        frames = [self.spark.createDataFrame(each) for each in changes]
        self.upkeep.apply(self.spark, batch, lambda *_: frames, self.function, write)

    def taking(self, view: Held, batch: int) -> Any:
        def write(difference: DataFrame) -> None:
            rows = difference.toArrow()
            gone = rows[DELETED]
            kept = rows.drop_columns([DELETED])
            keys = kept.filter(gone).select(list(self.query.key))
            found = Difference(kept.filter(pc.invert(gone)).cast(self.plan.result), keys)
            view.taking(batch)(found)

        return write


class Crash(Exception):
    pass


def crashing(*_: object) -> Any:
    raise Crash


def follow(kept: ByFrames, history: Any, begin: int = 0) -> None:
    tables, view = kept.tables, kept.view
    whole = BySql(kept.query, kept.plan)
    for batch, (crash, listed) in list(enumerate(history))[begin:]:
        tables.take(listed)
        changes = as_changes(listed, kept.plan.columns, DERIVED.get(kept.plan.name, {}))
        write = kept.taking(view, batch)
        if crash:
            with suppress(Crash):
                if crash == "after the target":
                    kept.apply(batch, changes, lambda each, write=write: (write(each), crashing()))
                else:
                    kept.apply(batch, changes, crashing)
            kept.upkeep = kept.opened()
            assert kept.upkeep.batch == batch
        kept.apply(batch, changes, write)
        expected = keyed(whole(tables.arrow(kept.plan.tables, kept.plan.columns)), kept.query.key)
        assert view.rows == expected, f"after batch {batch}"


@pytest.mark.parametrize("name", QUERIES if SOAK else CHOSEN)
def test_a_view_is_its_query_after_every_batch(spark: SparkSession, name: str, tmp_path: Path):
    query = QUERIES[name]
    kept = ByFrames(spark, planned(spark, name, query), query, tmp_path)
    follow(kept, HISTORY)
    # Only what the last two batches need is left.
    manifests, data = tmp_path / MANIFESTS, tmp_path / "data"
    assert sorted(each.name for each in manifests.glob("[0-9]*")) == ["2", "3"]
    needed = [Manifest.from_json((manifests / n).read_text()).needed for n in "23"]
    found = {f"{each.parent.name}/{each.name}" for each in data.glob("*/*")}
    assert found == needed[0] | needed[1]


def test_many_batches_are_folded_and_a_second_driver_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.views.tables.shared.manifest.DELTAS_MOST", 1)
    query = QUERIES["inner"]
    kept = ByFrames(spark, planned(spark, "inner", query), query, tmp_path)
    follow(kept, HISTORY[:2])
    other = kept.opened()
    follow_on = [("", [(0, PUT, n, 0, (0, n, None)) for n in range(2, 9)])]
    follow(kept, [*HISTORY[:2], *follow_on], begin=2)
    assert kept.upkeep.state.tables[0].base is not None
    assert list(tmp_path.glob("data/*/t0-all/bucket=*")), "a base lies in buckets"
    kept.upkeep = other
    with pytest.raises(Fenced, match="another driver"):
        kept.apply(2, as_changes([], kept.plan.columns, {}), crashing)


@pytest.mark.parametrize("before", ["nothing", "cut short", "cut short by an earlier version"])
def test_what_one_machine_kept_is_taken_over_with_a_batch_that_was_begun(
    spark: SparkSession, tmp_path: Path, before: str
):
    query = QUERIES["left"]
    plan = planned(spark, "left", query)
    view, whole = Held(query.key), BySql(query, plan)
    local = Upkeep(plan, tmp_path)
    tables = Tables()
    for batch, (_, listed) in enumerate(HISTORY[:2]):
        tables.take(listed)
        changes = as_changes(listed, plan.columns, {})
        write = view.taking(batch) if batch == 0 else crashing
        with suppress(Crash):
            local.apply(batch, lambda changes=changes: changes, whole, write)
    local.let_go()

    kept = ByFrames(spark, plan, query, tmp_path)
    if before == "cut short":
        with pytest.raises(Crash):
            kept.upkeep.take_over(spark, tmp_path, crashing)
        assert kept.opened().batch == -1
        assert local.batch == 0, "on one machine, too, the target is yet to be told"
        local.let_go()
    elif before == "cut short by an earlier version":
        begun = local.state.begun(1)
        assert begun is not None
        local.state.redo(begun)
        local.close()
    kept.upkeep.take_over(spark, tmp_path, kept.function)
    assert kept.upkeep.batch == 1
    assert not (tmp_path / "state.duckdb").exists()
    kept.apply(1, [], kept.taking(view, 1))
    assert view.rows == keyed(whole(tables.arrow(plan.tables, plan.columns)), query.key)
    tables.take(HISTORY[2][1])
    kept.upkeep = kept.opened()
    kept.apply(2, as_changes(HISTORY[2][1], plan.columns, {}), kept.taking(view, 2))
    assert view.rows == keyed(whole(tables.arrow(plan.tables, plan.columns)), query.key)


def test_a_file_that_was_taken_over_and_is_still_there_goes_and_changes_nothing(
    spark: SparkSession, tmp_path: Path
):
    query = QUERIES["left"]
    kept = ByFrames(spark, planned(spark, "left", query), query, tmp_path)
    kept.apply(0, as_changes(HISTORY[0][1], kept.plan.columns, {}), kept.taking(kept.view, 0))
    Upkeep(kept.plan, tmp_path).state.close()
    assert (tmp_path / "state.duckdb").exists()
    again = kept.opened()
    again.take_over(spark, tmp_path, crashing)
    assert again.state == kept.upkeep.state
    assert not (tmp_path / "state.duckdb").exists()


def test_two_rows_with_one_key_and_another_query_are_refused(spark: SparkSession, tmp_path: Path):
    query = Query(("n",), lambda a, b, c: a.select("n", "t"), "")
    kept = ByFrames(spark, planned(spark, "twice", query), query, tmp_path)
    rows = [(0, PUT, n, 0, (None, 1, None)) for n in range(2)]
    with pytest.raises(Misfit, match="two rows with the key"):
        kept.apply(0, as_changes(rows, kept.plan.columns, {}), crashing)
    assert kept.opened().batch == -1, "nothing has happened"
    kept.apply(0, as_changes(rows[:1], kept.plan.columns, {}), lambda _: None)
    with pytest.raises(Misfit, match="another query"):
        SharedUpkeep(spark, replace(kept.plan, query="x"), kept.place, kept.result)
    with pytest.raises(Misfit, match="goes on with batch 5"):
        kept.apply(5, [], crashing)
