"""A share group on a running broker, through confluent-kafka's clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

QUICK = {
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.min.session.timeout.ms": 1000,
}
ACCEPT, RELEASE, REJECT = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)


class Queue:
    """A topic and a share group that reads it from the beginning."""

    def __init__(self, bootstrap: str, topic: str = "work", group: str = "workers") -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = group
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, partitions: int = 1, **configs: str) -> Queue:
        new = NewTopic(self.topic, partitions, 1)
        self.admin.create_topics([new])[self.topic].result(60)
        self.configure(share_auto_offset_reset="earliest", **configs)
        return self

    def configure(self, **configs: str) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(
            ConfigResource.Type.GROUP, self.group, incremental_configs=entries
        )
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def put(self, *values: str, partition: int = 0, **more: Any) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for value in values:
            producer.produce(self.topic, value, partition=partition, **more)
        assert producer.flush(60) == 0

    @contextmanager
    def worker(self, mode: str = "explicit") -> Iterator[ShareConsumer]:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "share.acknowledgement.mode": mode,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        try:
            yield consumer
        finally:
            consumer.close()

    def work(
        self, count: int, judge: Callable[[Any], Any] = lambda message: ACCEPT, seconds: float = 60
    ) -> list[Any]:
        """Take so many deliveries, acknowledging each as `judge` says; the messages."""
        taken: list[Any] = []
        deadline = time.monotonic() + seconds
        with self.worker() as consumer:
            while len(taken) < count:
                assert time.monotonic() < deadline, f"{len(taken)} of {count} in {seconds} s"
                for message in consumer.poll(0.2):
                    assert message.error() is None, message.error()
                    consumer.acknowledge(message, judge(message))
                    taken.append(message)
                for error in consumer.commit_sync(60).values():
                    assert error is None, error
        return taken

    def read(self, topic: str, count: int, seconds: float = 60) -> list[Any]:
        """The first so many records of a topic, read without any group."""
        deadline = time.monotonic() + seconds
        while topic not in (topics := self.admin.list_topics(timeout=60).topics):
            assert time.monotonic() < deadline, f"no topic {topic}"
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "look", "log_level": 0}
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in topics[topic].partitions])
        messages: list[Any] = []
        while len(messages) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                messages.append(message)
        consumer.close()
        return messages

    def everything(self, topic: str) -> list[Any]:
        """All that a topic has now."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "look", "log_level": 0}
        )
        count = 0
        for number in self.admin.list_topics(timeout=60).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)
            count += high - low
        consumer.close()
        return self.read(topic, count)


def headers(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers() or []}
