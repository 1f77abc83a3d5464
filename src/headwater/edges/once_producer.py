"""What `once_writing` does with its producer, around the ways of confluent-kafka."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaException, Producer

from headwater.browse.log import TIMEOUT_S
from headwater.browse.publishing import Stored

_FULL_S = 0.05


def produce(producer: Producer, topic: str, words: dict[str, Any]) -> None:
    while True:
        try:
            producer.produce(topic, **words)
            return
        except BufferError:
            producer.poll(_FULL_S)


def flushed(producer: Producer) -> int:
    try:
        return producer.flush(TIMEOUT_S)
    except SystemError as error:
        # confluent-kafka notes a fatal error as raised, and then calls who is to hear of deliveries.
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


def heard(places: list[Stored], failed: list[Any], error: Any, message: Any) -> None:
    if error is not None:
        failed.append(error)
    else:
        places.append(Stored(message.partition(), message.offset()))


def commit(producer: Producer) -> None:
    """Again while it may be tried again, until the time is up."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            producer.commit_transaction(max(0.1, deadline - time.monotonic()))
            return
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
