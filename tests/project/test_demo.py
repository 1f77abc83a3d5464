"""The demo's verification can fail: each kind of difference, planted into stores that were right before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.cli.demo import MISMATCH, exit_code
from headwater.cli.demo_view import print_summary
from headwater.project.demo import ShopFound, Summary
from headwater.project.demo.shop.database import DATABASE_VARIABLE, Shop, SQLite
from headwater.project.demo.shop.load import CUSTOMERS, Load
from headwater.project.demo.shop.project import write_project
from headwater.project.demo.shop.verification import (
    BELL,
    QUERIES,
    SESSION_GAP_MS,
    compare,
    expected,
    verify,
)
from headwater.project.demo.shop.watcher import Watcher, by_view
from headwater.project.demo.summary import ViewFreshness
from headwater.project.file import load as load_project
from tests.compat.waiting import until

NOW_S = 1_800_000_000.0


@pytest.fixture
def database(tmp_path: Path):
    with closing(SQLite(tmp_path / "shop.db")) as found:
        yield found


@pytest.fixture
def views(tmp_path: Path, database: SQLite) -> dict[str, str]:
    """A day in the shop, and views that are right: the answers of the database, in other files."""
    times = iter(range(10_000))
    shop = Shop(database, CUSTOMERS)
    shop.make()
    traffic = Load(shop, Random(4), clock=lambda: NOW_S + next(times) / 10)
    traffic.fill(100)
    for _ in range(300):
        traffic.step()
    traffic.close()
    to = tmp_path / "views.db"
    with closing(sqlite3.connect(to)) as db, db:
        for name, (columns, _) in QUERIES.items():
            db.execute(f"CREATE TABLE {name} ({' NUMERIC, '.join(columns)} NUMERIC)")
            marks = ",".join("?" * len(columns))
            db.executemany(f"INSERT INTO {name} VALUES ({marks})", expected(database, name))
    return dict.fromkeys(QUERIES, f"sqlite:{to}")


def change(views: dict[str, str], statement: str) -> None:
    with closing(sqlite3.connect(views["sessions"].partition(":")[2])) as db, db:
        assert db.execute(statement).rowcount == 1


def verdict(database: SQLite, views: dict[str, str]) -> tuple[int, list[int]]:
    """The exit code of a demo that had come to this, and how much differs in each view."""
    summary = Summary("demo", "disk", "here", produced=1, acknowledged=1, replayed=1)
    summary.shop = ShopFound("SQLite", "a file", views=verify(database, views, patience_s=0))
    return exit_code(summary), [view.different for view in summary.shop.views]


def test_views_that_are_right_are_verified(database: SQLite, views: dict[str, str]):
    assert verdict(database, views) == (0, [0, 0, 0, 0])


@pytest.mark.parametrize(
    ("statement", "differences"),
    [
        ("DELETE FROM order_list WHERE id = 7", [1, 0, 0, 0]),
        ("UPDATE order_search SET city = 'Nowhere' WHERE id = 9", [0, 2, 0, 0]),
        ("INSERT INTO order_list SELECT * FROM order_list WHERE id = 8", [1, 0, 0, 0]),
        (
            "UPDATE revenue_per_minute SET cents = cents + 1 "
            "WHERE minute = (SELECT max(minute) FROM revenue_per_minute)",
            [0, 0, 2, 0],
        ),
        (
            "DELETE FROM sessions WHERE rowid = (SELECT max(rowid) FROM sessions)",
            [0, 0, 0, 1],
        ),
    ],
)
def test_a_planted_difference_is_found_and_ends_with_code_1(
    database: SQLite, views: dict[str, str], statement: str, differences: list[int]
):
    change(views, statement)
    assert verdict(database, views) == (MISMATCH, differences)


def test_what_differs_is_named(database: SQLite, views: dict[str, str]):
    change(views, "DELETE FROM order_list WHERE id = 7")
    found = compare(database, "order_list", views["order_list"])
    assert found.example is not None and found.example.startswith("missing: ('7', 'customer ")


def test_sessions_are_as_spark_finds_them(database: SQLite):
    """
    customer 1   v....v.........v      a gap of five seconds still belongs to it, a longer one does not
    customer 2     v                   alone
    the bell                       v   not over
    """
    shop = Shop(database, CUSTOMERS)
    shop.make()
    for customer, at in ((1, 0), (2, 100), (1, SESSION_GAP_MS), (1, 2 * SESSION_GAP_MS + 1)):
        shop.visit(customer, "home", at)
    shop.visit(BELL, "closing", 10**9)
    assert expected(database, "sessions") == {
        ("1", "0", "10000", "2"),
        ("1", "10001", "15001", "1"),
        ("2", "100", "5100", "1"),
    }


@pytest.mark.parametrize("slot", [None, "headwater_demo"])
def test_the_project_of_the_demo_is_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slot: str | None
):
    monkeypatch.setenv(DATABASE_VARIABLE, "postgres@127.0.0.1/shop")
    made = write_project(tmp_path / "shop", cache="sqlite:data/cache.db", slot=slot)
    project = load_project(tmp_path / "shop" / "headwater.toml")
    assert set(project.views) == set(made.views) == set(QUERIES)
    assert project.pipelines == ("pipelines",)


def test_an_order_that_is_cancelled_before_anybody_saw_it_is_not_waited_for(
    database: SQLite, views: dict[str, str]
):
    """Whoever cancelled it: a visitor's traffic does not tell the watcher."""
    (last,) = database.rows("SELECT max(id) FROM orders")[0]
    with Watcher(views["order_list"], "order_list") as watcher:
        watcher.expect(last)
        watcher.expect(last + 1)
        watcher.retain({number for (number,) in database.rows("SELECT id FROM orders")})
        until(lambda: not watcher.waiting, "only what the database has")
    assert len(watcher.seen) == 1


def test_freshness_is_told_by_view_with_what_a_kill_held_up_apart(
    capsys: pytest.CaptureFixture[str],
):
    """
    at      900   1000    2000    5000 killed   6000    30000 ms
    list    9 s   0.5 s   0.7 s                 4.2 s   0.9 s
    before the load                             held up
    """
    said = [(900, 9.0), (1_000, 0.5), (2_000, 0.7), (6_000, 4.2), (30_000, 0.9), (31_000, None)]
    records: list[dict[str, Any]] = [
        {"query": "list", "at_ms": at_ms, "freshness_seconds": seconds} for at_ms, seconds in said
    ]
    records += [{"query": "other", "at_ms": 1_500, "freshness_seconds": 0.25}]
    found = by_view(records, 1_000, 5_000)
    assert found == {"list": ViewFreshness(0.7, 0.9, 4.2), "other": ViewFreshness(0.25, 0.25)}
    summary = Summary("t", "disk", "here", shop=ShopFound("SQLite", "a file", freshness=found))
    print_summary(summary, kept=False)
    lines = capsys.readouterr().out.splitlines()
    told = {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}
    assert told["Fresh list"] == (
        "700 ms behind the log (median), 900 ms at most; 4,200 ms around the kill"
    )
    assert told["Fresh other"] == "250 ms behind the log (median), 250 ms at most"
