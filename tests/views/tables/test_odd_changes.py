"""Changes of tables that are out of the ordinary, in views that show the table and in views that compute:
truncates, keys that change, both zeros, nulls, maps with a name twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as sf

import headwater as hw
from tests.spark.run.desk import Desk
from tests.views.tables.test_running import declared, finish, select

NewName = Callable[[], str]


def put(bootstrap: str, topic: str, partition: int, *records: tuple[str | None, Any], at: int = 0):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for key, value in records:
        text = value if value is None or isinstance(value, str) else json.dumps(value)
        when = {"timestamp": at} if at else {}
        producer.produce(topic, key=key, value=text, partition=partition, **when)
    assert producer.flush(30) == 0


def envelope(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after}


@pytest.fixture
def topic(desk: Desk, new_name: NewName) -> str:
    name = new_name()
    desk.log.ensure_topic(name, {}, partitions=2)
    return name


# ---- a table that is shown as it is -------------------------------------------------------------------


def shown_as_it_is(desk: Desk, folder: Path, topic: str, row: str) -> list[tuple[Any, ...]]:
    view = declared(
        lambda: hw.table(topic, schema=row, key="id"),
        "mirror",
        key="id",
        to=f"sqlite:{folder}/v.db",
    )
    finish(desk, view)
    return sorted(select(folder / "v.db", "SELECT * FROM mirror"))


def test_rows_of_a_truncated_table_go_from_a_view_that_shows_it(
    desk: Desk, tmp_path: Path, topic: str
):
    first = [(str(n), envelope("c", None, {"id": n, "v": "old"})) for n in (1, 2)]
    again = ("2", envelope("r", None, {"id": 2, "v": "new"}))
    put(desk.bootstrap, topic, 0, *first, (None, envelope("t", None, None)), again)
    assert shown_as_it_is(desk, tmp_path, topic, "id BIGINT, v STRING") == [(2, "new")]


def test_a_row_that_moved_is_not_left_behind_and_a_column_may_be_called_payload(
    desk: Desk, tmp_path: Path, topic: str
):
    made = ("1", envelope("c", None, {"id": 1, "payload": "a"}))
    moved = ("2", envelope("u", {"id": 1, "payload": "a"}, {"id": 2, "payload": "a"}))
    put(desk.bootstrap, topic, 0, made, moved, ("3", {"id": 3, "payload": "x"}))
    found = shown_as_it_is(desk, tmp_path, topic, "id BIGINT, payload STRING")
    assert found == [(2, "a"), (3, "x")]


# ---- views over tables --------------------------------------------------------------------------------


def test_both_zeros_are_one_key_of_a_table(desk: Desk, tmp_path: Path, topic: str):
    def all_rows() -> Any:
        return hw.table(topic, schema="id DOUBLE, a STRING", key="id").where("a <> ''")

    view = declared(all_rows, "rows", key="id", to=f"sqlite:{tmp_path}/v.db")
    put(desk.bootstrap, topic, 0, ("z", '{"id": 0.0, "a": "1"}'), ("z", '{"id": -0.0, "a": "2"}'))
    finish(desk, view)
    put(desk.bootstrap, topic, 0, ("z", '{"id": -0.0, "a": "3"}'))
    finish(desk, view)
    assert select(tmp_path / "v.db", "SELECT a FROM rows") == [("3",)]


def test_a_zero_that_changes_its_sign_is_a_change(desk: Desk, tmp_path: Path, topic: str):
    def as_text() -> Any:
        rows = hw.table(topic, schema="id BIGINT, x DOUBLE", key="id")
        return rows.selectExpr("id", "cast(x as string) AS s")

    view = declared(as_text, "rows", key="id", to=f"sqlite:{tmp_path}/v.db")
    for value in ("0.0", "-0.0"):
        put(desk.bootstrap, topic, 0, ("1", f'{{"id": 1, "x": {value}}}'))
        finish(desk, view)
    assert select(tmp_path / "v.db", "SELECT s FROM rows") == [("-0.0",)]


def test_a_row_that_moves_to_another_partition_in_the_batch_that_made_it_is_gone(
    desk: Desk, tmp_path: Path, topic: str
):
    def all_rows() -> Any:
        return hw.table(topic, schema="id BIGINT, a STRING", key="id").where("id > 0")

    view = declared(all_rows, "rows", key="id", to=f"sqlite:{tmp_path}/v.db")
    made = [(str(n), envelope("c", None, {"id": n, "a": "x"})) for n in (5, 6, 1)]
    put(desk.bootstrap, topic, 0, *made, at=1_700_000_000_000)
    moved = ("2", envelope("u", {"id": 1, "a": "x"}, {"id": 2, "a": "x"}))
    put(desk.bootstrap, topic, 1, moved, at=1_700_000_001_000)
    finish(desk, view)
    assert select(tmp_path / "v.db", "SELECT id FROM rows ORDER BY id") == [(2,), (5,), (6,)]


def test_a_table_with_columns_that_are_not_null_can_lose_a_row(
    desk: Desk, tmp_path: Path, topic: str, new_name: NewName
):
    other = new_name()
    desk.log.ensure_topic(other, {}, partitions=1)

    def joined() -> Any:
        one = hw.table(topic, schema="id BIGINT NOT NULL, name STRING NOT NULL", key="id")
        two = hw.table(other, schema="title STRING NOT NULL, v INT", key="title")
        return one.join(two, sf.upper("name") == sf.upper("title"), "left").select(
            "id", "name", "v"
        )

    view = declared(joined, "joined", key="id", to=f"sqlite:{tmp_path}/v.db")
    put(desk.bootstrap, other, 0, ("A", {"title": "A", "v": 1}))
    put(desk.bootstrap, topic, 0, *((str(n), {"id": n, "name": "a"}) for n in (1, 2)), ("1", None))
    put(desk.bootstrap, topic, 0, ("2", {"id": 2}))
    finish(desk, view)
    assert select(tmp_path / "v.db", "SELECT id, v FROM joined") == [(2, 1)]
    (letter,) = desk.records(view.dead_letters)
    assert dict(letter.headers())["__dlq.errors.message"] == b"name is null, and it is NOT NULL"


def test_a_map_that_has_a_name_twice_does_not_stop_the_view(desk: Desk, tmp_path: Path, topic: str):
    def sizes() -> Any:
        rows = hw.table(topic, schema="id BIGINT, m MAP<STRING, INT>", key="id")
        return rows.selectExpr("id", "size(m) AS n")

    view = declared(sizes, "sizes", key="id", to=f"sqlite:{tmp_path}/v.db")
    twice = ("2", '{"id": 2, "m": {"a": 1, "a": 2}}')
    put(desk.bootstrap, topic, 0, ("1", {"id": 1, "m": {"a": 1}}), twice)
    finish(desk, view)
    assert select(tmp_path / "v.db", "SELECT id, n FROM sizes") == [(1, 1)]
    (letter,) = desk.records(view.dead_letters)
    assert letter.value() == twice[1].encode()
