"""Brokers that say no, and encrypted ones: real servers with passwords, rules, limits and certificates."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator

import aiormq
import pytest

from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.edges.bridges.mqtt import Publication, Subscription, packet_bytes, properties_of
from headwater.testing.bridges import bridge_end, fails_with_a_sentence, record, run
from headwater.testing.certificates import Authority
from headwater.testing.mosquitto import Mosquitto, mosquitto
from headwater.testing.rabbitmq import RabbitMQ
from tests.edges.bridges.conftest import or_absent
from tests.edges.bridges.peers import MqttPeer
from tests.edges.running import edges, until

LARGEST = 1_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Mosquitto]:
    rules = tmp_path_factory.mktemp("rules") / "acl"
    rules.write_text("topic readwrite open/#\n")
    rules.chmod(0o600)
    certificate = authority.issue("mqtt", hosts=["127.0.0.1"])
    yield from or_absent(lambda: mosquitto({"acl_file": rules}, certificate))


def test_a_publication_that_the_rules_forbid_is_refused_and_the_others_go_on(strict: Mosquitto):
    async def scenario() -> None:
        options = {"client_id": "forbidden"}
        async with Publication(bridge_end(f"{strict.url}/{{key}}", Publication, options)) as bridge:
            batch = [record(0, b"a", key=b"open/a"), record(1, b"b", key=b"closed/b")]
            (refusal,) = await bridge.send([*batch, record(2, b"c", key=b"open/c")])
            assert refusal.record.offset == 1 and "Not authorized" in refusal.reason

    run(scenario())


def test_a_publication_larger_than_the_broker_takes_is_refused_and_the_others_go_on(
    mqtt: Mosquitto,
):
    del mqtt  # without it, there is no Mosquitto at all

    async def scenario(url: str) -> None:
        options = {"client_id": "large"}
        async with Publication(bridge_end(f"{url}/{{key}}", Publication, options)) as bridge:
            plain = record(1, b"", key=b"a")
            given = len(properties_of(plain).pack())
            room = LARGEST - packet_bytes("a", b"", given) - 1  # its length has a second byte then
            batch = [record(0, bytes(LARGEST), key=b"a"), record(1, bytes(room), key=b"a")]
            (refusal,) = await bridge.send(batch)
            assert refusal.record.offset == 0 and f"{LARGEST} bytes" in refusal.reason
            (refusal,) = await bridge.send([record(1, bytes(room + 1), key=b"a")])
            assert refusal.record.offset == 1
            assert list(await bridge.send([plain])) == []

    with mosquitto({"max_packet_size": LARGEST}) as server:
        run(scenario(server.url))


def test_mqtt_without_a_login_where_one_is_wanted_is_told(mqtt: Mosquitto):
    del mqtt  # without it, there is no Mosquitto at all
    with mosquitto({"allow_anonymous": "false"}) as server:
        bridge = Subscription(bridge_end(f"{server.url}/a", Subscription))
        assert "refused the connection: Not authorized" in str(fails_with_a_sentence(bridge))


def test_mqtt_goes_by_tls_to_a_broker_that_is_trusted(strict: Mosquitto, authority: Authority):
    peer = MqttPeer(strict.port)
    peer.subscribe("open/#")
    address = f"mqtts://127.0.0.1:{strict.tls_port}/open/tls"

    async def scenario() -> None:
        options = {"ca": str(authority.certificate), "client_id": "encrypted"}
        async with Publication(bridge_end(address, Publication, options)) as bridge:
            assert list(await bridge.send([record(0, b"sealed")])) == []

    run(scenario())
    assert peer.take(1)[0].payload == b"sealed"
    peer.close()
    stranger = Publication(bridge_end(address, Publication, {"client_id": "stranger"}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # paho leaves the socket to the collector
        said = str(fails_with_a_sentence(stranger))
        gc.collect()
    assert "certificate" in said


def test_a_queue_that_is_full_is_waited_for(
    log: Log, topic: Callable[..., str], name: str, rabbit: RabbitMQ
):
    orders = topic()

    async def declare() -> None:
        async with aiormq.connect(rabbit.url) as connection:
            channel = await connection.channel()
            limits = {"x-max-length": 3, "x-overflow": "reject-publish"}
            await channel.queue_declare(name, durable=True, arguments=limits)

    asyncio.run(declare())
    for number in range(5):
        publish(log, orders, Draft(b"k", b"%d" % number))
    section = {"from": f"topic:{orders}", "to": rabbit.url, "routing_key": name}
    with edges(log.bootstrap, {"bridges": {name: section}}) as running:
        state = running.context.status.of(f"bridges.{name}")
        until(lambda: state.failures, "the refusal")
        found: set[bytes] = set()
        until(lambda: found.update(asyncio.run(taken(rabbit, name))) or len(found) == 5, "room")
    assert found == {b"%d" % number for number in range(5)}


async def taken(rabbit: RabbitMQ, queue: str) -> list[bytes]:
    """What is there now."""
    async with aiormq.connect(rabbit.url) as connection:
        channel = await connection.channel()
        found = []
        while True:
            message = await channel.basic_get(queue, no_ack=True)
            if not isinstance(message.delivery, aiormq.spec.Basic.GetOk):
                return found
            found.append(message.body)
