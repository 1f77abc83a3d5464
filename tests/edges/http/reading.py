"""What is in a topic, read by a plain client."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message, TopicPartition

from headwater.client.log import Log


def records(log: Log, topic: str) -> list[Message]:
    """All committed ones, partition by partition."""
    found: list[Message] = []
    for partition, (first, end) in log.ranges(topic).items():
        with log.reader() as consumer:
            consumer.list_topics(topic, timeout=60)  # else it hears of the topic a second later
            consumer.assign([TopicPartition(topic, partition, first)])
            position = first
            while position < end:
                for message in consumer.consume(1000, 0.05):
                    if message.error() is None:
                        found.append(message)
                position = consumer.position([TopicPartition(topic, partition)])[0].offset
    return found


def values(log: Log, topic: str) -> list[bytes | None]:
    return [message.value() for message in records(log, topic)]


def headers(message: Message) -> dict[str, Any]:
    return dict(message.headers() or [])
