"""A compacted topic takes no record without a key: tables are emptied there all the same."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from headwater import testing
from headwater.capture import compacted_topics
from headwater.capture.change import BY_KEY, EVERY_PARTITION, Batch, Record
from headwater.capture.errors import Interrupted
from headwater.capture.writer import Writer
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests.capture.core.reading import Read, read
from tests.capture.postgres.running import eventually
from tests.compat.missing import skip_or_fail

COMPACTED = {"cleanup.policy": "compact"}
TRUNCATE = b'{"before":null,"after":null,"source":{},"op":"t"}'


class Address(Protocol):
    @property
    def bootstrap(self) -> str: ...


@pytest.fixture(scope="module")
def ours() -> Iterator[Address]:
    with testing.broker(settings={"log.cleaner.backoff.ms": "100"}) as running:
        yield running


@pytest.fixture(scope="module", params=["headwater", "apache kafka"])
def log(request: pytest.FixtureRequest) -> Iterator[Address]:
    if request.param == "headwater":
        yield request.getfixturevalue("ours")
        return
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(apache_kafka(jvm=QUICK_JVM))
        except MissingServer as missing:
            skip_or_fail(f"{missing}: Apache Kafka cannot run here")
        yield server


@pytest.fixture
def writer(log: Address, request: pytest.FixtureRequest) -> Iterator[Writer]:
    made = Writer(re.sub(r"\W", "_", request.node.name)[-50:], log.bootstrap)
    made.open()
    yield made
    made.close()


def row(topic: str, identity: int, n: int = 0) -> Record:
    value = {"before": None, "after": {"id": identity, "n": n}, "source": {}, "op": "c"}
    return topic, b'{"id":%d}' % identity, json.dumps(value).encode()


def truncate(topic: str) -> Record:
    return topic, None, TRUNCATE, None, EVERY_PARTITION


def rows_of(records: list[Read]) -> dict[int, int]:
    """What a reader has that knows nothing but keys and values."""
    held: dict[tuple[int, int], Any] = {}
    for record in records:
        place = record.partition, record.key["id"]
        if record.value is None:
            held.pop(place, None)
        else:
            held[place] = record.value["after"]
    assert len({identity for _, identity in held}) == len(held), "a row stands there twice"
    return {identity: after["n"] for (_, identity), after in held.items()}


def alter(log: Address, topic: str, **settings: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def test_a_truncate_ends_every_row_of_a_compacted_topic(log: Address, writer: Writer) -> None:
    writer.ensure_topics(["a.rows"], COMPACTED, 3)
    writer.write(Batch({"n": 1}, [row("a.rows", n) for n in range(500)], 500))
    writer.write(Batch({"n": 2}, [("a.rows", b'{"id":1}', None)], 1))
    batch = [row("a.rows", 7, 1), row("a.rows", 900), truncate("a.rows"), row("a.rows", 7, 2)]
    writer.write(Batch({"n": 3}, [*batch, row("a.rows", 8, 3)], 5))
    assert rows_of(read(log.bootstrap, "a.rows")) == {7: 2, 8: 3}
    writer.write(Batch({"n": 4}, [truncate("a.rows")], 1))
    writer.write(Batch({"n": 5}, [truncate("a.rows"), truncate("a.rows")], 1))
    assert rows_of(read(log.bootstrap, "a.rows")) == {}


def test_only_rows_that_are_there_are_ended(log: Address, writer: Writer) -> None:
    writer.ensure_topics(["b.rows"], COMPACTED, 2)
    writer.write(Batch({"n": 1}, [row("b.rows", 1), row("b.rows", 1, 2), row("b.rows", 2)], 3))
    writer.write(Batch({"n": 2}, [("b.rows", b'{"id":2}', None)], 1))
    writer.write(Batch({"n": 3}, [truncate("b.rows")], 1))
    ended = [record.key["id"] for record in read(log.bootstrap, "b.rows") if record.value is None]
    assert sorted(ended) == [1, 2]


def test_a_table_with_more_keys_than_are_held_at_once_is_emptied(
    log: Address, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_topics, "KEY_BYTES_AT_ONCE", 1_000)
    writer.ensure_topics(["many.rows"], COMPACTED, 2)
    for begin in range(0, 1_000, 250):
        writer.write(Batch({"n": 1}, [row("many.rows", begin + n) for n in range(250)], 250))
    writer.write(Batch({"n": 2}, [truncate("many.rows"), row("many.rows", 3)], 2))
    assert rows_of(read(log.bootstrap, "many.rows")) == {3: 0}


def test_a_truncate_ends_rows_in_the_partitions_that_they_had_before_the_topic_grew(
    log: Address, writer: Writer
) -> None:
    writer.ensure_topics(["grown.rows"], COMPACTED, 1)
    writer.write(Batch({"n": 1}, [row("grown.rows", n) for n in range(20)], 20))
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_partitions([NewPartitions("grown.rows", 5)])["grown.rows"].result(30)
    writer.write(Batch({"n": 2}, [truncate("grown.rows"), row("grown.rows", 3)], 2))
    assert rows_of(read(log.bootstrap, "grown.rows")) == {3: 0}


def test_a_topic_that_is_made_compacted_while_it_is_written_is_emptied(
    log: Address, writer: Writer
) -> None:
    writer.ensure_topics(["later.rows"], {}, 2)
    writer.write(Batch({"n": 1}, [row("later.rows", n) for n in range(20)], 20))
    writer.write(Batch({"n": 2}, [truncate("later.rows"), row("later.rows", 5)], 2))
    alter(log, "later.rows", cleanup_policy="compact")
    emptied = Batch({"n": 3}, [truncate("later.rows"), row("later.rows", 6)], 2)
    with pytest.raises(Interrupted):
        writer.write(emptied)
    again = Writer(writer._name, log.bootstrap, run=writer._run)
    assert again.open() == {"n": 2}
    again.write(emptied)
    again.close()
    found = [record for record in read(log.bootstrap, "later.rows") if record.key is not None]
    assert rows_of(found) == {6: 0}


def test_what_has_no_key_is_set_aside_where_the_topic_is_compacted_and_said_once_a_batch(
    log: Address, writer: Writer
) -> None:
    writer.ensure_topics(["c.rows"], COMPACTED, 2)
    keyless = [("c.rows", None, b'{"op":"c"}'), ("c.rows", None, b'{"op":"d"}', None, BY_KEY)]
    writer.write(Batch({"n": 1}, [row("c.rows", 1), *keyless], 3))
    (said,) = writer.take_said()
    letters = f"{writer._name}.dead-letters"
    assert "2 records without a key" in said and "c.rows" in said and letters in said
    assert rows_of(read(log.bootstrap, "c.rows")) == {1: 0}
    found = read(log.bootstrap, letters)
    assert sorted(record.value["op"] for record in found) == ["c", "d"]
    assert dict(found[0].headers)["__dlq.errors.topic"] == b"c.rows"


def test_a_rebuild_from_the_first_offset_sees_no_row_that_was_truncated_after_compaction(
    ours: Address,
) -> None:
    log, writer = ours, Writer("rebuilt", ours.bootstrap)
    writer.open()
    often = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
    writer.ensure_topics(["d.rows"], {**COMPACTED, **often}, 1)
    writer.write(Batch({"n": 1}, [row("d.rows", n) for n in range(50)], 50))
    writer.write(Batch({"n": 2}, [truncate("d.rows"), row("d.rows", 3, 1)], 2))

    def is_small() -> bool:
        # A segment is closed by what comes after it.
        time.sleep(0.05)
        writer.write(Batch({"n": 3}, [row("d.rows", 4, 1)], 1))
        found = read(log.bootstrap, "d.rows")
        assert rows_of(found) == {3: 1, 4: 1}
        return not any(record.key["id"] > 4 for record in found)

    eventually("compaction has forgotten the truncated rows", is_small)
    writer.close()
