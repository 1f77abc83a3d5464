"""The demo's tour in a real browser: five steps, a broker that is really killed, and nobody else's project.

The views are played by the test, so that nothing waits for Spark; the whole demo takes the tour as well
(tests/project/test_demo_whole.py).
"""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.client.errors import NotThere
from headwater.project.demo.shop.database import Shop, SQLite
from headwater.project.demo.shop.load import CUSTOMERS
from headwater.project.demo.shop.project import ShopProject, write_project
from headwater.project.demo.shop.tour import FIRST, MARK, TourOver, tour_of
from headwater.project.demo.shop.verification import BELL, QUERIES, SESSION_GAP_MS
from headwater.project.file import FILE, load
from headwater.project.hello import page_answers
from tests.compat.waiting import until
from tests.console.running import START_S, console

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(900)
VIEWS = tuple(QUERIES)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ShopProject:
    """The demo's project, without its pipelines: where its views would be, there is one file."""
    folder = tmp_path_factory.mktemp("demo") / "shop"
    project = write_project(folder, cache="sqlite:views.db")
    (folder / "pipelines" / "shop.py").unlink()
    (folder / "pipelines").rmdir()
    text = (folder / FILE).read_text()
    (folder / FILE).write_text(re.sub('to = ".*"', 'to = "sqlite:views.db"', text))
    with closing(SQLite(folder / "shop.db")) as database:
        shop = Shop(database, CUSTOMERS)
        shop.make()
        for _ in range(3):
            shop.order(shop.register("Oslo"), "lamp", 1200)
    with closing(sqlite3.connect(folder / "views.db")) as db:
        for name, (columns, _) in QUERIES.items():
            db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    return project


@pytest.fixture(scope="module")
def url(made: ShopProject) -> Iterator[str]:
    assert made.console is not None
    with (made.folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", "up"], cwd=made.folder, stdout=output, stderr=output
        )
        try:
            until(lambda: page_answers(str(made.console), 5.0), "the console's page", START_S)
            yield f"http://{made.console}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def follow(folder: Path) -> int:
    """Do what the pipelines would do, for the last order of a tour; its number."""
    with closing(sqlite3.connect(folder / "shop.db", timeout=60)) as db:
        number, customer, item, cents = db.execute(
            "SELECT * FROM orders ORDER BY id DESC LIMIT 1"
        ).fetchone()
        at, count = db.execute("SELECT max(at), count(*) FROM payments").fetchone()
    with closing(sqlite3.connect(folder / "views.db", timeout=60)) as db, db:
        db.execute("INSERT INTO order_list VALUES (?,'a','b',?,?)", (number, item, cents))
        db.execute("INSERT INTO order_search VALUES (?,'a','b',?)", (number, item))
        minute = at // 60_000 * 60_000
        db.execute("INSERT INTO revenue_per_minute VALUES (?,?,?)", (minute, count, cents))
        session = (customer, at, at + SESSION_GAP_MS)
        db.execute("INSERT INTO sessions VALUES (?,?,?,1)", session)
    return int(number)


def step(page: Page, number: int) -> Locator:
    return page.get_by_role("listitem", name=re.compile(f"^Step {number}:"))


