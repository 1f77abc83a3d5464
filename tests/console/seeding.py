"""A log with something of everything, for the pages on data."""

from __future__ import annotations

import json

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.record.dead_letter import HEADER

ORDERS = 130
"""Records in each partition of `orders`: three pages, and the last is short."""


def seed(bootstrap: str) -> None:
    """Topics, changes, dead letters, and a group that is behind."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(settings)
    made = [
        NewTopic("orders", 2, 1),
        NewTopic("copies", 2, 1),
        NewTopic("fresh", 2, 1),
        NewTopic("bytes", 1, 1),
        NewTopic("inbox", 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic("shop.customers", 1, 1, config={"retention.ms": "-1"}),
        NewTopic("dlq.billing", 1, 1),
    ]
    for future in admin.create_topics(made).values():
        future.result(60)
    producer = Producer(settings)
    for number in range(ORDERS):
        for partition in (0, 1):
            order = {"order": number, "name": f"name {partition}-{number}"}
            producer.produce(
                "orders",
                json.dumps(order | ({"note": "needle"} if (partition, number) == (1, 7) else {})),
                f"k{number}",
                partition,
                headers={"trace": f"t{number}"},
                timestamp=1_700_000_000_000 + number * 1000 + partition,
            )
    producer.produce("bytes", "text")
    _changes(producer)
    _letters(producer)
    assert producer.flush(60) == 0
    commit(bootstrap, "billing", {("orders", 0): 100, ("orders", 1): 120})


def commit(bootstrap: str, group: str, positions: dict[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    places = [TopicPartition(*place, offset) for place, offset in positions.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)], 60)
    consumer.close()
    return [each.offset for each in found]


def values_of(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    own = {"group.id": "test", "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **own, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


def _changes(producer: Producer) -> None:
    rows = [
        {"id": 7, "name": "Ada", "city": "London"},
        {"id": 7, "name": "Ada", "city": "Turin"},
        {"id": 7, "name": "Ada Lovelace", "city": "Turin"},
        None,
    ]
    before = None
    for number, row in enumerate(rows):
        op = "d" if row is None else "u" if before else "c"
        change = {"op": op, "before": before, "after": row}
        time_ms = 1_700_000_000_000 + number * 60_000
        producer.produce("shop.customers", json.dumps(change), '{"id":7}', timestamp=time_ms)
        before = row


def _letters(producer: Producer) -> None:
    for number in range(4):
        said = {
            "topic": "inbox",
            "partition": 0,
            "offset": number,
            "group": "billing",
            "delivery.count": 3,
            "message": "the total is no number" if number < 3 else "no such customer",
        }
        headers = [(HEADER + name, str(value).encode()) for name, value in said.items()]
        value = json.dumps({"order": number, "total": "twelve"})
        producer.produce("dlq.billing", value, f"k{number}", headers=headers)
