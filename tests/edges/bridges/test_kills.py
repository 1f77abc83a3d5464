"""kill -9 in the middle, of the edges or of the other broker: nothing is lost where that is promised.

Each story is of numbered messages. At least once: every number is there, and where some came twice, they
came again in order. Once, by message id: each number is there once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from headwater.browse.log import Log
from headwater.testing.mosquitto import Mosquitto
from headwater.testing.rabbitmq import RabbitMQ
from tests.edges.bridges.peers import AmqpPeer, MqttPeer
from tests.edges.bridges.reading import records, values
from tests.edges.running import Process, process, until

COUNT = 3000
KILLS = 3


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def firsts(found: Sequence[bytes | None]) -> list[bytes | None]:
    """Each once, at its first place."""
    return list(dict.fromkeys(found))


def size(log: Log, topic: str) -> int:
    return sum(end - first for first, end in log.ranges(topic).values())


def kill_as_it_grows(running: Process, now: Callable[[], int], count: int = COUNT) -> None:
    """At several points of the way: what is in flight then is different each time."""
    for kill in range(1, KILLS + 1):
        mark = count * kill // (KILLS + 1)
        until(lambda mark=mark: now() >= mark, f"{mark} messages")
        running.kill()
        running.start()


@pytest.fixture
def amqp(rabbit: RabbitMQ, name: str) -> AmqpPeer:
    return AmqpPeer(rabbit.url, name)


@pytest.fixture
def sensor(mqtt: Mosquitto) -> Iterator[MqttPeer]:
    peer = MqttPeer(mqtt.port)
    yield peer
    peer.close()


def queue_in(name: str, rabbit: RabbitMQ, topic: str, more: str = "") -> str:
    return f"""
[edges.bridges.{name}]
from = "{rabbit.url}"
to = "topic:{topic}"
queue = "{name}"
prefetch = 50
{more}
"""


def test_edges_that_are_killed_lose_no_message_of_a_queue(
    log: Log, topic: Callable[..., str], name: str, rabbit: RabbitMQ, amqp: AmqpPeer, tmp_path: Path
):
    orders = topic()
    asyncio.run(amqp.publish(numbered(0, COUNT)))
    with process(tmp_path, queue_in(name, rabbit, orders), log.bootstrap) as running:
        kill_as_it_grows(running, lambda: size(log, orders))
        until(lambda: len(set(values(log, orders))) >= COUNT, "every message")
    assert firsts(values(log, orders)) == numbered(0, COUNT)
    assert asyncio.run(amqp.left()) == 0


def test_edges_that_are_killed_store_each_message_of_a_queue_once_by_its_id(
    log: Log, topic: Callable[..., str], name: str, rabbit: RabbitMQ, amqp: AmqpPeer, tmp_path: Path
):
    orders = topic()
    ids = [f"id {number}" for number in range(COUNT)]
    asyncio.run(amqp.publish(numbered(0, COUNT), ids))
    section = queue_in(name, rabbit, orders, 'once = "message-id"')
    with process(tmp_path, section, log.bootstrap) as running:
        kill_as_it_grows(running, lambda: size(log, orders))
        until(lambda: len(set(values(log, orders))) >= COUNT, "every message")
    assert values(log, orders) == numbered(0, COUNT)


def test_edges_that_are_killed_lose_no_message_of_a_subscription(
    log: Log,
    topic: Callable[..., str],
    name: str,
    mqtt: Mosquitto,
    sensor: MqttPeer,
    tmp_path: Path,
):
    readings = topic()
    section = f"""
[edges.bridges.{name}]
from = "{mqtt.url}/{name}/#"
to = "topic:{readings}"
"""
    with process(tmp_path, section, log.bootstrap) as running:
        # From the first message on it is subscribed; what comes while it is away waits at the broker.
        until(
            lambda: sensor.publish(f"{name}/a", [b"0"]) or size(log, readings), "the subscription"
        )
        publishing = threading.Thread(
            target=lambda: [
                sensor.publish(f"{name}/a", numbered(first, first + 50))
                for first in range(1, COUNT, 50)
            ]
        )
        publishing.start()
        kill_as_it_grows(running, lambda: size(log, readings))
        publishing.join(60)
        last = numbered(0, 1 + (COUNT - 1 + 49) // 50 * 50)
        until(lambda: set(values(log, readings)) >= set(last), "every message")
    assert firsts(values(log, readings)) == last
    assert {each.key for each in records(log, readings)} == {f"{name}/a".encode()}


def test_edges_that_are_killed_lose_no_record_on_its_way_to_a_queue(
    log: Log, topic: Callable[..., str], name: str, rabbit: RabbitMQ, amqp: AmqpPeer, tmp_path: Path
):
    orders = topic()
    asyncio.run(amqp.declare())
    produce(log, orders, numbered(0, COUNT))
    section = f"""
