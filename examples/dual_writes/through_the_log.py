"""The same load through the log: the log decides the order, and both systems follow it.

Clients only append. Each system has a follower that reads the log and writes changes and position in
one transaction; one of them meets the locked database, the other dies in mid-transaction and is
started again. Each goes on from its own position, so nothing is lost, and nothing done twice.

This is what `headwater run` does for every view, in parallel and for more kinds of systems. Here it is
in the open. Uses the broker at HEADWATER_BOOTSTRAP, or one of its own.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from load import ITEMS, writes
from stores import Change, Database, Store, Warehouse, locked, told

import headwater.testing

BATCH = 50


class Died(Exception):
    """Stands for kill -9: the transaction at hand is gone."""


def write(bootstrap: str, topic: str, client: int) -> None:
    """One client: appends its prices, and deletes some items again."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    for number, pair in enumerate(writes()):
        item, price = pair[client]
        producer.produce(topic, json.dumps({"price": price}), item)
        if number % 10 == client:
            producer.produce(topic, None, item)
    assert producer.flush(30) == 0


def pieces(bootstrap: str, topic: str, start: int, end: int) -> Iterator[tuple[list[Change], int]]:
    """The log from an offset on: changes, and the offset after them."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0})
    reader.assign([TopicPartition(topic, 0, start)])
    try:
        while start < end:
            changes: list[Change] = []
            for message in reader.consume(BATCH, 1.0):
                value = message.value()
                changes.append((message.key().decode(), value and json.loads(value)["price"]))
                start = message.offset() + 1
            if changes:
                yield changes, start
    finally:
        reader.close()


def follow(store: Store, bootstrap: str, topic: str, end: int, *, dies: bool) -> None:
    """Bring a store up to `end`, whatever happens on the way."""
    while True:
        try:
            for changes, next_offset in pieces(bootstrap, topic, store.position(), end):
                if dies and next_offset > end // 2:
                    dies = False
                    die_in_the_middle(store, changes)
                store.follow(changes, next_offset)
            return
        except (sqlite3.OperationalError, Died):
            time.sleep(0.01)  # and again, from the position that the store itself knows


def die_in_the_middle(store: Store, changes: list[Change]) -> None:
    with store.transaction():
        store.apply(changes)
        raise Died


def main() -> None:
    topic = f"prices-{uuid.uuid4().hex[:6]}"
    with tempfile.TemporaryDirectory() as folder, log() as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
        path = Path(folder) / "database"
        database, warehouse = Database(path), Warehouse(Path(folder) / "warehouse")
        clients = [threading.Thread(target=write, args=(bootstrap, topic, n)) for n in (0, 1)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        end = ITEMS * 2 + 2 * (ITEMS // 10)
        followers = [
            threading.Thread(
                target=follow, args=(store, bootstrap, topic, end), kwargs={"dies": dies}
            )
            for store, dies in ((database, False), (warehouse, True))
        ]
        with locked(path):
            for follower in followers:
                follower.start()
            followers[1].join()
        followers[0].join()
        print(told(database, warehouse))
        print(f"every write counted once: {database.changes()} and {warehouse.changes()}")


@contextmanager
def log() -> Iterator[str]:
    given = os.environ.get("HEADWATER_BOOTSTRAP")
    if given:
        yield given
        return
    with headwater.testing.broker() as broker:
        yield broker.bootstrap


if __name__ == "__main__":
    main()
