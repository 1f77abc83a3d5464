"""A view's own page and a capture's: rows by key, words and position; what the database keeps, its tables."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from headwater.client.errors import NotThere, RequestRefused
from headwater.client.groups import Group
from headwater.console.forms.views import fresh, last_change
from headwater.console.pages.groups.group import state_of
from headwater.console.pages.queries import lines_of
from headwater.console.pages.views_one import freshness_of
from headwater.console.watching.queries import now_of
from headwater.console.watching.rows import LIMIT, Asked, read
from headwater.pipelines.declarations import View
from headwater.project import control, record
from headwater.project.hello import page_answers
from headwater.project.ports import free_port
from headwater.testing.targets import Writer, at, shape
from headwater.views.operate.progress import Lag, Listed
from headwater.views.operate.wait import NotYet
from headwater.views.targets.registry import target_for
from tests.compat.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(900)
PIPELINE = '''
import headwater as hw


@hw.view("orders_by_id", to="sqlite:views.db", key="id")
def orders_by_id():
    """Nobody runs it here: the test writes the rows."""
    return hw.table("shop.orders")
'''


def filled(folder: Path) -> View:
    """A view in SQLite with two pages of rows."""
    to = f"sqlite:{folder / 'views.db'}"
    writer = Writer(target_for(to, shape(view="orders_by_id")))
    writer.write(0, [(n, f"name {n}", n / 2) for n in range(LIMIT + 10)])
    return View("orders_by_id", lambda: None, to, ("id",))


def test_rows_are_read_by_key_page_by_page_and_at_a_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = filled(tmp_path)
    first = read(view, Asked())
    assert len(first.rows) == LIMIT and first.position == at(1)
    rest = read(view, Asked(after=first.after))
    assert [row["id"] for row in rest.rows] == list(range(LIMIT, LIMIT + 10)) and not rest.after
    assert read(view, Asked(key="7")).rows == ({"id": 7, "name": "name 7", "total": 3.5},)
    with pytest.raises(NotThere, match="has no row '700'"):
        read(view, Asked(key="700"))
    with pytest.raises(RequestRefused, match="has no search"):
        read(view, Asked(words="name"))
    assert read(view, Asked(key="7", position=str(at(1)))).position == at(1)
    monkeypatch.setattr("headwater.console.watching.rows.WAIT_S", 0.0)
    with pytest.raises(NotYet, match="has not reached"):
        read(view, Asked(position=str(at(2))))


def test_freshness_is_what_the_query_told() -> None:
    said = [
        {"at_ms": 1, "batches": 1, "freshness_seconds": 0.5, "lag_records": 3},
        {"at_ms": 2, "batches": 1, "freshness_seconds": None, "lag_records": 3},
        {"at_ms": 3, "batches": 2, "freshness_seconds": 0.25},
        {"at_ms": 4, "batches": 0, "freshness_seconds": 0.25, "lag_records": 0, "lag_seconds": 0.0},
        {"at_ms": 5, "batches": 0, "freshness_seconds": 0.25, "lag_records": 9, "lag_seconds": 2.0},
    ]
    told = now_of("v", [{"event": "progress", **each} for each in said], 6)
    assert freshness_of(told) == [
        (1.0, 0.5, 3.0),
        (3.0, 0.25, 0.0),
        (4.0, 0.0, 0.0),
        (5.0, 2.0, 9.0),
    ]
    assert freshness_of(None) == []
    assert last_change(told).endswith("ago, had waited 250 ms")
    assert last_change(None) == "not lately"


def test_a_query_without_batches_is_at_rest_in_its_chart() -> None:
    rates = {"processed_rows_per_second": 40.0, "batch_ms_max": 900}
    said = [
        {"event": "progress", "at_ms": at_ms, "batches": batches, **rates}
        for at_ms, batches in ((1, 2), (2, 0), (3, 1))
    ]
    assert lines_of(now_of("v", said, 4)) == ([1, 2, 3], [40, 0, 40], [900, 0, 900])


@pytest.mark.parametrize(
    ("state", "followed", "word"),
    [
        ("EMPTY", {"headwater-v"}, "of a query"),
        ("EMPTY", set(), "nobody reads"),
        ("STABLE", {"headwater-v"}, "reading"),
    ],
)
def test_the_group_of_a_query_that_runs_is_not_one_that_nobody_reads(
    state: str, followed: set[str], word: str
) -> None:
    assert state_of(Group("headwater-v", state, ""), followed)[0] == word


@pytest.mark.parametrize(
    ("lag", "said"),
    [(None, "–"), (Lag(0, 0.0), "up to date"), (Lag(3, 0.2), "3 min"), (Lag(3, 7200.0), "2 h")],
)
def test_a_view_for_which_nothing_waits_is_up_to_date_however_long_its_last_batch_had_waited(
    lag: Lag | None, said: str
) -> None:
    assert fresh(Listed("v", "topic:v", lag=lag, freshness_s=180.0)) == said


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A project whose pipelines are paused before it starts: no Spark."""
    folder = tmp_path_factory.mktemp("shop")
    log, page_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    (folder / "headwater.toml").write_text(
        f'[log]\nlisten = "{log}"\n[capture.shop]\nfrom = "sqlite:shop.db"\ntables = ["orders"]\n'
        f'[console]\nlisten = "{page_at}"\n'
    )
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "orders.py").write_text(PIPELINE)
    with sqlite3.connect(folder / "shop.db") as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
        db.executemany("INSERT INTO orders (item) VALUES (?)", [("tent",)] * 20)
    db.close()
    filled(folder)
    control.ask(folder / record.FOLDER, "pipelines", "pause", "a test")
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", "up"], cwd=folder, stdout=output, stderr=output
        )
        try:
            until(lambda: page_answers(page_at, 5.0), "the console under headwater up")
            _tell(log)
            yield f"http://{page_at}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def _tell(log: str) -> None:
    """What its query would tell the log."""
    producer = Producer({"bootstrap.servers": log, "log_level": 0})
    for number in range(5):
        said = {
            "event": "progress",
            "query": "orders_by_id",
            "to": "sqlite:views.db",
            "at_ms": int(time.time() * 1000) - 1000 * (5 - number),
            "freshness_seconds": 0.2 + number / 10,
            "lag_records": number,
        }
        producer.produce("__headwater_progress", json.dumps(said), "orders_by_id")
    assert producer.flush(60) == 0


