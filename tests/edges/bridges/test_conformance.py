"""Every bridge of ours passes the tests that we give to other people, against real counterparts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zmq

from headwater.edges.bridges import zeromq
from headwater.edges.bridges.amqp import Exchange, Queue
from headwater.edges.bridges.contract import Inbound, Outbound, Record, Refusal
from headwater.edges.bridges.mqtt import Publication, Subscription
from headwater.edges.bridges.zeromq import Pub, Pull, Push, Sub
from headwater.testing.bridges import (
    Got,
    InboundConformance,
    OutboundConformance,
    Tell,
    bridge_end,
    fails_with_a_sentence,
)
from headwater.testing.mosquitto import Mosquitto
from headwater.testing.rabbitmq import RabbitMQ
from tests.edges.bridges.peers import AmqpPeer, MqttPeer, ZmqPeer

NOWHERE = "127.0.0.1:9"


class TestPull(InboundConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Inbound]:
        return lambda: Pull(bridge_end(f"zmq+pull://{tmp_path}/socket", Pull, {"bind": True}))

    @pytest.fixture
    def tell(self, tmp_path: Path) -> Iterator[Tell]:
        peer = ZmqPeer(zmq.PUSH, f"ipc://{tmp_path}/socket", bind=False)

        async def tell(values: Sequence[bytes]) -> None:
            for value in values:
                await asyncio.to_thread(peer.socket.send, value)

        yield tell
        peer.close()


async def test_whoever_sends_a_message_without_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zeromq, "MESSAGE_BYTES_MAX", 1000)
    pull = Pull(bridge_end(f"zmq+pull://{tmp_path}/socket", Pull, {"bind": True}))
    await pull.open()
    endless, honest = (ZmqPeer(zmq.PUSH, f"ipc://{tmp_path}/socket", bind=False) for _ in range(2))
    lost = endless.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    try:
        await asyncio.to_thread(endless.socket.send, b"x" * 1001)
        assert await asyncio.to_thread(lost.poll, 240_000)
        await asyncio.to_thread(honest.socket.send, b"x" * 1000)
        assert [each.value for each in await pull.receive()] == [b"x" * 1000]
    finally:
        endless.socket.disable_monitor()
        endless.close()
        honest.close()
        await pull.close()


class TestSub(InboundConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Inbound]:
        return lambda: Sub(bridge_end(f"zmq+sub://{tmp_path}/socket", Sub, {"subscribe": ["k"]}))

    @pytest.fixture
    def tell(self, tmp_path: Path) -> Iterator[Tell]:
        # XPUB hears of subscriptions, so that a test need not guess when it may publish.
        peer = ZmqPeer(zmq.XPUB, f"ipc://{tmp_path}/socket", bind=True)
        peer.socket.xpub_verbose = 1

        async def tell(values: Sequence[bytes]) -> None:
            while (await peer.take(1))[0] != [b"\x01k"]:
                pass
            await asyncio.to_thread(peer.socket.send_multipart, [b"other", b"not for us"])
            for value in values:
                await asyncio.to_thread(peer.socket.send_multipart, [b"key", value])

        yield tell
        peer.close()


class TestSubscription(InboundConformance):
    @pytest.fixture(params=["5", "3.1.1"])
    def make(
        self, mqtt: Mosquitto, name: str, request: pytest.FixtureRequest
    ) -> Callable[[], Inbound]:
        options = {"client_id": name, "version": request.param}
        return lambda: Subscription(bridge_end(f"{mqtt.url}/{name}/#", Subscription, options))

    @pytest.fixture
    def tell(self, mqtt: Mosquitto, name: str) -> Iterator[Tell]:
        peer = MqttPeer(mqtt.port)

        async def tell(values: Sequence[bytes]) -> None:
            await asyncio.to_thread(peer.publish, f"{name}/a", values)

        yield tell
        peer.close()


class TestQueue(InboundConformance):
    @pytest.fixture
    def make(self, rabbit: RabbitMQ, name: str) -> Callable[[], Inbound]:
        return lambda: Queue(bridge_end(rabbit.url, Queue, {"queue": name, "declare": True}))

    @pytest.fixture
    def tell(self, rabbit: RabbitMQ, name: str) -> Tell:
        return AmqpPeer(rabbit.url, name).publish


class TestPush(OutboundConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Outbound]:
        return lambda: Push(bridge_end(f"zmq+push://{tmp_path}/socket", Push))

    @pytest.fixture
    def got(self, tmp_path: Path) -> Iterator[Got]:
        peer = ZmqPeer(zmq.PULL, f"ipc://{tmp_path}/socket", bind=True)

        async def got(count: int) -> list[bytes]:
            return [frames[-1] for frames in await peer.take(count)]

        yield got
        peer.close()


class PatientPub(Pub):
    """Publishes when somebody has subscribed, so that a test knows what must arrive."""

    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        while records and not self.status()["subscribed"]:
            await asyncio.sleep(0.005)
        return await super().send(records)


class TestPub(OutboundConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Outbound]:
        return lambda: PatientPub(bridge_end(f"zmq+pub://{tmp_path}/socket", Pub, {"bind": True}))

    @pytest.fixture
    def got(self, tmp_path: Path) -> Iterator[Got]:
        peer = ZmqPeer(zmq.SUB, f"ipc://{tmp_path}/socket", bind=False)
        peer.socket.subscribe(b"")

        async def got(count: int) -> list[bytes]:
            return [frames[-1] for frames in await peer.take(count)]

        yield got
        peer.close()


class TestPublication(OutboundConformance):
    @pytest.fixture(params=["5", "3.1.1"])
    def make(
        self, mqtt: Mosquitto, name: str, request: pytest.FixtureRequest
    ) -> Callable[[], Outbound]:
        options = {"client_id": f"{name}-out", "version": request.param}
        return lambda: Publication(bridge_end(f"{mqtt.url}/{name}/{{key}}", Publication, options))

    @pytest.fixture
    def got(self, mqtt: Mosquitto, name: str) -> Iterator[Got]:
        peer = MqttPeer(mqtt.port)
        peer.subscribe(f"{name}/#")

        async def got(count: int) -> list[bytes]:
            return [each.payload for each in await asyncio.to_thread(peer.take, count)]

        yield got
        peer.close()


class TestExchange(OutboundConformance):
    @pytest.fixture
    def make(self, rabbit: RabbitMQ, name: str) -> Callable[[], Outbound]:
        return lambda: Exchange(bridge_end(rabbit.url, Exchange, {"routing_key": name}))

    @pytest.fixture
    def got(self, rabbit: RabbitMQ, name: str) -> Got:
        peer = AmqpPeer(rabbit.url, name)

        async def got(count: int) -> list[bytes]:
            return [each.body for each in await peer.take(count)]

        return got


@pytest.mark.parametrize(
    "bridge",
    [
        Subscription(bridge_end(f"mqtt://{NOWHERE}/a", Subscription)),
        Publication(bridge_end(f"mqtt://{NOWHERE}/a", Publication)),
        Queue(bridge_end(f"amqp://{NOWHERE}/", Queue, {"queue": "a"})),
        Exchange(bridge_end(f"amqp://{NOWHERE}/", Exchange)),
        Pull(bridge_end("zmq+pull:///no/such/folder/socket", Pull, {"bind": True})),
    ],
    ids=lambda bridge: type(bridge).__name__,
)
def test_a_bridge_to_nowhere_fails_with_a_sentence(bridge: Inbound | Outbound):
    said = str(fails_with_a_sentence(bridge))
    assert "127.0.0.1:9" in said or "No such file" in said


def test_a_queue_that_is_not_there_is_said_so(rabbit: RabbitMQ, name: str):
    bridge = Queue(bridge_end(rabbit.url, Queue, {"queue": name}))
    assert f"no queue '{name}'" in str(fails_with_a_sentence(bridge))
