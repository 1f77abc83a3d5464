"""The other side of each bridge, with other people's clients: pyzmq, paho and aiormq, used plainly."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Sequence
from typing import Any

import aiormq
import zmq
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

DEADLINE_S = 100.0


class MqttPeer:
    """A client that publishes at QoS 1, or has subscribed."""

    def __init__(self, port: int, name: str = "") -> None:
        self.found: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._subscribed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5
        )
        self._client.on_message = lambda _, __, message: self.found.put(message)
        self._client.on_subscribe = lambda *_: self._subscribed.put(True)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def publish(self, topic: str, values: Sequence[bytes], qos: int = 1, **more: Any) -> None:
        """Taken by the broker when this returns."""
        for info in [self._client.publish(topic, value, qos, **more) for value in values]:
            info.wait_for_publish(DEADLINE_S)
            assert info.is_published()

    def subscribe(self, pattern: str) -> None:
        self._client.subscribe(pattern, 1)
        self._subscribed.get(timeout=DEADLINE_S)

    def take(self, count: int) -> list[Any]:
        return [self.found.get(timeout=DEADLINE_S) for _ in range(count)]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class AmqpPeer:
    """A connection for the length of one call."""

    def __init__(self, url: str, queue: str) -> None:
        self._url, self.queue = url, queue

    async def declare(self) -> None:
        async with aiormq.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.queue_declare(self.queue, durable=True)

    async def publish(self, values: Sequence[bytes], ids: Sequence[str] | None = None) -> None:
        """Persistent, and confirmed when this returns."""
        async with aiormq.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.queue_declare(self.queue, durable=True)
            for number, value in enumerate(values):
                properties = aiormq.spec.Basic.Properties(
                    delivery_mode=2, message_id=ids[number] if ids else None
                )
                await channel.basic_publish(value, routing_key=self.queue, properties=properties)

    async def take(self, count: int) -> list[Any]:
        found: list[Any] = []
        async with aiormq.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.queue_declare(self.queue, durable=True)
            async with asyncio.timeout(DEADLINE_S):
                while len(found) < count:
                    message = await channel.basic_get(self.queue, no_ack=True)
                    if isinstance(message.delivery, aiormq.spec.Basic.GetOk):
                        found.append(message)
                    else:
                        await asyncio.sleep(0.01)  # the queue is empty: look again
        return found

    async def left(self) -> int:
        """How many messages the queue has ready; one that is given to a consumer is not among them."""
        async with aiormq.connect(self._url) as connection:
            channel = await connection.channel()
            answer = await channel.queue_declare(self.queue, passive=True)
            return answer.message_count or 0


class ZmqPeer:
    """A plain socket of the other kind."""

    def __init__(self, kind: int, endpoint: str, *, bind: bool) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(kind)
        self.socket.linger = 0
        if bind:
            self.socket.bind(endpoint)
        else:
            self.socket.connect(endpoint)

    async def take(self, count: int) -> list[list[bytes]]:
        def blocking() -> list[list[bytes]]:
            found = []
            for _ in range(count):
                assert self.socket.poll(DEADLINE_S * 1000), "nothing came"
                found.append(self.socket.recv_multipart())
            return found

        return await asyncio.to_thread(blocking)

    def close(self) -> None:
        self._context.destroy(0)
