"""Views as changefeeds: the rows now, then every change, exactly, whoever comes, goes and is restarted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.client import connect

from headwater.browse.pages import page
from headwater.client.errors import InstanceFenced, RequestRefused
from headwater.client.log import Log
from headwater.edges.feeds import feeds_of
from headwater.edges.feeds.views.changes import Known, ViewChanges, topic_of
from headwater.pipelines.declarations import View
from headwater.pipelines.view_rows import Row, Rows
from headwater.project.file import load
from headwater.testing.targets import Writer, at, gone, shape
from headwater.views.targets.registry import target_for
from tests.edges.feeds.clients import Reader, following, put
from tests.edges.running import Running, edges, until

ADA, BOB, CAT = (1, "Ada", 1.5), (2, "Bob", 2.5), (3, "Cat", None)
_numbers = iter(range(10**6))


class Customers:
    """A view in SQLite, its writer, and a project that declares it."""

    def __init__(self, folder: Path) -> None:
        self.name = f"customers{next(_numbers)}"
        to = f"sqlite:{folder / 'views.db'}"
        self.writer = Writer(target_for(to, shape(view=self.name)))
        self.batch = 0
        (folder / "pipelines").mkdir()
        (folder / "pipelines" / "views.py").write_text(
            "import headwater as hw\n"
            f"@hw.view({self.name!r}, key='id', to={to!r})\n"
            "def customers():\n    raise AssertionError\n"
            f"@hw.view('bare', to={to!r})\n"
            "def bare():\n    raise AssertionError\n"
        )
        (folder / "headwater.toml").write_text("")
        self.project = load(folder / "headwater.toml")

    def write(self, *rows: tuple[Any, ...]) -> None:
        self.writer.write(self.batch, rows)
        self.batch += 1


@pytest.fixture
def customers(tmp_path: Path) -> Customers:
    return Customers(tmp_path)


def state_of(reader: Reader, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a client that keeps the rows has: name by key."""
    rows = dict(before or {})
    for event, _, data in reader.list():
        if event == "snapshot":
            rows = {}
        elif event == "message" and data["row"] is None:
            rows.pop(data["key"], None)
        elif event == "message":
            rows[data["key"]] = data["row"]["name"]
    return rows


def test_rows_come_first_and_then_every_change(log: Log, customers: Customers):
    customers.write(ADA, BOB)
    with edges(log.bootstrap, project=customers.project) as running:
        url = f"{running.url}/views/{customers.name}"
        with following(url) as reader:
            until(lambda: reader.named("live"), "the rows")
            assert state_of(reader) == {"1": "Ada", "2": "Bob"}
            first = next(data for event, _, data in reader.list() if event == "message")
            assert first["position"] == "customers:0=1"
            customers.write((1, "Ava", None), gone(2), CAT)
            until(lambda: state_of(reader) == {"1": "Ava", "3": "Cat"}, "the changes")
            changed = [data for event, _, data in reader.list() if event == "message"][2:]
            assert len(changed) == 3
            assert {each["position"] for each in changed} == {"customers:0=2"}
        with connect(url.replace("http", "ws", 1)) as socket:
            said = [json.loads(socket.recv(60)) for _ in range(4)]
            assert [each["event"] for each in said] == ["snapshot", "record", "record", "live"]
        answer = httpx.get(url).json()
        assert answer["position"] == "customers:0=2" and answer["in"] == "sqlite"
        status = httpx.get(f"{running.url}/status").json()["services"]["feeds"]["views"]
        assert status[customers.name]["changes"] == 5


def test_who_comes_back_after_a_restart_gets_exactly_what_it_missed(log: Log, customers: Customers):
    customers.write(ADA, BOB)
    with (
        edges(log.bootstrap, project=customers.project) as running,
        following(f"{running.url}/views/{customers.name}") as reader,
    ):
        until(lambda: reader.named("live"), "the rows")
        rows, last = state_of(reader), reader.last_id
    customers.write(gone(1), CAT)
    with edges(log.bootstrap, project=customers.project) as running:
        url = f"{running.url}/views/{customers.name}"
        with following(url, {"last-event-id": last}) as again:
            until(lambda: state_of(again, rows) == {"2": "Bob", "3": "Cat"}, "what was missed")
            assert not again.named("snapshot")
            assert len(again.records()) == 2
    found = page(log, topic_of(customers.name)).records
    assert [(each.key, each.value is None) for each in found] == [
        (b"1", False),
        (b"2", False),
        (b"3", False),
        (b"1", True),
    ]


def test_a_row_that_leaves_the_filter_is_told_as_gone(log: Log, customers: Customers):
    customers.write(ADA, BOB)
    with (
        edges(log.bootstrap, project=customers.project) as running,
        following(f"{running.url}/views/{customers.name}", where="name!=Bob") as reader,
    ):
        until(lambda: reader.named("live") == [{"records": 1}], "the rows")
        customers.write((1, "Bob", None), (2, "Bea", None))
        until(lambda: state_of(reader) == {"2": "Bea"}, "the changes")


