"""Queries as algebra, written by hand: the SQL made of them keeps a view current. No Spark."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from headwater.views.tables import lookup
from headwater.views.tables.algebra import (
    Column,
    Expression,
    First,
    Formula,
    Made,
    Matched,
    Node,
    Pair,
    Scan,
    Stacked,
    Static,
)
from headwater.views.tables.decoder import Table
from headwater.views.tables.errors import NotByRow
from headwater.views.tables.plan import Plan
from headwater.views.tables.program import Program, compiled
from headwater.views.tables.relations import Rows
from headwater.views.tables.store import Store
from tests.conftest import SOAK
from tests.views.tables.histories import HISTORIES, seeded
from tests.views.tables.queries import QUERIES, ROWS
from tests.views.tables.trying import follow

_KINDS = {"BIGINT": LongType(), "INT": IntegerType(), "STRING": StringType()}


def struct(ddl: str) -> StructType:
    """Spark's own reader of these needs its Java."""
    pairs = (column.split() for column in ddl.split(", "))
    return StructType([StructField(name, _KINDS[kind]) for name, kind in pairs])


TYPES = [struct(row) for row in ROWS]
A = Scan(1, 0, {1: "id", 2: "b", 3: "n", 4: "t"})
B = Scan(2, 1, {11: "id", 12: "c", 13: "s"})
OTHER_A = Scan(3, 0, {21: "id", 22: "b", 23: "n", 24: "t"})
A_TO_B = (Pair(Column(2), Column(11)),)

BY_HAND: dict[str, tuple[Node, dict[str, Expression], str]] = {
    "left": (
        Matched(A, B, A_TO_B, kept_left=True),
        {"id": Column(1)},
        "id BIGINT, n INT, s STRING",
    ),
    "full": (
        Made(
            Matched(A, B, A_TO_B, kept_left=True, kept_right=True),
            {31: First((Column(2), Column(11))), 32: Column(1)},
        ),
        {"k": Column(31), "aid": Column(32)},
        "k BIGINT, aid BIGINT, n INT, s STRING",
    ),
    "itself": (
        Matched(A, OTHER_A, (Pair(Column(2), Column(21)),), kept_left=True),
        {"id": Column(1)},
        "id BIGINT, n INT, m INT",
    ),
    "join and aggregate": (
        Made(Matched(A, B, A_TO_B), {13: Column(13)}, "is the result of an aggregate"),
        {"s": Column(13)},
        "s STRING, t STRING, n BIGINT",
    ),
    "union": (
        Stacked((1, 4), (A, B), ((1, 4), (11, 13))),
        {"id": Column(1)},
        "id BIGINT, kind STRING, text STRING",
    ),
}


def planned(name: str) -> Plan:
    root, key, result = BY_HAND[name]
    program = compiled(root, key, [each.names for each in TYPES])
    tables = [Table(f"t{n}", each, ("id",)) for n, each in enumerate(TYPES)]
    states = [
        to_arrow_schema(
            StructType([StructField(f"c{n}", f.dataType) for n, f in enumerate(each.fields)]),
            timezone="UTC",
        )
        for each in TYPES
    ]
    shown = to_arrow_schema(struct(result), timezone="UTC")
    return Plan(name, tables, states, shown, QUERIES[name].key, program, name)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_view_by_hand_is_its_query_after_every_batch(
    name: str, tmp_path_factory: pytest.TempPathFactory
):
    @settings(max_examples=200 if SOAK else 10)
    @given(HISTORIES, st.booleans())
    def after_every_batch(history: list[Any], in_memory: bool) -> None:
        folder = tmp_path_factory.mktemp("state")
        follow(history, planned(name), QUERIES[name], folder, in_memory=in_memory)

    after_every_batch()


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_history_notices_keys_that_are_not_touched(
    side: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    """The canary: with half of the method, the comparison must fail."""

    def touch(
        store: Store, program: Program, changed: Mapping[int, str], *, more: bool = False
    ) -> None:
        if more == (side == "after"):
            whole(store, program, changed, more=more)
        if side == "after" and not more:
            store.run("CREATE OR REPLACE TEMP TABLE touched (w0 VARCHAR)")

    whole = Store.touch
    monkeypatch.setattr(Store, "touch", touch)
    history = [("", each) for each in seeded(3, batches=6)]
    name = "join and aggregate"
    folder = tmp_path_factory.mktemp("state")
    with pytest.raises(AssertionError):
        follow(history, planned(name), QUERIES[name], folder, in_memory=False)


@pytest.mark.parametrize("side", [0, 1])
def test_a_history_notices_keys_that_are_not_touched_in_memory(
    side: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    """The same canary: of two questions in a batch, one is not asked."""
    turns = itertools.count()

    def touched(*asked: Any) -> set[Any]:
        return whole(*asked) if next(turns) % 2 == side else set()

    whole = lookup.touched
    monkeypatch.setattr(lookup, "touched", touched)
    history = [("", each) for each in seeded(3, batches=6)]
    name = "join and aggregate"
    with pytest.raises(AssertionError):
        follow(history, planned(name), QUERIES[name], tmp_path_factory.mktemp("state"))


def test_a_side_from_which_nothing_is_wanted_is_not_looked_at():
    root, key, _ = BY_HAND["left"]
    program = compiled(root, key, [each.names for each in TYPES])
    assert program.upward[0] == (0, Rows(("change0",), ("c0",)))
    assert "JOIN" in program.upward[1][1].sql


def test_what_is_computed_from_one_table_is_kept_beside_it():
    lower = Formula("lower(hw_4)", frozenset([4]))
    program = compiled(A, {"name": lower}, [each.names for each in TYPES])
    assert program.derived == {0: ("lower(`t`)",)}
    assert program.upward == ((0, Rows(("change0",), ("d0",))),)


@pytest.mark.parametrize(
    ("root", "key", "reason"),
    [
        (Matched(A, B, A_TO_B, kept_left=True), {"s": Column(13)}, "may have no row"),
        (Matched(A, B, ()), {"id": Column(1)}, "without comparing a column"),
        (Matched(A, B, A_TO_B), {"x": Formula("hw_1 + hw_11", frozenset([1, 11]))}, "both sides"),
        (A, {"x": Formula("'x'", frozenset())}, "not computed from columns of one table"),
        (Static(frozenset([41])), {"x": Column(41)}, "in no table"),
        (
            Matched(
                Stacked((1, 2), (A, Static(frozenset([41, 42]))), ((1, 2), (41, 42))), B, A_TO_B
            ),
            {"id": Column(1)},
            "without comparing a column",
        ),
    ],
)
def test_a_key_that_cannot_be_followed_is_refused(
    root: Node, key: Mapping[str, Expression], reason: str
):
    with pytest.raises(NotByRow, match=reason):
        compiled(root, key, [each.names for each in TYPES])
