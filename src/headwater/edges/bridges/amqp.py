"""AMQP 0-9-1, as RabbitMQ speaks it: from a queue, to an exchange. With TLS as `amqps://`.

    from = "amqp://user:${PASSWORD}@host/vhost"     queue = "orders"
    to   = "amqp://user:${PASSWORD}@host/vhost"     exchange = "events", routing_key = "{topic}.{key}"

A message and a record:

    key        the routing key, or what `key` names: "message-id", "header:NAME", "none"
    headers    the message's own, and content-type, content-encoding, message-id, correlation-id,
               reply-to, amqp-type, amqp-app-id, amqp-exchange, amqp-routing-key, amqp-redelivered
    timestamp  the message's, where it has one

A message is acknowledged when the log has it; until then the queue keeps it, and gives it again to
whoever comes next. Out: persistent messages, each confirmed by the broker. Called by `runner`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.edges.bridges.addresses import BadAddress, filled, parsed
from headwater.edges.bridges.amqp_messages import KEYS, message_of, properties_of
from headwater.edges.bridges.contract import (
    BridgeBroken,
    End,
    Inbound,
    Message,
    Outbound,
    Record,
    Refusal,
)

if TYPE_CHECKING:
    from aiormq.abc import AbstractConnection, DeliveredMessage

CONNECT_TIMEOUT_S = 10.0
CONFIRM_TIMEOUT_S = 60.0
LOOK_S = 1.0
"""How often a consumer that hears nothing looks whether it still is one."""


class _Channel:
    """A connection with one channel; `closing` of the channel is done when either is no more."""

    def __init__(self, end: End) -> None:
        self._end = end
        self.connection: AbstractConnection | None = None
        self.channel: Any = None  # aiormq's own class has more than its abstract one

    async def open(self) -> Any:
        import aiormq

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self.connection = await aiormq.connect(self._end.address)
                self.channel = await self.connection.channel()
        except TimeoutError:
            raise self.failure("did not answer in time") from None
        except (aiormq.AMQPError, OSError) as error:
            raise self.failure(error) from error
        return self.channel

    def failure(self, what: object) -> BridgeBroken:
        place = self._end.shown.partition("://")[2]
        said = str(what) or type(what).__name__
        return BridgeBroken(f"AMQP broker at {place}: {said}")

    @property
    def is_open(self) -> bool:
        return self.connection is not None and not self.channel.is_closed

    async def close(self) -> None:
        if self.connection is not None:
            with contextlib.suppress(Exception):  # it may be closed, or broken, already
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await self.connection.close()


class Queue(Inbound):
    """Consumes a queue; several edges may share one, and RabbitMQ deals the messages out."""

    LOSES = (
        "nothing that the queue keeps: messages are acknowledged when the log has them, and come again "
        "(possibly twice in the log, see `once`) after a crash; a queue that is not durable, or messages "
        "that are not persistent, die with RabbitMQ"
    )
    OPTIONS: ClassVar[Mapping[str, object]] = {
        "queue": "",
        "declare": False,
        "bind": [],
        "prefetch": 1000,
        "key": "routing-key",
    }
    REDELIVERS = True

    @classmethod
    def check(cls, end: End) -> list[str]:
        said = _complaints(end)
        if not end.text("queue").strip():
            said.append('names no queue: queue = "orders"')
        if end.texts("bind") and not end.flag("declare"):
            said.append("bind needs declare = true")
        if not all(isinstance(each, str) and ":" in each for each in end.texts("bind")):
            said.append('bind is a list of "exchange:routing key", as in ["events:orders.#"]')
        if not 1 <= end.number("prefetch") <= 65535:
            said.append("prefetch is 1 to 65535 messages")
        if end.text("key") not in KEYS and not end.text("key").startswith("header:"):
            said.append(f"key = {end.text('key')!r} is none of {', '.join(KEYS)}, header:NAME")
        return said

    async def open(self) -> None:
        import aiormq

        self._waiting: deque[DeliveredMessage] = deque()
        self._came = asyncio.Event()
        self._channel = _Channel(self.end)
        channel = await self._channel.open()
        channel.closing.add_done_callback(lambda _: self._came.set())
        try:
            await self._declare(channel)
            await channel.basic_qos(prefetch_count=self.end.number("prefetch"))
            answer = await channel.basic_consume(self.end.text("queue"), self._on_message)
        except (aiormq.AMQPError, OSError) as error:
            raise self._channel.failure(error) from error
        self._tag = answer.consumer_tag

    async def _declare(self, channel: Any) -> None:
        queue = self.end.text("queue")
        if not self.end.flag("declare"):
            await channel.queue_declare(queue, passive=True)  # a sentence where it is missing
            return
        await channel.queue_declare(queue, durable=True)
        for each in self.end.texts("bind"):
            exchange, _, routing_key = each.partition(":")
            await channel.queue_bind(queue, exchange, routing_key)

    async def _on_message(self, message: DeliveredMessage) -> None:
        self._waiting.append(message)
        self._came.set()

    async def receive(self) -> Sequence[Message]:
        while not self._waiting:
            self._check()
            self._came.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._came.wait()
        self._check()
        taken = list(self._waiting)  # at most `prefetch`
        self._waiting.clear()
        return [message_of(each, self.end.text("key")) for each in taken]

    def _check(self) -> None:
        if not self._channel.is_open:
            raise self._channel.failure("the connection ended")
        if self._tag not in self._channel.channel.consumers:
            raise self._channel.failure("it has cancelled us: was the queue deleted?")

    async def stored(self, messages: Sequence[Message]) -> None:
        self._check()
        if messages:
            # One frame for all: tags on a channel are in the order in which messages came.
            await self._channel.channel.basic_ack(messages[-1].token, multiple=True)

    async def close(self) -> None:
        if hasattr(self, "_channel"):
            await self._channel.close()


class Exchange(Outbound):
    """Publishes to an exchange, or straight to a queue by the default one."""

    LOSES = (
        "nothing that RabbitMQ has confirmed, in durable queues; a record that no queue is bound for goes "
        "to the dead letters; after a crash the last ones may be sent twice, with the same message-id"
    )
    OPTIONS: ClassVar[Mapping[str, object]] = {
        "exchange": "",
        "routing_key": "{topic}",
        "mandatory": True,
    }
    CONFIRMS = True

    @classmethod
    def check(cls, end: End) -> list[str]:
        return _complaints(end)

    async def open(self) -> None:
        self._channel = _Channel(self.end)
        await self._channel.open()

    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        import aiormq

        try:
            async with asyncio.timeout(CONFIRM_TIMEOUT_S):
                # Tasks begin in this order, and each queues its frames before it first waits.
                answers = await asyncio.gather(*(self._publish(each) for each in records))
        except TimeoutError:
            raise self._channel.failure("did not confirm in time") from None
        except (aiormq.AMQPError, aiormq.exceptions.ChannelInvalidStateError, OSError) as error:
            raise self._channel.failure(error) from error
        if not self._channel.is_open:
            raise self._channel.failure("the connection ended")
        return [refusal for refusal in answers if refusal is not None]

    async def _publish(self, record: Record) -> Refusal | None:
        import aiormq

        try:
            routing_key = filled(self.end.text("routing_key"), record)
            await self._channel.channel.basic_publish(
                record.value or b"",
                exchange=self.end.text("exchange"),
                routing_key=routing_key,
                properties=properties_of(record),
                mandatory=self.end.flag("mandatory"),
                wait=False,
            )
        except aiormq.exceptions.PublishError:
            return Refusal(record, f"no queue is bound for the routing key {routing_key!r}")
        except (ValueError, TypeError) as error:  # a routing key that is no text, or too long
            return Refusal(record, f"AMQP cannot carry it: {error}")
        return None

    async def close(self) -> None:
        if hasattr(self, "_channel"):
            await self._channel.close()


def _complaints(end: End) -> list[str]:
    try:
        parsed(end.place.partition("?")[0], 5672)
    except BadAddress as error:
        return [f"{end.shown} {error}"]
    return []
