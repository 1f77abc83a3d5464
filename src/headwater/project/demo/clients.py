"""The demo's Kafka clients: plain confluent-kafka, as any application would use it."""

from __future__ import annotations

import logging

from headwater.client import topics
from headwater.client.librdkafka import AdminClient, Consumer, KafkaException, Producer
from headwater.project.demo.summary import PARTITIONS, TIMEOUT_S, DemoFailed

# librdkafka reports the kill as it must; here the kill is part of the show.
_silence = logging.getLogger("headwater.project.demo.librdkafka")
_silence.addHandler(logging.NullHandler())
_silence.propagate = False


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_silence)
    try:
        topics.create(admin, topic, PARTITIONS, timeout_s=TIMEOUT_S)
    except KafkaException as failure:
        raise DemoFailed(f"the topic {topic} could not be created: {failure.args[0]}") from None


def producer(bootstrap: str) -> Producer:
    """Idempotent and acks=all: a retry after the kill can neither lose nor double a record."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "message.timeout.ms": int(TIMEOUT_S * 1000),
        },
        logger=_silence,
    )


def consumer(bootstrap: str, topic: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-replay",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
        },
        logger=_silence,
    )
