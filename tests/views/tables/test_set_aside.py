"""A view whose function fails for some rows: their keys have no row, and all others go on, in every state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater.views.tables.plan import Plan
from headwater.views.tables.set_aside import REASON, Blame, by_halves
from headwater.views.tables.store import Difference
from headwater.views.tables.upkeep import Upkeep
from tests.conftest import SOAK
from tests.views.tables import static_queries
from tests.views.tables.histories import HISTORIES, Held, Tables, as_changes, keyed
from tests.views.tables.queries import QUERIES, Query
from tests.views.tables.test_upkeep import planned
from tests.views.tables.trying import BySql, crashed

Row = Mapping[str, Any]


class Bad(Exception):
    """What a function raises for a row."""


BLAME = Blame((Bad,), str)


@dataclass
class Failing:
    """A query that fails where a row of its result is bad."""

    right: BySql
    is_bad: Callable[[Row], bool]

    def __call__(self, rows: Mapping[int, pa.Table]) -> pa.Table:
        found = self.right(rows)
        for row in found.to_pylist():
            if self.is_bad(row):
                raise Bad(f"{row} is bad")
        return found


@dataclass
class Target(Held):
    """A view in memory, and what was set aside at each key."""

    aside: list[dict[str, Any]] = field(default_factory=list)

    def __init__(self, key: Any) -> None:
        super().__init__(key)
        self.aside = []

    def write(self, difference: Difference) -> None:
        super().write(difference)
        if difference.aside is not None:
            self.aside += difference.aside.to_pylist()


VIEWS: dict[str, tuple[Query, Callable[[Row], bool]]] = {
    "filter": (QUERIES["filter"], lambda row: row["n"] == 4),
    "left": (QUERIES["left"], lambda row: row["s"] == "y" or row["n"] == 1),
    "followers": (QUERIES["followers"], lambda row: row["count"] == 2),
    "aggregate": (QUERIES["aggregate"], lambda row: row["sum"] == 4),
    "totals": (QUERIES["totals"], lambda row: row["sum"] == 4),
    "static": (static_queries.QUERIES["union and aggregate"], lambda row: row["sum"] == 4),
}


@pytest.fixture(scope="module")
def plans(spark: SparkSession) -> dict[str, Plan]:
    return {name: planned(spark, f"aside {name}", query) for name, (query, _) in VIEWS.items()}


def follow(history: list[Any], plan: Plan, name: str, folder: Path, *, in_memory: bool) -> None:
    query, is_bad = VIEWS[name]
    right, tables, view = BySql(query, plan), Tables(), Target(query.key)
    # Totals are kept by the state's engine: nothing of the user's is called, so nothing fails.
    is_bad = is_bad if plan.aggregation is None else lambda row: False
    compute, once = Failing(right, is_bad), Upkeep(plan, folder / "0", in_memory, BLAME)
    upkeep = once
    for number, (crash, batch) in enumerate(history):
        tables.take(batch)
        changes = as_changes(batch, plan.columns, {})
        seen = len(view.aside)
        upkeep = crashed(upkeep, crash, number, changes, compute, view)
        upkeep.blame = BLAME
        upkeep.apply(number, lambda changes=changes: changes, compute, view.taking(number))
        wanted = keyed(right(tables.arrow(plan.tables, plan.columns)), query.key)
        bad = {key for key, row in wanted.items() if is_bad(row)}
        assert view.rows == {key: row for key, row in wanted.items() if key not in bad}
        names = plan.followed_key.names
        followed = {tuple(wanted[key][name] for name in names) for key in bad}
        now = {tuple(each[name] for name in names) for each in view.aside[seen:]}
        ever = {tuple(each[name] for name in names) for each in view.aside}
        assert now <= followed <= ever
        assert all("is bad" in each[REASON] for each in view.aside)
    upkeep.close()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_its_query_but_for_keys_that_are_set_aside(
    plans: dict[str, Plan], name: str, tmp_path_factory: pytest.TempPathFactory
):
    @settings(max_examples=300 if SOAK else 8)
    @given(HISTORIES, st.booleans())
    def after_every_batch(history: list[Any], in_memory: bool) -> None:
        folder = tmp_path_factory.mktemp("state")
        follow(history, plans[name], name, folder, in_memory=in_memory)

    after_every_batch()


def test_without_a_reason_nothing_is_set_aside(plans: dict[str, Plan], tmp_path: Path):
    plan, query = plans["filter"], VIEWS["filter"][0]
    batch = [(0, "put", 1, 1, (None, 4, "x")), (0, "put", 2, 2, (None, 3, "x"))]
    changes = as_changes(batch, plan.columns, {})
    compute, view = Failing(BySql(query, plan), VIEWS["filter"][1]), Held(query.key)
    upkeep = Upkeep(plan, tmp_path)
    with pytest.raises(Bad):
        upkeep.apply(0, lambda: changes, compute, view.taking(0))
    assert not view.rows
    upkeep.close()


def test_those_that_fail_alone_are_found_by_halves():
    asked = []

    def compute(some: Any) -> list[int]:
        asked.append(len(some))
        if {3, 700} & set(some):
            raise Bad(f"{len(some)} with a bad one")
        return list(some)

    found, failed = by_halves(range(1000), compute, BLAME)
    assert sorted(n for each in found for n in each) == [
        n for n in range(1000) if n not in (3, 700)
    ]
    assert failed == [(3, "1 with a bad one"), (700, "1 with a bad one")]
    assert len(asked) < 50
    with pytest.raises(ZeroDivisionError):
        by_halves([1], lambda some: 1 // 0, BLAME)
