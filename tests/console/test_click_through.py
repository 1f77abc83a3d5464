"""`headwater up` with a console, seen and clicked through in a real browser while a capture works."""

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

from headwater.project import record
from headwater.project.hello import page_answers
from headwater.project.ports import free_port
from tests.compat.waiting import until
from tests.console.running import console

if TYPE_CHECKING:
    from playwright.sync_api import Page


pytestmark = pytest.mark.timeout(900)  # each wait has a bound of its own


class Project:
    """A broker, a capture of SQLite and a console under one supervisor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log, self.page_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.url = f"http://{self.page_at}"
        (folder / "headwater.toml").write_text(
            f'[log]\nlisten = "{self.log}"\n[capture.shop]\nfrom = "sqlite:shop.db"\n'
            f'tables = ["orders"]\n[console]\nlisten = "{self.page_at}"\n'
        )
        with sqlite3.connect(folder / "shop.db") as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
            db.executemany("INSERT INTO orders (item) VALUES (?)", [("tent",)] * 20)
        db.close()

    def insert(self) -> None:
        with sqlite3.connect(self.folder / "shop.db", timeout=60) as db:
            db.execute("INSERT INTO orders (item) VALUES ('lamp')")
        db.close()

    def tell(self, **more: object) -> None:
        """What a query would tell the log."""
        said = {
            "event": "progress",
            "query": "counts",
            "to": "sqlite:views.db",
            "batches": 1,
            **more,
        }
        producer = Producer({"bootstrap.servers": self.log, "log_level": 0})
        soon_ms = (
            int(time.time() * 1000) + 600_000
        )  # however slow this machine is, it is not silent
        value = json.dumps({"at_ms": soon_ms, **said})
        producer.produce("__headwater_progress", value, "counts")
        assert producer.flush(60) == 0

    def pid(self, name: str) -> int:
        _, entries = record.read(self.folder / record.FOLDER)
        (found,) = [entry.pid for entry in entries if entry.name == name]
        assert found is not None
        return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("shop"))
    with (made.folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", "up"], cwd=made.folder, stdout=output, stderr=output
        )
        try:
            until(lambda: page_answers(made.page_at, 5.0), "the console under headwater up")
            yield made
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def test_the_flow_shows_what_is_captured_and_leads_to_it(project: Project, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(project.url)
    expect(page).to_have_title("Flow · headwater")
    source, topic = (
        page.locator(f'[data-node="{n}"]') for n in ("source:shop", "topic:shop.orders")
    )
    expect(source).to_contain_text("streaming")
    expect(topic).to_contain_text("records")
    project.insert()
    expect(page.get_by_text("All is well")).to_be_visible()
    source.click()
    expect(page).to_have_url(re.compile(r"/captures\?name=shop$"))
    expect(page.get_by_role("heading", name="Captures")).to_be_visible()
    expect(page.get_by_role("region", name="Capture shop")).to_contain_text("streaming")
    page.go_back()
    expect(page.locator('[data-node="source:shop"]')).to_be_visible()


def test_a_query_that_fails_is_red_and_says_why(project: Project, page: Page) -> None:
    from playwright.sync_api import expect

    project.tell(input_rows=20, lag_records=0, lag_seconds=0.0, position={"shop.orders": {"0": 20}})
    page.goto(f"{project.url}/queries")
    card = page.get_by_role("region", name="Query counts")
    expect(card).to_contain_text("running")
    project.tell(event="failed", reason="the disk is full", to="sqlite:views.db")
    expect(card.get_by_role("alert")).to_have_text("the disk is full")
    page.get_by_role("link", name="headwater: to the flow").click()
    expect(page.locator('[data-node="query:counts"]')).to_have_class(re.compile("hw-bad"))
    expect(page.get_by_text("1 thing needs attention")).to_be_visible()


def test_parts_show_their_logs_and_the_address_of_the_page_is_printed(
    project: Project, page: Page
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{project.url}/parts")
    for name in ("broker", "capture shop", "console"):
        expect(page.get_by_role("link", name=re.compile(f"^{name}"))).to_contain_text("running")
    page.get_by_role("link", name=re.compile("^capture shop")).click()
    expect(page.get_by_label("Log of capture shop")).to_contain_text("shop:")
    assert f"running at {project.url}/" in (project.folder / "output.txt").read_text()
    status = [sys.executable, "-m", "headwater", "status"]
    told = subprocess.run(status, cwd=project.folder, capture_output=True, text=True, check=False)
    assert f"{project.url}/" in told.stdout


def test_a_capture_is_paused_and_resumed(project: Project, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{project.url}/parts")
    card = page.get_by_role("link", name=re.compile("^capture shop"))
    page.get_by_role("button", name="Pause capture shop").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(card).to_contain_text("paused")
    expect(card).to_contain_text("by nobody")  # this console asks nobody for a name
    expect(page.get_by_role("button", name="Pause broker")).to_have_count(0)
    page.goto(project.url)
    expect(page.locator('[data-node="source:shop"]')).to_contain_text("paused")
    page.goto(f"{project.url}/audit")
    expect(page.get_by_role("cell", name="part capture shop")).to_be_visible()
    page.goto(f"{project.url}/parts")
    page.get_by_role("button", name="Resume capture shop").click()
    expect(card).to_contain_text("running")


def test_everything_is_reached_by_the_keyboard_and_colours_are_remembered(
    project: Project, page: Page
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{project.url}/parts")
    expect(page.get_by_role("heading", name="Parts", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_role("navigation").get_by_role("link", name="Views").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Views")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Views")).to_have_attribute(
        "aria-current", "page"
    )
    page.get_by_role("button", name="Colours: auto").click()
    page.get_by_role("button", name="Colours: light").click()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    until(lambda: "headwater_theme" in {c["name"] for c in page.context.cookies()}, "the cookie")
    page.goto(f"{project.url}/nowhere")
    expect(page.get_by_text("The console has no page at /nowhere.")).to_be_visible()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))


def test_the_page_stays_while_the_broker_is_away_and_goes_on_when_it_is_back(
    project: Project, page: Page, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    page.goto(project.url)
    expect(page.locator('[data-node="topic:shop.orders"]')).to_be_visible()
    subprocess.run(["kill", "-STOP", str(project.pid("broker"))], check=True)
    try:
        expect(page.get_by_text("The log does not answer")).to_be_visible()
        expect(page.locator('[data-node="topic:shop.orders"]')).to_have_class(re.compile("hw-bad"))
    finally:
        subprocess.run(["kill", "-KILL", str(project.pid("broker"))], check=True)
    expect(page.get_by_text("The log does not answer")).to_be_hidden()
    expect(page.locator('[data-node="topic:shop.orders"]')).not_to_have_class(re.compile("hw-bad"))


def test_a_console_with_a_token_asks_for_it_and_one_that_is_read_only_says_so(
    tmp_path: Path, page: Page
) -> None:
    from playwright.sync_api import expect

    words = ("--bootstrap", "127.0.0.1:1", "--read-only")
    with console(*words, folder=tmp_path, environment={"HEADWATER_CONSOLE_TOKEN": "river"}) as url:
        page.goto(f"{url}/parts")
        page.get_by_label("Token").fill("lake")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("That is not the token.")
        page.get_by_label("Token").fill("river")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("read-only")).to_be_visible()
        page.get_by_role("navigation").get_by_role("link", name="Parts").click()
        expect(page.get_by_text("This console shows a log, and no project.")).to_be_visible()