def test_the_five_steps_from_a_row_to_a_broker_that_came_back(
    made: ShopProject, url: str, page: Page
) -> None:
    from playwright.sync_api import expect

    page.goto(url)
    page.get_by_role("navigation").get_by_role("link", name="Tour").click()
    expect(page.get_by_role("heading", name="Tour")).to_be_visible()
    for name in ("Find it in the log", "Look into the views", "Kill the broker"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()

    page.get_by_role("button", name="Write an order").click()
    expect(step(page, 1)).to_contain_text(f"Order {FIRST + 1} is committed")
    page.get_by_role("button", name="Find it in the log").click()
    expect(step(page, 2)).to_contain_text(re.compile(r"shop\.orders, partition 0, offset \d+"))
    expect(step(page, 2)).to_contain_text('"item": "canoe"')

    page.get_by_role("button", name="Look into the views").click()
    expect(step(page, 3)).to_contain_text("sessions does not have it yet: a session is over after")
    assert follow(made.folder) == FIRST + 1
    for name in VIEWS:
        expect(step(page, 3)).to_contain_text(f"{name} shows it:")

    page.get_by_role("button", name="Kill the broker").click()
    expect(step(page, 4)).to_contain_text(re.compile(r"Process \d+ is gone"))
    page.get_by_role("button", name="Watch it come back").click()
    expect(step(page, 5)).to_contain_text("headwater up has started it again, as process")
    expect(step(page, 5)).to_contain_text("Your order is where it was")
    expect(step(page, 5)).to_contain_text(f"Another order, {FIRST + 2}, came to offset")
    follow(made.folder)
    expect(step(page, 5)).to_contain_text("Nothing was lost, nothing came twice.")
    expect(page.get_by_role("button", name="Watch it come back")).to_be_enabled()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("link", name="Open it in its topic").click()
    expect(page).to_have_url(re.compile("/topics/shop.orders"))


def test_a_reader_of_the_demo_looks_and_changes_nothing(
    made: ShopProject, url: str, page: Page, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    words = ("--project", str(made.folder), "--read-only")
    with console(*words, folder=tmp_path) as own:
        page.goto(f"{own}/tour")
        expect(step(page, 1)).to_contain_text("takes the role of operator")
        expect(step(page, 4)).to_contain_text("takes the role of administrator")
        expect(page.get_by_role("button", name="Write an order")).to_be_hidden()
        expect(page.get_by_role("button", name="Kill the broker")).to_be_hidden()


def test_no_other_project_has_a_tour(
    made: ShopProject, url: str, page: Page, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    (tmp_path / FILE).write_text(f'[log]\nlisten = "{made.bootstrap}"\n')
    with console("--project", str(tmp_path), folder=tmp_path) as own:
        page.goto(f"{own}/tour")
        expect(page.get_by_text("The console has no page at /tour.")).to_be_visible()
        navigation = page.get_by_role("navigation")
        expect(navigation.get_by_role("link", name="Flow")).to_be_visible()
        expect(navigation.get_by_role("link", name="Tour")).to_have_count(0)


@pytest.mark.parametrize(
    "mark", [None, "", "[]", "{}", '{"database": "mysql"}', '{"database": []}']
)
def test_a_file_that_is_not_the_demos_marks_nothing(tmp_path: Path, mark: str | None) -> None:
    (tmp_path / FILE).write_text("[log]\n")
    if mark is not None:
        (tmp_path / MARK).write_text(mark)
    assert tour_of(load(tmp_path / FILE)) is None


def test_a_log_that_others_run_is_never_the_demos(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('[log]\nbootstrap = "kafka-1:9092"\n')
    (tmp_path / MARK).write_text('{"database": "sqlite"}')
    assert tour_of(load(tmp_path / FILE)) is None
    assert tour_of(None) is None


def test_nothing_is_written_after_the_shop_has_closed_and_nobody_killed_who_is_not_there(
    tmp_path: Path,
) -> None:
    project = write_project(tmp_path / "shop", cache="sqlite:views.db")
    with closing(SQLite(project.folder / "shop.db")) as database:
        shop = Shop(database, CUSTOMERS)
        shop.make()
        tour = tour_of(load(project.folder / FILE))
        assert tour is not None
        first, second = tour.write(), tour.write()
        assert (first.number, second.number) == (FIRST + 1, FIRST + 2)
        with pytest.raises(TourOver, match="the broker is not running just now"):
            tour.kill_broker()
        shop.visit(BELL, "closing", 0)
        with pytest.raises(TourOver, match="the shop has closed"):
            tour.write()
        assert database.rows("SELECT count(*) FROM orders") == [(2,)]


def test_the_tour_of_a_log_alone_is_refused() -> None:
    from headwater.console.administration.tour import of
    from tests.console.test_administration import consoles

    with consoles("127.0.0.1:1") as nowhere, pytest.raises(NotThere, match="is for the demo"):
        of(nowhere)
