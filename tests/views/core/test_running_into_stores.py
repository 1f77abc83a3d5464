"""Views in stores as `headwater run` keeps them: end to end over a broker and Spark, into SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import headwater as hw
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.query import State
from headwater.views.targets.contract import Shape
from headwater.views.targets.registry import target_for
from tests.capture.postgres.server import PostgresServer
from tests.capture.postgres.server import postgres as running_postgres
from tests.spark.run.desk import Desk
from tests.views.core.finishing import finish

NewName = Callable[[], str]


def select(path: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def declared() -> View:
    return DECLARED.views()[-1]


def change(key: int, **row: Any) -> tuple[str, str]:
    return json.dumps({"id": key}), json.dumps({"op": "u", "after": {"id": key, **row}})


def deletion(key: int) -> list[tuple[str, str | None]]:
    """Debezium's delete, and the tombstone after it."""
    name = json.dumps({"id": key})
    return [(name, json.dumps({"op": "d", "before": {"id": key}, "after": None})), (name, None)]


def test_a_keyed_view_over_a_table_and_an_append_view_over_a_stream_follow_the_log(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    shop, changes, events = tmp_path / "shop.db", new_name(), new_name()
    for topic in (changes, events):
        desk.log.ensure_topic(topic, {}, partitions=2)

    @hw.view("orders", key="id", to=f"sqlite:{shop}")
    def orders():
        table = hw.table(changes, schema="id BIGINT, total DOUBLE, note STRING", key="id")
        return table.select("id", "total", "note", "_deleted")

    keyed = declared()

    @hw.view("clicks", to=f"sqlite:{shop}", options={"table": "all clicks"})
    def clicks():
        return hw.stream(events, schema="who STRING, at TIMESTAMP")

    plain = declared()
    many = [change(n, total=n / 2, note="first") for n in range(200)]
    many += [change(n, total=n / 2, note="last") for n in range(100)]
    many += deletion(7) + deletion(8) + [change(8, total=80.0, note="back")]
    desk.send(changes, many)
    desk.send(events, [(None, '{"who": "Ada", "at": "2026-01-01T10:00:00Z"}')] * 3)
    finish(desk, keyed, plain)
    notes = {n: "last" if n < 100 else "first" for n in range(200)} | {8: "back"}
    totals = {n: n / 2 for n in range(200)} | {8: 80.0}
    expected = [(n, totals[n], notes[n]) for n in range(200) if n != 7]
    assert select(shop, "SELECT id, total, note FROM orders ORDER BY id") == expected
    assert (
        select(shop, 'SELECT * FROM "all clicks"') == [("Ada", "2026-01-01T10:00:00.000000Z")] * 3
    )

    desk.send(changes, [change(199, total=0.5, note=None), *deletion(0)])
    desk.send(events, [(None, '{"who": "Bob", "at": null}')])
    finish(desk, keyed, plain)
    expected = [*expected[1:-1], (199, 0.5, None)]
    assert select(shop, "SELECT id, total, note FROM orders ORDER BY id") == expected
    assert select(shop, 'SELECT who FROM "all clicks" ORDER BY who')[-1] == ("Bob",)
    (position,) = select(shop, "SELECT position FROM headwater_views WHERE view = 'orders'")[0]
    assert sum(json.loads(position)[changes].values()) == len(many) + 3


def letters_of(desk: Desk, topic: str) -> list[dict[str, str]]:
    found = []
    for record in desk.records(topic):
        headers = {name: (value or b"").decode() for name, value in record.headers() or []}
        said = {name.removeprefix("__dlq.errors."): text for name, text in headers.items()}
        found.append({**said, "value": (record.value() or b"").decode()})
    return sorted(found, key=lambda each: (int(each["partition"]), int(each["offset"])))


def test_refused_rows_become_dead_letters_with_their_record_or_stop_the_query(
    desk: Desk, database: str, server: PostgresServer, new_name: NewName
):
    topic, name = new_name(), new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)
    server.execute(
        f'CREATE TABLE "{name}" (id bigint PRIMARY KEY, total numeric(4, 1), note text UNIQUE)',
        database=database.rpartition("/")[2],
    )

    def orders():
        return hw.stream(topic, schema="id BIGINT, total DOUBLE, note STRING")

    hw.view(name, key="id", to=database)(orders)
    lenient = declared()
    rows = [(1, 1.0, "one"), (2, 99999.0, "two"), (3, 3.0, "one"), (None, 4.0, "four")]
    rows += [(5, 5.0, "five"), (5, 5.5, "five again")]
    values = [json.dumps(dict(zip(("id", "total", "note"), r, strict=True))) for r in rows]
    desk.send(topic, [("k", value) for value in values])
    finish(desk, lenient)
    shown = server.execute(
        f'SELECT id, total::float, note FROM "{name}" ORDER BY id',
        database=database.rpartition("/")[2],
    )
    assert shown == [(1, 1.0, "one"), (5, 5.5, "five again")]
    letters = letters_of(desk, lenient.dead_letters)
    assert [(each["offset"], each["value"]) for each in letters] == [
        ("1", values[1]), ("2", values[2]), ("3", values[3]),
    ]  # fmt: skip
    assert "numeric field overflow" in letters[0]["message"]
    assert "duplicate key value" in letters[1]["message"]
    assert "key id is null" in letters[2]["message"]
    assert {each["topic"] for each in letters} == {topic}
    assert letters[0]["position"] == f"{topic}:0=6"
    assert letters[0]["group"] == f"headwater-{name}"
    counted = [row["dead_letter_rows"] for row in desk.progress(name) if row["event"] == "progress"]
    assert sum(counted) == 3

    strict_name = new_name()
    hw.view(strict_name, key="id", to=database, on_refused="fail", options={"table": "strict"})(
        orders
    )
    (query,) = desk.begin(declared(), once=True)
    desk.step_until(lambda: query.state is State.REFUSED, "the refusal")
    assert f"refuses a row of the view {strict_name!r}: its key id is null" in desk.said[-1]


