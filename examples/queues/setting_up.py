"""What every example needs: an address, a topic, groups that begin at the first record, workers.

The address is HEADWATER_BOOTSTRAP, or a broker on the usual port: headwater's or Apache Kafka's.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

BOOTSTRAP = os.environ.get("HEADWATER_BOOTSTRAP", "127.0.0.1:9092")


def new_name(stem: str) -> str:
    """A name of its own for each run, so that examples may be run again."""
    return f"{stem}-{uuid.uuid4().hex[:6]}"


def create_topic(stem: str, partitions: int = 1) -> str:
    name = new_name(stem)
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(10)
    return name


def share_group(stem: str, **configs: str) -> str:
    """The name of a share group that begins at the first record; `_` in a config is a dot."""
    name = new_name(stem)
    wanted = {"share.auto.offset.reset": "earliest"}
    wanted |= {key.replace("_", "."): value for key, value in configs.items()}
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in wanted.items()
    ]
    group = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.incremental_alter_configs([group])[group].result(10)
    return name


def send(topic: str, values: list[str], **options: Any) -> None:
    producer = Producer({"bootstrap.servers": BOOTSTRAP})
    for value in values:
        producer.produce(topic, value, **options)
        producer.poll(0)
    assert producer.flush(10) == 0


def share_consumer(topic: str, group: str) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    return consumer


class Worker(threading.Thread):
    """One consumer in a thread: hands each record to `work`, whose answer settles it."""

    def __init__(self, topic: str, group: str, name: str, work: Callable[[str, Any], int]) -> None:
        super().__init__(name=name)
        self._place = topic, group
        self._work = work
        self._ending = threading.Event()

    def run(self) -> None:
        consumer = share_consumer(*self._place)
        while not self._ending.is_set():
            for message in consumer.poll(0.2):
                if message.error() is None:
                    consumer.acknowledge(message, self._work(self.name, message))
            consumer.commit_sync(10)
        consumer.close()

    def end(self) -> None:
        self._ending.set()
        self.join()
