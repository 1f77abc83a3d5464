"""Debezium's Avro beside headwater's: the same statements on one server, records and schemas field by field.

Debezium's records become Avro by Kafka Connect's rules (`AvroData`, in Apicurio's copy), with schemas in
headwater's registry; both sides are read by confluent-kafka's deserializer.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from bench.capture import debezium
from headwater import testing
from headwater.capture.runner import Runner
from headwater.client.log import Log
from headwater.testing.kafka_jars import MissingServer
from tests.capture.contract.columns import WithColumns
from tests.capture.contract.mysql import MySQLKind
from tests.capture.contract.servers import SERVERS, Entry
from tests.capture.contract.test_debezium import NEVER_ALIKE, STARTS_S
from tests.capture.postgres.running import eventually
from tests.capture.servers.builds import missing
from tests.schemas.conftest import serving

POSTGRES = {
    "smallint": "-7", "int": "7", "bigint": "1152921504606846976", "boolean": "true", "real": "1.5",
    "double precision": "0.1", "text": "'ü'", "varchar(9)": "'v'", "numeric(10,2)": "12.50",
    "date": "'2026-11-15'", "timestamp": "'2026-11-15 13:00:00.123456'",
    "timestamptz": "'2026-11-15 13:00:00.125+02'", "uuid": "'6b1f2b6e-0d0a-4c5e-9f3f-0a0b0c0d0e0f'",
    "bytea": "'\\x00ff'", "jsonb": "'{\"a\": 1}'", "int NOT NULL DEFAULT 3": "3",
}  # fmt: skip
MARIADB = {
    "TINYINT": "-7", "SMALLINT": "7", "INT": "7", "BIGINT": "1152921504606846976", "DOUBLE": "0.1",
    "VARCHAR(9)": "'v'", "DECIMAL(10,2)": "12.50", "DATE": "'2026-11-15'",
    "DATETIME(6)": "'2026-11-15 13:00:00.123456'", "TIME": "'13:14:15'", "BLOB": "x'00ff'",
    "INT NOT NULL DEFAULT 3": "3", "VARCHAR(9) NOT NULL DEFAULT 'it''s'": "'x'",
}  # fmt: skip
KNOWN = {
    "PostgreSQL 18.6": {
        "after: timestamptz",  # as many digits as it has, there always six
        "source: sequence",  # where the transaction before ended: not known there at first
        "type: int NOT NULL DEFAULT 3",  # the stream does not say NOT NULL
        "before: int NOT NULL DEFAULT 3",  # of a deleted row only the key is known; there the default
    },
    "MariaDB 10.11": {
        "type: VARCHAR(9) NOT NULL DEFAULT 'it''s'",  # the default is it's; there it''s
    },
}
"""What differs, and why."""
_COMPARED = [each for each in SERVERS if each.name in ("PostgreSQL 18.6", "MariaDB 10.11")]
_ENTRIES = [
    pytest.param(each, id=each.name, marks=() if "MariaDB" in each.name else pytest.mark.soak)
    for each in _COMPARED
]


@contextmanager
def both(shop: WithColumns, bootstrap: str, registry: str, folder: Path) -> Iterator[str]:
    """The two capture the table d, in Avro; gives Debezium's topic."""
    name, mysql = f"dbz_{shop.name}", isinstance(shop, MySQLKind)
    place = f"{shop.name if mysql else 'public'}.d"
    make = debezium.mariadb_properties if mysql else debezium.postgres_properties
    settings = make(name, shop.port, shop.name, place, folder, poll_interval_ms="5")
    try:
        process = debezium.start(settings, bootstrap, folder / "debezium.log", registry)
    except MissingServer as error:
        missing(str(error))
    runner = Runner(shop.config("d", bootstrap=bootstrap, format="avro", registry=registry))
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        eventually("it streams", lambda: runner.status.phase == "streaming")

        def begun() -> bool:
            said = (folder / "debezium.log").read_text(errors="replace")[-3000:]
            assert process.poll() is None, said
            return count(bootstrap, f"{name}.{place}") > 0

        eventually("Debezium has read the row", begun, STARTS_S)
        yield f"{name}.{place}"
    finally:
        runner.stop()
        thread.join(60)
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def count(bootstrap: str, topic: str) -> int:
    log = Log(bootstrap)
    try:
        return sum(log.ends([(topic, 0)]).values()) if topic in log.topics() else 0
    finally:
        log.close()


