"""The whole demo, as a person runs it: verified; with `make soak` sabotaged, interrupted, on PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.project.file import FILE, load
from tests.capture.postgres.server import postgres
from tests.compat.waiting import until
from tests.console.running import chromium, look

pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 400.0
WAIT_MS = PATIENCE_S * 1000
LOG_ALONE = ("--records", "2000", "--json")


def demo(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "headwater", "demo", *LOG_ALONE, "--data", "kept", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    said, complaints = process.communicate(timeout=PATIENCE_S)
    assert said, complaints
    return process.returncode, json.loads(said)


def take_the_tour(url: str) -> None:
    """As a visitor of the console does, once the load and its own kill are over."""
    from playwright.sync_api import expect

    with chromium() as browser, look(browser) as page:
        page.goto(url)
        steps = {
            "Write an order": "is committed",
            "Find it in the log": "there it stays",
            "Look into the views": "sessions shows it",
            "Kill the broker": "is gone",
            "Watch it come back": "Nothing was lost, nothing came twice.",
        }
        for number, (name, said) in enumerate(steps.items(), 1):
            step = page.get_by_role("listitem", name=re.compile(f"^Step {number}:"))
            button = page.get_by_role("button", name=name)
            expect(button, page.locator(".hw-tour").inner_text()).to_be_enabled(timeout=WAIT_MS)
            button.click()
            expect(step).to_contain_text(said, timeout=WAIT_MS)


def test_everything_matches_also_with_the_broker_killed_and_killed_again_by_a_visitor(
    tmp_path: Path,
):
    process = demo(tmp_path, "--seconds", "5", "--stay")
    try:
        until(lambda: has_ended(process) or load_has_begun(tmp_path), "the load", PATIENCE_S)
        (folder,) = tmp_path.glob("kept/*-shop")
        console = load(folder / FILE).console
        assert console is not None
        take_the_tour(f"http://{console['listen']}/tour")
        process.send_signal(signal.SIGINT)
        code, found = outcome(process)
    finally:
        process.kill()
    assert code == 0 and found["verified"]
    shop = found["shop"]
    assert not shop["interrupted"], "the load had its five seconds; Ctrl-C ended the tour"
    assert {view["name"]: view["different"] for view in shop["views"]} == dict.fromkeys(
        ("order_list", "order_search", "sessions", "revenue_per_minute"), 0
    )
    assert shop["restarts"]["broker"] == 2
    assert shop["measured"] + shop["held_up"] > 0
    assert shop["latency_p50_s"] <= shop["latency_p99_s"]


@pytest.mark.soak
def test_a_row_that_somebody_changed_in_a_view_is_found_and_the_exit_code_is_1(tmp_path: Path):
    process = demo(tmp_path, "--seconds", "10")
    try:
        until(lambda: sabotaged(tmp_path), "a view to spoil", PATIENCE_S)
        code, found = outcome(process)
    finally:
        process.kill()
    assert code == 1 and not found["verified"]
    assert [view["name"] for view in found["shop"]["views"] if view["different"]] == [
        "revenue_per_minute"
    ]


def sabotaged(folder: Path) -> bool:
    """Change the oldest minute, which no payment will touch any more."""
    import duckdb

    with contextlib.suppress(StopIteration, duckdb.Error):  # not there yet, or just being written
        path = next(folder.glob("kept/*-shop/data/revenue.duckdb"))
        with duckdb.connect(str(path)) as db:
            oldest = "(SELECT min(minute) FROM revenue_per_minute)"
            table = db.execute(
                "SELECT sql FROM duckdb_views() WHERE view_name = 'revenue_per_minute'"
            )
            name = "revenue_per_minute" if table.fetchone() is None else "revenue_per_minute__v1"
            done = db.execute(f"UPDATE {name} SET cents = cents + 1 WHERE minute = {oldest}")
            return bool(done.fetchall()[0][0])
    return False


@pytest.mark.soak
def test_an_interrupt_ends_the_load_and_what_was_written_is_verified(tmp_path: Path):
    process = demo(tmp_path, "--seconds", "600")
    try:
        until(lambda: load_has_begun(tmp_path), "the load", PATIENCE_S)
        process.send_signal(signal.SIGINT)
        code, found = outcome(process)
    finally:
        process.kill()
    assert code == 0 and found["shop"]["interrupted"]
    assert found["shop"]["load_s"] < 600


def has_ended(process: subprocess.Popen[str]) -> bool:
    if process.poll() is None:
        return False
    raise AssertionError(f"the demo ended early: {process.communicate()}")


def load_has_begun(folder: Path) -> bool:
    """There are more orders than were there before."""
    found = list(folder.glob("kept/*-shop/data/sessions.duckdb"))
    if not found:
        return False
    (path,) = folder.glob("kept/*-shop/shop.db")
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as db:
        return bool(db.execute("SELECT max(id) > 2100 FROM orders").fetchone()[0])


@pytest.mark.soak
def test_postgresql_takes_the_place_of_sqlite_when_given(tmp_path: Path):
    with postgres() as server:
        code, found = outcome(demo(tmp_path, "--seconds", "5", "--database", server.url()))
        assert code == 0 and found["shop"]["database"] == "PostgreSQL"
        left = "SELECT datname FROM pg_database WHERE datname LIKE 'headwater%'"
        assert server.execute(left) == []
        assert server.execute("SELECT slot_name FROM pg_replication_slots") == []
