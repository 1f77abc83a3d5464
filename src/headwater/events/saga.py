"""Processes that span aggregates: each step is an event of one of them, and causes a command to another.

    def react(event):                                     # pure: an event in, commands out
        match event.data:
            case TransferStarted(to=to, amount=amount, transfer=transfer):
                yield Send(accounts, to, Credit(amount, transfer),
                           refused=lambda why: [Send(accounts, event.id, CancelTransfer(transfer))])

A runner reads the events of one topic and sends what `react` says; it stores how far it is after the
answers have come. A step may thus be sent twice, and is decided once: a command's id follows from the
event and its place in the answer of `react`, and `sent_at` is the event's own time, so that the owner
finds an earlier decision however long ago it was. What cannot be done is undone by another command, whose
events say so; nothing is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from headwater.events import client as clients
from headwater.events.aggregate import Aggregate
from headwater.events.answers import Answer, Refused
from headwater.events.application import Application
from headwater.events.codec import Codec, correlation_of
from headwater.events.errors import Closed, EventsError, OutcomeUnknown

logger = logging.getLogger("headwater.events")
_BATCH = 500


@dataclass(frozen=True)
class Send:
    """A command that follows from an event."""

    to: Aggregate[Any]
    id: str
    command: object
    refused: Callable[[Refused], Iterable[Send]] | None = None
    """What follows if it is refused: the compensation. Without it, a refusal ends the matter."""


React = Callable[[Any], Iterable[Send] | None]


class Saga:
    """Runs one `react` over the events of one aggregate type; open several to share the work."""

    def __init__(
        self,
        name: str,
        source: Aggregate[Any],
        react: React,
        applications: Iterable[Application[Any]],
        bootstrap: str,
        *,
        client: clients.Client = None,
        session_timeout_ms: int = 6_000,
    ) -> None:
        self.name = name
        self._source = source
        self._react = react
        self._codec = Codec(source)
        self._applications = {each.aggregate.name: each for each in applications}
        self._settings: dict[str, Any] = {
            **clients.for_confluent(bootstrap, client),
            "group.id": f"{source.name}.saga.{name}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": max(session_timeout_ms // 5, 50),
            "fetch.wait.max.ms": 50,
        }
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self.handled = 0
        """Events, since the start."""

    async def __aenter__(self) -> Saga:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"saga {self.name}", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        await asyncio.to_thread(self._thread.join)

    def check(self) -> None:
        """Raise what stopped it, if something did."""
        if self._failure is not None:
            raise self._failure

    # ---- in its thread --------------------------------------------------------------------------

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._source.name])
        try:
            while not self._ending.is_set():
                found = [m for m in consumer.consume(_BATCH, 0.1) if m.error() is None]
                if not found:
                    continue
                handling = asyncio.run_coroutine_threadsafe(self._handle(found), self._loop)
                handling.result()
                # A rebalance in between: the new owner repeats some, which changes nothing.
                with contextlib.suppress(KafkaException):
                    consumer.commit(offsets=_behind(found), asynchronous=False)
        except (Closed, asyncio.CancelledError):
            pass  # the applications were closed first: what was not committed comes again
        except BaseException as error:
            self._failure = error
            logger.exception("saga %s has stopped", self.name)
        finally:
            consumer.close()

    async def _handle(self, messages: list[Message]) -> None:
        """One aggregate's events one after another, different aggregates side by side."""
        by_key: dict[bytes, list[Message]] = {}
        for each in messages:
            if each.value() is not None:
                by_key.setdefault(_bytes(each.key()), []).append(each)
        await asyncio.gather(*(self._in_order(mine) for mine in by_key.values()))
        self.handled += len(messages)

    async def _in_order(self, messages: list[Message]) -> None:
        for message in messages:
            (event,) = self._codec.decode(_bytes(message.value()), 1)
            place = f"{message.topic()}/{message.partition()}/{message.offset()}"
            _, at_ms = message.timestamp()
            await self._carry_out(event, self._react(event) or (), place, at_ms, self.name)

    async def _carry_out(
        self, event: Any, sends: Iterable[Send], place: str, at_ms: int, path: str
    ) -> None:
        for number, send in enumerate(sends):
            step = f"{path}.{number}"
            answer = await self._send(event, send, place, at_ms, f"{step}:{place}")
            if isinstance(answer, Refused) and send.refused is not None:
                await self._carry_out(event, send.refused(answer), place, at_ms, f"{step}.no")

    async def _send(
        self, event: Any, send: Send, place: str, at_ms: int, command_id: str
    ) -> Answer:
        application = self._applications.get(send.to.name)
        if application is None:
            raise EventsError(
                f"saga {self.name} sends to {send.to.name}, which it was not given",
                hint="list all applications that it needs",
            )
        while True:
            try:
                return await application.send(
                    send.id,
                    send.command,
                    command_id=command_id,
                    who=f"saga {self.name}",
                    correlation=correlation_of(event),
                    causation=place,
                    sent_at_ms=at_ms,
                )
            except OutcomeUnknown as error:
                if self._ending.is_set():
                    raise Closed("the saga is ending") from error
                logger.warning("saga %s: %s; sending it again", self.name, error)


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _behind(messages: list[Message]) -> list[TopicPartition]:
    last: dict[tuple[str, int], int] = {}
    for each in messages:
        topic, partition, offset = each.topic(), each.partition(), each.offset()
        assert topic is not None and partition is not None and offset is not None
        last[topic, partition] = offset + 1
    return [TopicPartition(topic, p, offset) for (topic, p), offset in last.items()]