def test_a_views_page_has_its_rows_its_freshness_and_its_query(url: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{url}/views")
    page.get_by_role("link", name="orders_by_id", exact=True).click()
    expect(page.get_by_role("heading", name="orders_by_id")).to_be_visible()
    expect(page.get_by_role("cell", name="name 7", exact=True)).to_be_visible()
    page.get_by_role("button", name="Next rows").click()
    expect(page.get_by_role("cell", name=f"name {LIMIT + 1}", exact=True)).to_be_visible()
    page.get_by_label("Key (id)").fill("11")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("1 row; the view is at")).to_be_visible()
    page.get_by_label("Key (id)").fill("")
    page.get_by_label("Search").fill("name")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text(re.compile("has no search"))).to_be_visible()
    expect(page.get_by_text("def", exact=True)).to_be_visible()
    expect(page.get_by_role("img", name="Chart: freshness, seconds")).to_be_visible()
    page.goto(f"{url}/views/nothing")
    expect(page.get_by_text("There is no view 'nothing'")).to_be_visible()


def test_a_captures_page_has_its_tables_and_its_buttons(url: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{url}/captures")
    page.get_by_role("link", name="shop", exact=True).click()
    expect(page.get_by_role("region", name="Capture shop")).to_contain_text("streaming")
    expect(page.get_by_role("row", name=re.compile(r"shop\.orders"))).to_contain_text(
        re.compile(r"orders2\d")
    )
    expect(page.get_by_role("button", name="Pause capture shop")).to_be_visible()
    page.goto(f"{url}/parts")
    card = page.get_by_role("link", name=re.compile("^pipelines"))
    expect(card).to_contain_text("paused")
    expect(card).to_contain_text("by a test")
