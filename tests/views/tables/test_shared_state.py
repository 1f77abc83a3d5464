"""The state on shared storage: the same histories, by executors; after every batch a view is its query."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.views.tables.plan import Plan
from headwater.views.tables.shared import manifest
from headwater.views.tables.shared.upkeep import MANIFESTS, SharedUpkeep
from headwater.views.tables.store import Difference
from headwater.views.targets.contract import DELETED
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
        empty = {n: spark.createDataFrame([], table.row) for n, table in enumerate(plan.tables)}
        self.result = self.function(spark, empty).schema
        self.upkeep = self.opened()

    def opened(self) -> SharedUpkeep:
        """As a driver on another machine would find it."""
        return SharedUpkeep(self.spark, self.plan, self.folder.as_uri(), self.result)

    def apply(self, batch: int, changes: list[pa.Table], write: Any) -> None:
        frames = [self.spark.createDataFrame(each) for each in changes]
        self.upkeep.apply(self.spark, batch, lambda *_: frames, self.function, write)

    def taking(self, view: Held, batch: int) -> Any:
        def write(difference: DataFrame) -> None:
            rows = difference.toArrow()
            gone = rows[DELETED]
            kept = rows.drop_columns([DELETED])
            keys = kept.filter(gone).select(list(self.query.key))
            found = Difference(kept.filter(pa.compute.invert(gone)).cast(self.plan.result), keys)
            view.taking(batch)(found)

        return write


class Crash(Exception):
    pass


def crashing(*_: object) -> Any:
    raise Crash


def follow(kept: ByFrames, history: Any) -> None:
    tables, view = Tables(), Held(kept.query.key)
    whole = BySql(kept.query, kept.plan)
    for batch, (crash, listed) in enumerate(history):
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
    assert sorted(each.name for each in (tmp_path / MANIFESTS).glob("[0-9]*")) == ["2", "3"]
    needed = [
        manifest.Manifest.from_json((tmp_path / MANIFESTS / name).read_text()) for name in "23"
    ]
    found = {each.name for each in (tmp_path / "data").iterdir()}
    assert found >= needed[0].attempts | needed[1].attempts
    assert len(found - needed[0].attempts - needed[1].attempts) <= 1
