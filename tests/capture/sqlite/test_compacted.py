"""A SQLite file into compacted topics: a table that is made anew, renamed, read from the start again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture.config import CaptureConfig
from headwater.capture.removal import forget
from headwater.capture.runner import Runner
from tests.capture.core.reading import read
from tests.capture.postgres.running import eventually
from tests.capture.sqlite.drained import database


@pytest.fixture(scope="module")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "2"}) as running:
        yield running


@contextmanager
def running(config: CaptureConfig) -> Iterator[Runner]:
    runner, failures = Runner(config), list[BaseException]()

    def go() -> None:
        try:
            runner.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        eventually("it streams", lambda: failures or runner.status.phase == "streaming")
        yield runner
    finally:
        runner.stop()
        thread.join(60)
    assert not failures, failures


def rows_of(log: Broker, topic: str) -> Callable[[], dict[int, int]]:
    def rows() -> dict[int, int]:
        found: dict[int, int] = {}
        for record in read(log.bootstrap, topic):
            if record.value is None or record.value["after"] is None:
                found.pop(record.key["id"], None)
            else:
                found[record.key["id"]] = record.value["after"]["n"]
        return found

    return rows


def test_a_table_that_is_emptied_is_empty_in_a_compacted_topic(log: Broker, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = database(path, "CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER)")
    app.executemany("INSERT INTO orders VALUES (?, ?)", [(n, n) for n in range(40)])
    config = CaptureConfig(
        "emptied",
        f"sqlite:{path}",
        bootstrap=log.bootstrap,
        topic_config={"cleanup.policy": "compact"},
    )
    rows = rows_of(log, "emptied.orders")
    with running(config):
        app.execute("DROP TABLE orders")
        app.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER)")
        app.execute("INSERT INTO orders VALUES (3, 33)")
        eventually("the table as it was made anew", lambda: rows() == {3: 33})
        app.executemany("INSERT INTO orders VALUES (?, ?)", [(n, n) for n in range(50, 60)])
        eventually("more rows", lambda: len(rows()) == 11)
    app.execute("DELETE FROM orders WHERE id > 52")
    forget(config)
    app.execute("DELETE FROM orders WHERE id = 50")
    with running(config):
        eventually("what is left", lambda: rows() == {3: 33, 51: 51, 52: 52})
    app.close()
