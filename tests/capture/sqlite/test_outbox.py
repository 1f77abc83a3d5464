"""Rows of an outbox become events on the topics that they name, from SQLite to a broker and back."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import headwater.testing
from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner
from headwater.record import dead_letter
from tests.capture.core.reading import read
from tests.capture.sqlite.drained import Log, database

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)"
OUTBOX = (
    "CREATE TABLE outbox (id TEXT PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT, type TEXT,"
    " payload, headers TEXT, topic TEXT)"
)


def insert(id: str, **values: str | bytes | None) -> tuple[str, list[str | bytes | None]]:
    given = {
        "id": id, "aggregatetype": "order", "aggregateid": "7", "type": "placed", "payload": "{}"
    } | values  # fmt: skip
    marks = ", ".join("?" for _ in given)
    return f"INSERT INTO outbox ({', '.join(given)}) VALUES ({marks})", list(given.values())


def test_events_go_to_their_topics_and_rows_are_deleted_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    app = database(path, ORDERS, OUTBOX)
    app.execute("PRAGMA busy_timeout=5000")
    with headwater.testing.broker() as broker:
        config = CaptureConfig(
            "shop",
            f"sqlite:{path}",
            ("orders",),
            bootstrap=broker.bootstrap,
            outbox="outbox",
            options={"outbox_delete": True},
        )
        runner = Runner(config)
        thread = threading.Thread(target=runner.run)
        thread.start()
        try:
            wait(lambda: runner.status.phase == "streaming")
            app.execute("BEGIN")
            app.execute("INSERT INTO orders VALUES (7, 'tea')")
            app.execute(*insert("e1", payload='{"item":"tea"}', headers='{"trace":"abc"}'))
            app.execute(*insert("e2", topic="mail", payload=b"\0raw"))
            app.execute("COMMIT")
            wait(lambda: app.execute("SELECT count(*) FROM outbox").fetchone() == (0,))
        finally:
            runner.stop()
            thread.join()
        placed = read(broker.bootstrap, "outbox.event.order")
        assert [(one.key, one.value, one.headers) for one in placed] == [
            (7, {"item": "tea"}, [("id", b"e1"), ("eventType", b"placed"), ("trace", b"abc")])
        ]
        assert len(read(broker.bootstrap, "shop.orders")) == 1


def test_a_row_inserted_and_deleted_at_once_is_an_event(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", OUTBOX)
    app.execute(*insert("before the first run"))
    log = Log(tmp_path / "a.db", outbox="outbox").drain()
    app.execute("BEGIN")
    app.execute(*insert("e1", payload=None))
    app.execute("DELETE FROM outbox WHERE id = 'e1'")
    app.execute("COMMIT")
    log.drain()
    events = [record for record in log.records if record[0] == "outbox.event.order"]
    assert [event[3][0][1] for event in events] == [b"before the first run", b"e1"]
    assert events[1][2] is None
    assert "shop.outbox" not in log.open().topics()


def test_a_row_that_is_no_event_is_a_dead_letter(tmp_path: Path) -> None:
    app = database(tmp_path / "a.db", OUTBOX)
    log = Log(tmp_path / "a.db", outbox="outbox").drain()
    app.execute(*insert("e1", topic="no such/topic"))
    app.execute(*insert("e2", headers="[1]"))
    app.execute("UPDATE outbox SET topic = 'mail'")
    app.execute(*insert("e3"))
    log.drain()
    dead = [record for record in log.records if record[0] == "shop.outbox.dead-letters"]
    reasons = [dict(record[3])["__dlq.errors.message"] for record in dead]
    causes = [dead_letter.cause_of(record[3]) for record in dead]
    assert [(each.topic, each.group, each.partition, each.offset) for each in causes if each] == [
        ("outbox", "headwater.capture.shop", -1, -1)
    ] * 4
    assert all(len(record[3]) == 5 for record in dead)  # those that all dead letters have
    assert [b"no topic" in r or b"no JSON object" in r or b"was updated" in r for r in reasons] == [
        True
    ] * 4
    assert [record[3][0][1] for record in log.records if record[0] == "outbox.event.order"] == [
        b"e3"
    ]


def wait(condition: object) -> None:
    deadline = time.monotonic() + 100
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)
