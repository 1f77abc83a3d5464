"""From a database to a view without a schema by hand: capture registers, `hw.table` asks."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

import headwater as hw
from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner
from headwater.capture.schema_registration import SchemaRefused
from headwater.pipelines.errors import SchemaAwaited
from headwater.pipelines.registry import awaited
from headwater.schemas.client import RegistryClient
from tests.capture.sqlite.drained import database
from tests.soak import in_soak
from tests.spark.run.desk import Desk
from tests.views.tables.test_running import declared, finish, select

NewName = Callable[[], str]
ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, total REAL NOT NULL)"
CUSTOMERS = "CREATE TABLE customers (name TEXT PRIMARY KEY, town TEXT)"


@contextmanager
def capturing(config: CaptureConfig) -> Iterator[Runner]:
    """It runs until the block ends; what ended it before that is raised there."""
    runner, failed = Runner(config), []

    def run() -> None:
        try:
            runner.run()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield runner
    finally:
        runner.stop()
        thread.join(60)
    if failed:
        raise failed[0]


def wait_for(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)  # between two looks


def captured(app: sqlite3.Connection, runner: Runner) -> None:
    """Until the log has all that the database had."""
    wait_for(lambda: runner.status.phase == "streaming", "the snapshot")
    (last,) = app.execute("SELECT max(seq) FROM _headwater_changes").fetchone()
    wait_for(lambda: (runner.status.position or {}).get("seq", 0) >= (last or 0), "the changes")


@pytest.mark.parametrize("form", ["avro", *in_soak("json-schema", "protobuf")])
def test_a_captured_table_needs_no_schema_by_hand(
    desk: Desk, tmp_path: Path, new_name: NewName, registry: str, form: str
):
    name, shop = new_name(), tmp_path / "views.db"
    app = database(tmp_path / "shop.db", ORDERS, CUSTOMERS)
    app.execute("INSERT INTO orders VALUES (1, 'tea', 2.5), (2, NULL, 7), (3, 'milk', 1)")
    app.execute("INSERT INTO customers VALUES ('tea', 'Ulm'), ('milk', NULL)")
    config = CaptureConfig(
        name,
        f"sqlite:{tmp_path / 'shop.db'}",
        bootstrap=desk.bootstrap,
        format=form,
        registry=registry,
    )

    def joined() -> Any:
        orders = hw.table(f"{name}.orders")
        towns = hw.table(f"{name}.customers").withColumnRenamed("name", "item")
        return orders.join(towns, "item", "left").select("id", "item", "total", "town")

    view = declared(joined, new_name(), key="id", to=f"sqlite:{shop}")
    whole = declared(lambda: hw.table(f"{name}.orders"), new_name(), to=f"sqlite:{shop}", key="id")
    rows = f'SELECT id, item, total, town FROM "{view.name}" ORDER BY id'
    with capturing(config) as runner:
        captured(app, runner)
        finish(desk, view, whole)
        assert select(shop, rows) == [
            (1, "tea", 2.5, "Ulm"),
            (2, None, 7.0, None),
            (3, "milk", 1.0, None),
        ]
        app.execute("UPDATE orders SET total = 9 WHERE id = 1")
        app.execute("DELETE FROM orders WHERE id = 3")
        app.execute("INSERT INTO orders VALUES (4, 'milk', -1)")
        app.execute("ALTER TABLE orders ADD COLUMN note TEXT")
        app.execute("INSERT INTO orders VALUES (5, 'tea', 5, 'with sugar')")
        captured(app, runner)
    app.close()
    finish(desk, view, whole)
    assert select(shop, rows) == [
        (1, "tea", 9.0, "Ulm"),
        (2, None, 7.0, None),
        (4, "milk", -1.0, None),
        (5, "tea", 5.0, "Ulm"),
    ]
    assert select(shop, f'SELECT * FROM "{whole.name}" ORDER BY id') == [
        (1, "tea", 9.0, None),
        (2, None, 7.0, None),
        (4, "milk", -1.0, None),
        (5, "tea", 5.0, "with sugar"),
    ], "the view of the whole table has got the table's new column"
    with RegistryClient(registry) as client:
        assert client.versions(f"{name}.orders-value") == [1, 2]
        assert client.versions(f"{name}.orders-key") == [1]


def test_a_stock_deserializer_reads_what_capture_wrote(
    desk: Desk, tmp_path: Path, new_name: NewName, registry: str
):
    name = new_name()
    app = database(tmp_path / "shop.db", ORDERS)
    app.execute("INSERT INTO orders VALUES (1, 'tea', 2.5)")
    url = f"sqlite:{tmp_path / 'shop.db'}"
    config = CaptureConfig(name, url, bootstrap=desk.bootstrap, format="avro", registry=registry)
    with capturing(config) as runner:
        captured(app, runner)
    app.close()
    topic = f"{name}.orders"
    (record,) = desk.records(topic)
    with SchemaRegistryClient({"url": registry}) as client:
        read = AvroDeserializer(client)
        value = read(record.value(), SerializationContext(topic, MessageField.VALUE))
        key = read(record.key(), SerializationContext(topic, MessageField.KEY))
    assert key == {"id": 1}
    assert (value["op"], value["before"]) == ("r", None)
    assert value["after"] == {"id": 1, "item": "tea", "total": 2.5}


def test_a_change_that_the_level_forbids_stops_the_capture_and_is_named(
    desk: Desk, tmp_path: Path, new_name: NewName, registry: str
):
    name = new_name()
    app = database(tmp_path / "shop.db", ORDERS)
    url = f"sqlite:{tmp_path / 'shop.db'}"
    config = CaptureConfig(name, url, bootstrap=desk.bootstrap, format="avro", registry=registry)
    app.execute("INSERT INTO orders VALUES (1, 'tea', 2.5)")
    with capturing(config) as runner:
        captured(app, runner)
    app.execute("ALTER TABLE orders ADD COLUMN seal BLOB NOT NULL DEFAULT x'00'")
    app.execute("INSERT INTO orders VALUES (2, 'milk', 1, x'01')")
    with pytest.raises(SchemaRefused, match="seal was added, and is NOT NULL") as refused:
        Runner(config).run()
    hint = refused.value.hint or ""
    assert f"headwater schemas compat NONE --subject {name}.orders-value" in hint
    with RegistryClient(registry) as client:
        client.set_level("NONE", f"{name}.orders-value")
    with capturing(config) as runner:
        captured(app, runner)
    app.close()
    with SchemaRegistryClient({"url": registry}) as client:
        read = AvroDeserializer(client)
        field = SerializationContext(f"{name}.orders", MessageField.VALUE)
        found = [read(each.value(), field)["after"] for each in desk.records(f"{name}.orders")]
    found.sort(key=lambda row: row["id"])  # they lie in several partitions
    assert found[0] == {"id": 1, "item": "tea", "total": 2.5}
    assert found[-1] == {"id": 2, "item": "milk", "total": 1.0, "seal": b"\1"}


@pytest.mark.parametrize("form", ["protobuf", "json-schema", *in_soak("avro")])
def test_a_column_that_must_have_a_value_is_added_with_the_one_that_the_database_gives(
    desk: Desk, tmp_path: Path, new_name: NewName, registry: str, form: str
):
    name, shop = new_name(), tmp_path / "views.db"
    app = database(tmp_path / "shop.db", ORDERS)
    url = f"sqlite:{tmp_path / 'shop.db'}"
    config = CaptureConfig(name, url, bootstrap=desk.bootstrap, format=form, registry=registry)
    view = declared(lambda: hw.table(f"{name}.orders"), new_name(), to=f"sqlite:{shop}", key="id")
    app.execute("INSERT INTO orders VALUES (1, 'tea', 2.5)")
    with capturing(config) as runner:
        captured(app, runner)
        finish(desk, view)
        app.execute("ALTER TABLE orders ADD COLUMN paid INTEGER NOT NULL DEFAULT 7")
        app.execute("ALTER TABLE orders ADD COLUMN town TEXT NOT NULL DEFAULT 'O''Fallon'")
        app.execute("INSERT INTO orders VALUES (2, 'milk', 1, 1, 'Ulm')")
        captured(app, runner)
    app.close()
    finish(desk, view)
    assert select(shop, f'SELECT id, item FROM "{view.name}"') == [(1, "tea"), (2, "milk")]
    anew = replace(view, name=new_name())
    finish(desk, anew)
    rows = select(shop, f'SELECT id, item, paid, town FROM "{anew.name}" ORDER BY id')
    # What is in no record: Avro's readers have the schema's default, the others nothing.
    before = (7, "O'Fallon") if form == "avro" else (None, None)
    assert rows == [(1, "tea", *before), (2, "milk", 1, "Ulm")]


def test_a_table_that_no_registry_knows_is_told_so(desk: Desk, new_name: NewName, registry: str):
    view = declared(lambda: hw.table("nobody.knows"), new_name(), key="id", to="topic:nowhere")
    with pytest.raises(SchemaAwaited, match=r"no subject nobody\.knows-value"):
        desk.build(view)


def test_an_application_that_may_wait_does_until_the_schema_is_there():
    said: list[str] = []
    tries = iter([SchemaAwaited("no schema yet"), SchemaAwaited("no schema yet"), None])

    def build() -> str:
        if (error := next(tries)) is not None:
            raise error
        return "built"

    stopped = threading.Event()
    assert awaited(build, "totals", said.append, stopped) == "built"
    assert said == ["totals: waits, for no schema yet"]
    stopped.set()
    tries = iter([SchemaAwaited("still none")])
    assert awaited(build, "totals", said.append, stopped) is None
    tries = iter([SchemaAwaited("none")])
    with pytest.raises(SchemaAwaited):
        awaited(build, "totals", said.append, None)
