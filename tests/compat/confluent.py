"""confluent-kafka with settings that suit tests: short waits, nothing else changed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from .cluster import Cluster

QUICK = {
    "broker.address.family": "v4",
    "socket.timeout.ms": 60_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 50,
}


def dotted(options: dict[str, Any]) -> dict[str, Any]:
    """`group_instance_id=…` → `group.instance.id`."""
    return {name.replace("_", "."): value for name, value in options.items()}


def producer(cluster: Cluster, **options: Any) -> Producer:
    settings = {"linger.ms": 2, "message.timeout.ms": 60_000, "retry.backoff.ms": 20}
    return Producer(
        {"bootstrap.servers": cluster.bootstrap, **QUICK, **settings, **dotted(options)}
    )


@contextlib.contextmanager
def consumer(cluster: Cluster, group: str, **options: Any) -> Iterator[Consumer]:
    made = new_consumer(cluster, group, **options)
    try:
        yield made
    finally:
        made.close()


def new_consumer(cluster: Cluster, group: str, **options: Any) -> Consumer:
    settings = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 20,
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 30_000,
    }
    return Consumer(
        {"bootstrap.servers": cluster.bootstrap, **QUICK, **settings, **dotted(options)}
    )


def admin(cluster: Cluster, **options: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK, **dotted(options)})


def send(made: Producer, topic: str, values: Iterable[Any], **options: Any) -> list[Message]:
    """Produce every value, wait, and return the acknowledged messages in order of delivery."""
    done: list[Message] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        (done if error is None else failed).append(message if error is None else error)

    for value in values:
        while True:
            try:
                made.produce(topic, value, on_delivery=delivered, **options)
                break
            except BufferError:
                made.poll(0.05)
        made.poll(0)
    assert made.flush(60) == 0
    if failed:
        raise KafkaException(failed[0])
    return done


def take(made: Consumer, count: int, timeout: float = 60.0) -> list[Message]:
    """Exactly that many messages; an error or a deadline is a failure."""
    found: list[Message] = []
    deadline = time.monotonic() + timeout
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages"
        for message in made.consume(min(count - len(found), 1000), 0.2):
            if message.error():
                raise KafkaException(message.error())
            found.append(message)
    return found


def take_error(made: Consumer, timeout: float = 60.0) -> KafkaError:
    """The next error that the consumer reports."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        message = made.poll(0.2)
        if message is not None and message.error():
            return message.error()
    raise AssertionError(f"no error within {timeout} s")


def poll_until(
    consumers: Iterable[Consumer], condition: Callable[[], Any], what: str, timeout: float = 60.0
) -> list[Message]:
    """Poll all of them in turn until the condition holds; returns what they read."""
    found = []
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        for each in consumers:
            message = each.poll(0.02)
            if message is not None and not message.error():
                found.append(message)
    return found


def code_of(raised: Any) -> int:
    """The error code inside a KafkaException caught by pytest.raises."""
    return int(raised.value.args[0].code())
