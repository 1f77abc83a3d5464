"""kill -9 in the middle, of the edges or of the other broker: nothing is lost where that is promised.

Each story is of numbered messages. At least once: every number is there, and where some came twice, they
came again in order. Once, by message id: each number is there once.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from headwater.client.log import Log
from headwater.testing.mosquitto import Mosquitto
from headwater.testing.rabbitmq import RabbitMQ
from tests.edges.bridges.peers import AmqpPeer, MqttPeer
from tests.edges.bridges.reading import records, values
from tests.edges.running import edges, process, until

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
COUNT, KILLS = (20_000, 10) if SOAK else (600, 1)
Make = Callable[..., str]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def firsts(found: Sequence[bytes | None]) -> list[bytes | None]:
    """Each once, at its first place."""
    return list(dict.fromkeys(found))


def size(log: Log, topic: str) -> int:
    return sum(end - first for first, end in log.ranges(topic).values())


def has_all(log: Log, topic: str, count: int = COUNT) -> bool:
    return size(log, topic) >= count and set(values(log, topic)) >= set(numbered(0, count))


def produce(log: Log, topic: str, found: Sequence[bytes]) -> None:
    for value in found:
        log.producer.produce(topic, value, b"k")
    assert log.producer.flush(60) == 0


def committed(log: Log, name: str, topic: str) -> int:
    """The position of a bridge out."""
    asked = ConsumerGroupTopicPartitions(f"headwater.bridge.{name}", [TopicPartition(topic, 0)])
    (future,) = log.admin.list_consumer_group_offsets([asked]).values()
    try:
        return future.result().topic_partitions[0].offset
    except KafkaException:
        return -1  # the group's coordinator has only begun


def take_all(peer: AmqpPeer) -> list[Any]:
    async def take() -> list[Any]:
        return await peer.take(await peer.left())

    return asyncio.run(take())


@pytest.fixture
def device(mqtt: Mosquitto) -> Iterator[MqttPeer]:
    peer = MqttPeer(mqtt.port)
    yield peer
    peer.close()


def queue_in(name: str, rabbit: RabbitMQ, topic: str, **more: Any) -> dict[str, Any]:
    end = {"from": rabbit.url, "to": f"topic:{topic}", "queue": name, "prefetch": 50}
    return {name: {**end, **more}}


def queue_out(name: str, rabbit: RabbitMQ, topic: str) -> dict[str, Any]:
    return {name: {"from": f"topic:{topic}", "to": rabbit.url, "routing_key": name}}


def toml(bridges: dict[str, dict[str, Any]]) -> str:
    quoted = {str: lambda value: f'"{value}"', int: str}
    return "".join(
        f"[edges.bridges.{name}]\n"
        + "".join(f"{key} = {quoted[type(value)](value)}\n" for key, value in section.items())
        for name, section in bridges.items()
    )


@pytest.mark.timeout(3600 if SOAK else 900)
def test_edges_that_are_killed_lose_nothing_in_any_direction(
    log: Log,
    topic: Make,
    name: str,
    rabbit: RabbitMQ,
    mqtt: Mosquitto,
    device: MqttPeer,
    tmp_path: Path,
):
    plain, once = AmqpPeer(rabbit.url, f"{name}-plain"), AmqpPeer(rabbit.url, f"{name}-once")
    sent = AmqpPeer(rabbit.url, f"{name}-sent")
    from_plain, from_once, from_mqtt, going = topic(), topic(), topic(), topic()
    asyncio.run(plain.publish(numbered(0, COUNT)))
    asyncio.run(once.publish(numbered(0, COUNT), [f"id {number}" for number in range(COUNT)]))
    asyncio.run(sent.declare())
    produce(log, going, numbered(0, COUNT))
    device.subscribe(f"{name}/out/#")
    bridges = {
        **queue_in(plain.queue, rabbit, from_plain),
        **queue_in(once.queue, rabbit, from_once, once="message-id"),
        **queue_out(sent.queue, rabbit, going),
        f"{name}-in": {"from": f"{mqtt.url}/{name}/in/#", "to": f"topic:{from_mqtt}"},
        f"{name}-out": {"from": f"topic:{going}", "to": f"{mqtt.url}/{name}/out/{{key}}"},
    }

    def publish() -> None:
        for first in range(1, COUNT, 50):
            device.publish(f"{name}/in/a", numbered(first, min(first + 50, COUNT)))

    with process(tmp_path, toml(bridges), log.bootstrap) as running:
        # From the first message on it is subscribed; what comes while it is away waits at the broker.
        subscribed = lambda: device.publish(f"{name}/in/a", [b"0"]) or size(log, from_mqtt)  # noqa: E731
        until(subscribed, "the subscription")
        publishing = threading.Thread(target=publish)
        publishing.start()
        for kill in range(1, KILLS + 1):
            mark = COUNT * kill // (KILLS + 1)
            until(lambda mark=mark: size(log, from_plain) >= mark, f"{mark} messages")
            running.kill()
            running.start()
        publishing.join(60)
        for target in (from_plain, from_once, from_mqtt):
            until(lambda target=target: has_all(log, target), "every message")
        for bridge in (sent.queue, f"{name}-out"):
            until(lambda bridge=bridge: committed(log, bridge, going) == COUNT, "the position")

    everything = numbered(0, COUNT)
    assert firsts(values(log, from_plain)) == everything
    assert values(log, from_once) == everything
    assert firsts(values(log, from_mqtt)) == everything
    assert {each.key for each in records(log, from_mqtt)} == {f"{name}/in/a".encode()}
    assert asyncio.run(plain.left()) == asyncio.run(once.left()) == 0
    found = take_all(sent)
    assert firsts([message.body for message in found]) == everything
    ids = {message.header.properties.message_id for message in found}
    assert len(ids) == COUNT, "one that is sent again has the same id"
    published = device.take(device.found.qsize())
    assert firsts([message.payload for message in published]) == everything
    assert {message.topic for message in published} == {f"{name}/out/k"}


def test_rabbitmq_that_is_killed_loses_nothing_in_either_direction(
    log: Log, topic: Make, name: str, rabbit: RabbitMQ
):
    back, there = AmqpPeer(rabbit.url, f"{name}-in"), AmqpPeer(rabbit.url, f"{name}-out")
    copies, orders = topic(), topic()
    asyncio.run(there.declare())
    asyncio.run(back.publish(numbered(0, COUNT)))
    produce(log, orders, numbered(0, COUNT))
    bridges = {
        **queue_in(back.queue, rabbit, copies),
        **queue_out(there.queue, rabbit, orders),
    }
    with edges(log.bootstrap, {"bridges": bridges}):
        until(lambda: size(log, copies) >= COUNT // 3, "some messages")
        rabbit.kill()
        rabbit.start()
        until(lambda: has_all(log, copies), "every message")
        until(lambda: committed(log, there.queue, orders) == COUNT, "the position")
    assert firsts(values(log, copies)) == numbered(0, COUNT)
    assert {message.body for message in take_all(there)} == set(numbered(0, COUNT))


def test_mosquitto_that_is_killed_loses_nothing_that_it_had_saved(
    log: Log, topic: Make, name: str, mqtt: Mosquitto, device: MqttPeer
):
    readings = topic()
    bridges = {name: {"from": f"{mqtt.url}/{name}", "to": f"topic:{readings}"}}
    with edges(log.bootstrap, {"bridges": bridges}):
        until(lambda: device.publish(name, [b"0"]) or size(log, readings), "the subscription")
    device.publish(name, numbered(1, 200))  # while nobody is there
    mqtt.save()
    mqtt.kill()
    mqtt.start()
    with edges(log.bootstrap, {"bridges": bridges}):
        until(lambda: has_all(log, readings, 200), "every message")
        mqtt.kill()  # and while it is connected
        mqtt.start()
        again = MqttPeer(mqtt.port)
        until(lambda: again.publish(name, [b"after"]) or b"after" in values(log, readings), "life")
        again.close()
    assert firsts(values(log, readings))[:200] == numbered(0, 200)