def records(bootstrap: str, client: SchemaRegistryClient, topic: str) -> list[tuple[Any, Any]]:
    """Key and value of each, as the stock deserializer reads them."""
    read = AvroDeserializer(client)
    fields = [SerializationContext(topic, each) for each in (MessageField.KEY, MessageField.VALUE)]
    settings = {"bootstrap.servers": bootstrap, "group.id": "tests", "log_level": 0}
    reader = Consumer(
        {**settings, "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    found: list[tuple[Any, Any]] = []
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        while (message := reader.poll(60)) is not None and message.error() is None:
            key, value = (
                read(d, f) for d, f in zip((message.key(), message.value()), fields, strict=True)
            )
            found.append((key, value))
    finally:
        reader.close()
    return found


def row_types(client: SchemaRegistryClient, topic: str) -> dict[str, Any]:
    """Column → its type and default in the latest schema."""
    schema = json.loads(client.get_latest_version(f"{topic}-value").schema.schema_str)
    (before,) = [each for each in schema["fields"] if each["name"] == "before"]
    row = next(each for each in before["type"] if isinstance(each, dict))
    return {each["name"]: (each["type"], each.get("default")) for each in row["fields"]}


@pytest.mark.timeout(900)  # a Java process starts, perhaps on a busy machine
@pytest.mark.parametrize("entry", _ENTRIES)
def test_avro_is_debezium_s_field_by_field(entry: Entry, tmp_path: Path) -> None:
    own = {"num.partitions": "1"}
    with (
        entry.running() as server,
        testing.broker(settings=own) as log,
        serving(log.bootstrap) as url,
        SchemaRegistryClient({"url": url}) as client,
    ):
        shop = entry.subject(server)
        assert isinstance(shop, WithColumns)
        columns = MARIADB if isinstance(shop, MySQLKind) else POSTGRES
        made = ", ".join(f"c{n} {kind}" for n, kind in enumerate(columns))
        shop.execute(*shop.before, f"CREATE TABLE d (id int PRIMARY KEY, {made})")
        shop.execute(f"INSERT INTO d VALUES (1, {', '.join(columns.values())})")
        with both(shop, log.bootstrap, url, tmp_path) as topic:
            shop.execute("UPDATE d SET c0 = NULL WHERE id = 1", "INSERT INTO d (id) VALUES (2)")
            shop.execute("DELETE FROM d WHERE id = 2")
            mine = f"{shop.name}.d"
            for name in (mine, topic):
                eventually(f"all is in {name}", lambda: count(log.bootstrap, name) >= 5)  # noqa: B023
            ours, theirs = (records(log.bootstrap, client, name) for name in (mine, topic))
            types = [row_types(client, name) for name in (mine, topic)]
        shop.close()
    columns_of = {f"c{n}": kind for n, kind in enumerate(columns)}
    assert len(ours) == len(theirs)
    seen: set[str] = set()
    for (key, ours_one), (other_key, other) in zip(ours, theirs, strict=True):
        assert key == other_key
        assert (ours_one is None) == (other is None)  # a tombstone
        if ours_one is not None:
            assert (ours_one["op"], ours_one.keys()) == (other["op"], other.keys())
            if ours_one["op"] != "r":  # the snapshots are of two moments
                seen |= _source_differences(ours_one["source"], other["source"])
            seen |= _row_differences(ours_one, other, columns_of)
    assert types[0].keys() == types[1].keys()
    seen |= {
        f"type: {columns_of[name]}"
        for name in types[0]
        if _bare(types[0][name]) != _bare(types[1][name])
    }
    assert seen == KNOWN[entry.name]


def _row_differences(ours: Any, theirs: Any, kinds: dict[str, str]) -> set[str]:
    found = set()
    for image in ("before", "after"):
        x, y = ours[image], theirs[image]
        assert (x is None) == (y is None)
        if x is not None:
            assert x.keys() == y.keys()
            found |= {f"{image}: {kinds[name]}" for name in x if x[name] != y[name]}
    return found


def _source_differences(ours: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    names = (ours.keys() | theirs.keys()) - NEVER_ALIKE
    return {f"source: {name}" for name in names if ours.get(name) != theirs.get(name)}


def _bare(kind: Any) -> Any:
    """Without what only Kafka Connect looks at, but for the name that says what a number means."""
    if isinstance(kind, list | tuple):
        return [_bare(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    kept = {n: _bare(each) for n, each in kind.items() if n in ("type", "connect.name", "items")}
    return kept["type"] if kept.keys() == {"type"} else kept
