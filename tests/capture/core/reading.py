"""What the tests of capture read from the log: committed records, in the order of each partition."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

UNAVAILABLE = "__debezium_unavailable_value"


class Read(NamedTuple):
    topic: str
    partition: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes]]
    timestamp_ms: int = -1


def read(bootstrap: str, topic: str) -> list[Read]:
    """Every committed record of the topic, decoded."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,  # the end is what we wait for, not more
            "log_level": 0,
        }
    )
    try:
        found = reader.list_topics(topic, timeout=60).topics[topic].partitions
        reader.assign([TopicPartition(topic, place, 0) for place in found])
        waiting, records = set(found), []
        while waiting:
            for message in reader.consume(1000, 0.02):
                error = message.error()
                if error is None:
                    records.append(
                        Read(
                            topic,
                            message.partition(),
                            _json(message.key()),
                            _json(message.value()),
                            message.headers() or [],
                            message.timestamp()[1],
                        )
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                elif not error.retriable():
                    raise AssertionError(error)
        return records
    finally:
        reader.close()


def fold(records: list[Read]) -> dict[str, Any]:
    """The table that the changes make: the latest row per key."""
    rows: dict[str, Any] = {}
    parts: dict[str, int] = {}
    for record in records:
        if record.value is None:
            assert json.dumps(record.key) not in rows, "a tombstone comes after its delete"
            continue
        op = record.value["op"]
        if op == "t":
            rows = {key: row for key, row in rows.items() if parts[key] != record.partition}
            continue
        key = json.dumps(record.key)
        parts[key] = record.partition
        if op == "d":
            rows.pop(key, None)
        else:
            rows[key] = _filled(record.value["after"], rows.get(key))
    return rows


def _filled(row: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """What the database did not send again is as it was."""
    return {
        name: before[name] if value == UNAVAILABLE and before is not None else value
        for name, value in row.items()
    }


def _json(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()
