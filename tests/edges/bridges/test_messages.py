"""What a message of the other world looks like in the log, and a record out there: every field, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiormq
import pytest
import zmq

from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.edges.bridges.contract import Message, Record
from headwater.edges.bridges.zeromq import frames_of, message_of
from headwater.project.ports import free_port
from headwater.testing.bridges import record
from headwater.testing.mosquitto import Mosquitto
from headwater.testing.rabbitmq import RabbitMQ
from tests.edges.bridges.peers import AmqpPeer, MqttPeer, ZmqPeer
from tests.edges.bridges.reading import wait_for
from tests.edges.running import edges, until

Make = Callable[..., str]


def test_zeromq_frames_are_key_headers_and_value():
    assert message_of([b"v"]) == Message(b"v")
    assert message_of([b"k", b"v"]) == Message(b"v", b"k")
    three = message_of([b"k", b"a", b"b", b"v"])
    assert three == Message(b"v", b"k", (("zmq-frame-1", b"a"), ("zmq-frame-2", b"b")))
    out = Record("t", 0, 0, 0, b"k", b"v", [("other", b"x"), *three.headers])
    assert frames_of(out) == [b"k", b"a", b"b", b"v"]
    assert frames_of(record(0, None, key=None)) == [b"", b""]


def test_zeromq_carries_events_through_the_edges_in_both_directions(
    log: Log, topic: Make, name: str
):
    here, there = free_port(), free_port()
    readings = topic()
    bridges = {
        f"{name}-in": {"from": f"zmq+pull://127.0.0.1:{here}", "to": f"topic:{readings}"},
        f"{name}-out": {"from": f"topic:{readings}", "to": f"zmq+push://127.0.0.1:{there}"},
    }
    source = ZmqPeer(zmq.PUSH, f"tcp://127.0.0.1:{here}", bind=True)
    target = ZmqPeer(zmq.PULL, f"tcp://127.0.0.1:{there}", bind=True)
    try:
        with edges(log.bootstrap, {"bridges": bridges}):
            for number in range(100):
                source.socket.send_multipart([b"key", b"%d" % number])
            found = asyncio.run(target.take(100))
    finally:
        source.close()
        target.close()
    assert found == [[b"key", b"%d" % number] for number in range(100)]


def test_mqtt_keeps_topic_retained_flag_and_properties(
    log: Log, topic: Make, name: str, mqtt: Mosquitto
):
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    readings = topic()
    given: Any = Properties(PacketTypes.PUBLISH)
    given.ContentType, given.ResponseTopic = "application/json", "answers"
    given.CorrelationData, given.UserProperty = b"\x00\xff", [("traceparent", "00-1-2-01")]
    peer = MqttPeer(mqtt.port)
    peer.publish(f"{name}/kitchen", [b"old"], retain=True)
    section = {"from": f"{mqtt.url}/{name}/+", "to": f"topic:{readings}"}
    with edges(log.bootstrap, {"bridges": {name: section}}):
        (old,) = wait_for(log, readings, 1)
        peer.publish(f"{name}/hall", [b"21.5"], properties=given)
        new = wait_for(log, readings, 2)[1]
    peer.publish(f"{name}/kitchen", [b""], retain=True)
    peer.close()
    assert (old.key, old.value) == (f"{name}/kitchen".encode(), b"old")
    assert old.headers == {"mqtt-topic": f"{name}/kitchen".encode(), "mqtt-retained": b"true"}
    assert (new.key, new.value) == (f"{name}/hall".encode(), b"21.5")
    assert new.headers == {
        "mqtt-topic": f"{name}/hall".encode(),
        "content-type": b"application/json",
        "mqtt-response-topic": b"answers",
        "mqtt-correlation-data": b"\x00\xff",
        "traceparent": b"00-1-2-01",
    }


def test_a_record_goes_out_by_mqtt_with_its_headers_or_to_the_dead_letters(
    log: Log, topic: Make, name: str, mqtt: Mosquitto
):
    commands = topic()
    headers = [("content-type", b"text/plain"), ("traceparent", b"00-1-2-01")]
    publish(log, commands, Draft(b"k/7", b"on", headers))
    publish(log, commands, Draft(b"#", b"for everybody"))
    publish(log, commands, Draft(b"k/8", None))
    peer = MqttPeer(mqtt.port)
    peer.subscribe(f"{name}/#")
    section = {"from": f"topic:{commands}", "to": f"{mqtt.url}/{name}/{{key}}"}
    with edges(log.bootstrap, {"bridges": {name: section}}):
        first, second = peer.take(2)
        (dead,) = wait_for(log, f"headwater.bridge.{name}.dead-letters", 1)
    peer.close()
    assert (first.topic, first.payload) == (f"{name}/k/7", b"on")
    assert first.properties.ContentType == "text/plain"
    own = [("headwater-id", f"{commands}-0-0"), ("traceparent", "00-1-2-01")]
    assert first.properties.UserProperty == own
    assert (second.topic, second.payload) == (f"{name}/k/8", b"")
    assert dead.value == b"for everybody"


def test_amqp_keeps_properties_and_headers(log: Log, topic: Make, name: str, rabbit: RabbitMQ):
    orders = topic()
    peer = AmqpPeer(rabbit.url, name)
    properties = aiormq.spec.Basic.Properties(
        content_type="application/json",
        correlation_id="c1",
        message_id="m1",
        reply_to="answers",
        message_type="order.placed",
        headers={"n": 7, "text": "x", "deep": {"a": [1]}, "tenant": "acme"},
    )

    async def send() -> None:
        await peer.declare()
        async with aiormq.connect(rabbit.url) as connection:
            channel = await connection.channel()
            await channel.basic_publish(b"{}", routing_key=name, properties=properties)

    asyncio.run(send())
    section = {"from": rabbit.url, "to": f"topic:{orders}", "queue": name, "key": "header:tenant"}
    with edges(log.bootstrap, {"bridges": {name: section}}):
        (found,) = wait_for(log, orders, 1)
    assert (found.key, found.value) == (b"acme", b"{}")
    assert found.headers == {
        "content-type": b"application/json",
        "correlation-id": b"c1",
        "message-id": b"m1",
        "reply-to": b"answers",
        "amqp-type": b"order.placed",
        "n": b"7",
        "text": b"x",
        "deep": b'{"a": [1]}',
        "tenant": b"acme",
        "amqp-exchange": b"",
        "amqp-routing-key": name.encode(),
    }


def test_a_record_goes_out_by_amqp_persistent_and_named_or_to_the_dead_letters(
    log: Log, topic: Make, name: str, rabbit: RabbitMQ
):
    orders = topic()
    peer = AmqpPeer(rabbit.url, name)
    asyncio.run(peer.declare())
    headers = [("content-type", b"text/plain"), ("h", b"1"), ("raw", b"\xff")]
    publish(log, orders, Draft(name.encode(), b"v", headers))
    publish(log, orders, Draft(b"nobody", b"lost?"))
    publish(log, orders, Draft(b"\xff", b"no text"))
    publish(log, orders, Draft(name.encode(), None))
    section = {"from": f"topic:{orders}", "to": rabbit.url, "routing_key": "{key}"}
    with edges(log.bootstrap, {"bridges": {name: section}}):
        first, second = asyncio.run(peer.take(2))
        dead = wait_for(log, f"headwater.bridge.{name}.dead-letters", 2)
    shown = first.header.properties
    assert (first.body, shown.delivery_mode, shown.content_type) == (b"v", 2, "text/plain")
    assert shown.message_id == f"{orders}-0-0" and shown.timestamp is not None
    assert shown.headers == {"h": "1", "raw": b"\xff"}
    assert second.body == b"" and second.header.properties.headers == {
        "headwater-tombstone": "true"
    }
    assert [each.value for each in dead] == [b"lost?", b"no text"]
    reasons = [each.headers["__dlq.errors.message"] or b"" for each in dead]
    assert b"no queue is bound" in reasons[0] and b"AMQP cannot carry it" in reasons[1]


def test_a_queue_that_is_deleted_is_noticed(log: Log, topic: Make, name: str, rabbit: RabbitMQ):
    orders = topic()
    section = {"from": rabbit.url, "to": f"topic:{orders}", "queue": name, "declare": True}
    peer = AmqpPeer(rabbit.url, name)

    async def delete() -> None:
        async with aiormq.connect(rabbit.url) as connection:
            channel = await connection.channel()
            await channel.queue_delete(name)

    with edges(log.bootstrap, {"bridges": {name: section}}) as running:
        asyncio.run(peer.publish([b"1"]))
        wait_for(log, orders, 1)
        asyncio.run(delete())
        state = running.context.status.of(f"bridges.{name}")
        until(lambda: "was the queue deleted?" in (state.last_failure or ""), "the notice")
        asyncio.run(peer.publish([b"2"]))
        assert [each.value for each in wait_for(log, orders, 2)] == [b"1", b"2"]


@pytest.mark.parametrize("option", [{"user": "nobody"}, {}])
def test_a_login_that_is_refused_is_told(rabbit: RabbitMQ, option: dict[str, str]):
    from headwater.edges.bridges.amqp import Exchange
    from headwater.testing.bridges import bridge_end, fails_with_a_sentence

    url = f"amqp://{option.get('user', 'guest')}:wrong@127.0.0.1:{rabbit.port}/"
    said = str(fails_with_a_sentence(Exchange(bridge_end(url, Exchange))))
    assert "ACCESS_REFUSED" in said and "wrong" not in said