[edges.bridges.{name}]
from = "topic:{orders}"
to = "{rabbit.url}"
routing_key = "{name}"
"""
    with process(tmp_path, section, log.bootstrap) as running:
        kill_as_it_grows(running, lambda: asyncio.run(amqp.left()))
        until(lambda: committed(log, name, orders) == COUNT, "the position")
    found = asyncio.run(take_all(amqp))
    assert firsts([message.body for message in found]) == numbered(0, COUNT)
    ids = {message.header.properties.message_id for message in found}
    assert len(ids) == COUNT, "one that is sent again has the same id"


def test_edges_that_are_killed_lose_no_record_on_its_way_to_mqtt(
    log: Log, topic: Callable[..., str], name: str, mqtt: Mosquitto, tmp_path: Path
):
    commands = topic()
    produce(log, commands, numbered(0, COUNT))
    section = f"""
[edges.bridges.{name}]
from = "topic:{commands}"
to = "{mqtt.url}/{name}/{{key}}"
"""
    device = MqttPeer(mqtt.port)
    try:
        device.subscribe(f"{name}/#")
        with process(tmp_path, section, log.bootstrap) as running:
            kill_as_it_grows(running, device.found.qsize)
            until(lambda: committed(log, name, commands) == COUNT, "the position")
        found = device.take(device.found.qsize())
    finally:
        device.close()
    assert firsts([message.payload for message in found]) == numbered(0, COUNT)
    assert {message.topic for message in found} == {f"{name}/k"}


def test_rabbitmq_that_is_killed_loses_nothing_in_either_direction(
    log: Log, topic: Callable[..., str], name: str, rabbit: RabbitMQ, tmp_path: Path
):
    there, back = AmqpPeer(rabbit.url, f"{name}-out"), AmqpPeer(rabbit.url, name)
    orders, copies = topic(), topic()
    asyncio.run(there.declare())
    asyncio.run(back.publish(numbered(0, COUNT)))
    produce(log, orders, numbered(0, COUNT))
    section = f"""
[edges.bridges.{name}-out]
from = "topic:{orders}"
to = "{rabbit.url}"
routing_key = "{name}-out"
{queue_in(name, rabbit, copies)}
"""
    with process(tmp_path, section, log.bootstrap):
        until(lambda: size(log, copies) >= COUNT // 3, "some messages")
        rabbit.kill()
        rabbit.start()
        until(lambda: set(values(log, copies)) >= set(numbered(0, COUNT)), "every message")
        until(lambda: committed(log, f"{name}-out", orders) == COUNT, "the position")
    assert firsts(values(log, copies)) == numbered(0, COUNT)
    found = asyncio.run(take_all(there))
    assert {message.body for message in found} == set(numbered(0, COUNT))


def test_mosquitto_that_is_killed_loses_nothing_that_it_had_saved(
    log: Log, topic: Callable[..., str], name: str, mqtt: Mosquitto, tmp_path: Path
):
    readings = topic()
    section = f"""
[edges.bridges.{name}]
from = "{mqtt.url}/{name}"
to = "topic:{readings}"
"""
    sensor = MqttPeer(mqtt.port)
    with process(tmp_path, section, log.bootstrap) as running:
        until(lambda: sensor.publish(name, [b"0"]) or size(log, readings), "the subscription")
        running.kill()  # it is away while these are published
        sensor.publish(
            name, numbered(1, 90)
        )  # Mosquitto queues 100 for each session unless told otherwise
        sensor.close()
        mqtt.save()
        mqtt.kill()
        mqtt.start()
        running.start()
        until(lambda: set(values(log, readings)) >= set(numbered(0, 90)), "every message")
    assert firsts(values(log, readings)) == numbered(0, 90)


def produce(log: Log, topic: str, found: Sequence[bytes]) -> None:
    producer = log.producer
    for value in found:
        producer.produce(topic, value, b"k")
    assert producer.flush(60) == 0


def committed(log: Log, name: str, topic: str) -> int:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    asked = ConsumerGroupTopicPartitions(f"headwater.bridge.{name}", [TopicPartition(topic, 0)])
    (future,) = log.admin.list_consumer_group_offsets([asked]).values()
    return future.result().topic_partitions[0].offset


async def take_all(peer: AmqpPeer) -> list[object]:
    return await peer.take(await peer.left())