def test_a_store_that_is_away_is_waited_for_and_a_second_writer_fences_the_first(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    topic, name = new_name(), new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)
    with running_postgres({"wal_level": "replica"}) as own:
        seen: list[tuple[int, int]] = []

        @hw.view(name, key="id", to=own.url())
        def numbers():
            return hw.stream(topic, schema="id BIGINT")

        stored = declared()
        hw.view(new_name(), to=lambda batch: seen.append((batch.id, batch.arrow.num_rows)))(numbers)
        called = declared()
        desk.send(topic, [(None, '{"id": 1}')])
        first, effect = desk.begin(stored, called)

        def rows() -> list[tuple[object, ...]]:
            return own.execute(f'SELECT id FROM "{name}" ORDER BY id')

        desk.step_until(lambda: first.state is State.RUNNING and rows(), "the first row")
        desk.step_until(lambda: seen == [(0, 1)], "the first call")
        own.kill()
        desk.send(topic, [(None, '{"id": 2}')])
        desk.step_until(lambda: first.state is State.WAITING, "a failure")
        failures = [said for said in desk.said if said.startswith(f"{name}: failed, tried again")]
        assert "PostgreSQL cannot be used now" in failures[0]
        own.start()
        desk.step_until(lambda: rows() == [(1,), (2,)], "the second row")
        desk.step_until(lambda: seen == [(0, 1), (1, 1)], "both batches")

        shape = Shape(name, pa.schema([("id", pa.int64())]), ("id",))
        target_for(own.url(), shape).claim()  # as another driver of the same view would
        desk.send(topic, [(None, '{"id": 3}')])
        desk.step_until(lambda: first.state is State.REFUSED, "the fence")
        assert "has another writer now" in desk.said[-1]
        assert effect.state is State.RUNNING
        assert rows() == [(1,), (2,)]


def test_a_checkpoint_that_begins_anew_does_not_run_into_a_store_that_is_further(
    desk: Desk, tmp_path: Path, new_name: NewName
):
    topic, shop = new_name(), tmp_path / "shop.db"
    desk.log.ensure_topic(topic, {}, partitions=1)

    @hw.view("prices", key="id", to=f"sqlite:{shop}", kind="history")
    def prices():
        return hw.stream(topic, schema="id BIGINT, price DOUBLE")

    view = declared()
    ours = [(None, json.dumps({"id": n % 2, "price": n / 1})) for n in range(6)]
    desk.send(topic, ours[:4])
    finish(desk, view)
    desk.send(topic, ours[4:])
    finish(desk, view)
    found = select(shop, "SELECT id, price, current, valid_to FROM prices ORDER BY id, price")
    assert [(n, price, bool(current)) for n, price, current, _ in found] == [
        (0, 0.0, False), (0, 2.0, False), (0, 4.0, True),
        (1, 1.0, False), (1, 3.0, False), (1, 5.0, True),
    ]  # fmt: skip
    assert [until is None for *_, until in found] == [False, False, True] * 2
    Path(desk.checkpoints.of("prices")).rename(tmp_path / "elsewhere")
    (query,) = desk.begin(view, once=True)
    desk.step_until(lambda: query.state is State.REFUSED, "the refusal")
    assert "they are not of one life" in desk.said[-1]
    assert len(select(shop, "SELECT id FROM prices")) == 6