def test_two_processes_may_feed_a_view_and_their_clients_see_the_same(
    log: Log, customers: Customers
):
    customers.write(ADA)
    with (
        edges(log.bootstrap, project=customers.project) as one,
        edges(log.bootstrap, project=customers.project) as other,
        following(f"{one.url}/views/{customers.name}") as first,
    ):
        until(lambda: first.named("live"), "the rows")
        with following(f"{other.url}/views/{customers.name}") as second:
            until(lambda: second.named("live"), "the rows")
            for name in ("Bea", "Cleo", "Dora"):
                customers.write((2, name, None))
                until(lambda name=name: state_of(first).get("2") == name, "first")
                until(lambda name=name: state_of(second).get("2") == name, "second")
            until(lambda: "another process" in trouble_of(one, customers.name), "the fence")
    told = [each.value for each in page(log, topic_of(customers.name)).records]
    assert len(told) == 4  # nothing was told twice


def trouble_of(running: Running, view: str) -> str:
    return str(feeds_of(running.context).views.feeds.facts()[view].get("trouble"))


def test_what_cannot_be_followed_is_a_problem(log: Log, customers: Customers):
    accept = {"accept": "text/event-stream"}
    taken = topic_of(customers.name)
    customers.write(ADA)
    with edges(log.bootstrap, project=customers.project) as running:
        views = f"{running.url}/views"
        assert httpx.get(f"{views}/nothing", headers=accept).status_code == 404
        answer = httpx.get(f"{views}/bare", headers=accept)
        assert answer.status_code == 400 and "has no key" in answer.json()["detail"]
        log.producer.produce(taken, b"somebody else's")  # creates it, not compacted
        log.producer.flush()
        answer = httpx.get(f"{views}/{customers.name}", headers=accept, timeout=30)
        assert answer.status_code == 400 and taken in answer.json()["detail"]


def test_a_view_that_goes_to_a_topic_is_followed_there(log: Log, topic, tmp_path: Path):
    name = topic(cleanup_policy="compact")
    put(log, name, ("1", {"name": "Ada"}))
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "views.py").write_text(
        "import headwater as hw\n"
        f"@hw.view('orders', key='id', to='topic:{name}')\n"
        "def orders():\n    raise AssertionError\n"
    )
    (tmp_path / "headwater.toml").write_text("")
    with (
        edges(log.bootstrap, project=load(tmp_path / "headwater.toml")) as running,
        following(f"{running.url}/views/orders") as reader,
    ):
        until(lambda: state_of(reader) == {"1": "Ada"}, "the row")
        put(log, name, ("1", None))
        until(lambda: state_of(reader) == {}, "its end")


# ---- the topic of changes -------------------------------------------------------------------------


class Given(Rows):
    """Rows that a test has, of which reading may break in the middle."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.rows: list[Row] = []
        self.breaks_at: int | None = None

    def get(self, key: str):
        raise NotImplementedError

    def page(self, after: str | None, limit: int):
        raise NotImplementedError

    @contextmanager
    def all(self) -> Iterator[Any]:
        def read() -> Iterator[Row]:
            for number, row in enumerate(self.rows):
                if number == self.breaks_at:
                    raise RequestRefused("the store broke")
                yield row

        yield at(len(self.rows)), read()


@pytest.fixture
def given_rows() -> Callable[[], tuple[str, Given]]:
    def made() -> tuple[str, Given]:
        name = f"given{next(_numbers)}"
        return name, Given(View(name, lambda: None, "sqlite:x", ("id",)))

    return made


def test_a_look_that_breaks_in_the_middle_leaves_no_trace(log: Log, given_rows):
    name, rows = given_rows()
    changes = ViewChanges(log, name, rows)
    changes.open()
    rows.rows = [Row(str(n), {"n": n}) for n in range(5)]
    rows.breaks_at = 3
    with pytest.raises(RequestRefused, match="broke"):
        changes.look()
    assert page(log, changes.topic).records == []
    rows.breaks_at = None
    changes.open()
    assert changes.look() == (at(5), 5)
    assert changes.look() == (at(5), 0)
    assert [each.key for each in page(log, changes.topic).records] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_writer_that_was_replaced_is_fenced_and_nothing_is_told_twice(log: Log, given_rows):
    name, rows = given_rows()
    rows.rows = [Row("1", {"n": 1})]
    old, new = ViewChanges(log, name, rows), ViewChanges(log, name, rows)
    old.open()
    old.look()
    new.open()
    assert new.look()[1] == 0
    rows.rows = [Row("1", {"n": 2})]
    with pytest.raises(InstanceFenced):
        old.look()
    assert new.look()[1] == 1
    assert len(page(log, old.topic).records) == 2


def test_a_name_that_no_topic_can_have_is_refused():
    with pytest.raises(RequestRefused):
        topic_of("orders of today")


# ---- differences, pure ----------------------------------------------------------------------------

STATE = st.dictionaries(st.binary(min_size=1, max_size=2), st.binary(max_size=2), max_size=8)


@given(st.lists(STATE, max_size=6), st.data())
def test_whoever_applies_the_changes_has_the_rows(states, data):
    known, readers = Known("v"), {}
    for rows in states:
        changes = list(known.changes(rows.items()))
        if data.draw(st.booleans()):  # the append failed: nothing was told
            continue
        known.told()
        assert all(readers.get(key) != row for key, row in changes)
        for key, row in changes:
            readers.pop(key, None)
            if row is not None:
                readers[key] = row
        assert readers == rows
        assert len(known) == len(rows)
        assert list(known.changes(rows.items())) == []
    again = Known("v")
    again.learn(readers.items())
    assert list(again.changes(readers.items())) == []


def test_a_view_with_too_many_rows_is_refused_and_not_half_told():
    known = Known("orders", rows_max=2)
    with pytest.raises(RequestRefused, match="more than 2 rows"):
        list(known.changes((b"%d" % n, b"{}") for n in range(3)))
