"""Processes that span aggregates: each step is an event of one of them, and causes a command to another.

    def react(event):                                     # pure: an event in, commands out
        match event.data:
            case TransferStarted(to=to, amount=amount, transfer=transfer):
                yield Send(accounts, to, Credit(amount, transfer),
                           refused=lambda why: [Send(accounts, event.id, CancelTransfer(transfer))])

A runner reads the events of one topic and sends what `react` says; it stores how far it is after the
answers have come. A step may thus be sent twice, and is decided once: a command's id follows from the
event and from what is sent to whom (`command_fingerprint`), and `sent_at` is the event's own time, so that
the owner finds an earlier decision however long ago it was. What cannot be done is undone by another
command, whose events say so; nothing is deleted.

What goes wrong is of two kinds. An event that cannot be handled, whenever it is tried (`react` or `decide`
raises), becomes a dead letter (`letters`), and the saga goes on. Whatever concerns all events (the log is
away, the application is fenced) is tried again: the runner leaves the group, so that others can go on, and
joins it again after a while; `check` tells meanwhile. Only a closed application ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Never

from headwater.client.errors import ClientError
from headwater.client.librdkafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from headwater.events import options as clients
from headwater.events.aggregate import AnyAggregate, AnyApplication
from headwater.events.answers import Answer, Refused
from headwater.events.codec import Codec, correlation_of
from headwater.events.command_fingerprint import Step, Steps
from headwater.events.errors import (
    Busy,
    Closed,
    EventsError,
    OutcomeUnknown,
    OwnerFenced,
    Stopped,
)
from headwater.events.letters import Letters, Place, place_of

logger = logging.getLogger("headwater.events")
_BATCH = 500
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_BUSY_S = 0.2
_OF_ALL = (Closed, OwnerFenced, Stopped, ClientError, KafkaException, BufferError)
"""Not the fault of one event: no dead letter, but tried again."""
_PASSING = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._PARTITION_EOF,
)
"""What the client mends by itself."""


@dataclass(frozen=True)
class Send:
    """A command that follows from an event."""

    to: AnyAggregate
    id: str
    command: object
    refused: Callable[[Refused], Iterable[Send]] | None = None
    """What follows if it is refused: the compensation. Without it, a refusal ends the matter."""


React = Callable[[Never], Iterable[Send] | None]


class Saga:
    """Runs one `react` over the events of one aggregate type; open several to share the work."""

    def __init__(
        self,
        name: str,
        source: AnyAggregate,
        react: React,
        applications: Iterable[AnyApplication],
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
        plain = clients.for_confluent(bootstrap, client)
        group = f"{source.name}.saga.{name}"
        self._letters = Letters(source.name, name, group, plain)
        self._settings = clients.for_group(plain, group, session_timeout_ms)
        self._ending = threading.Event()
        self._trouble: BaseException | None = None
        self.handled = 0
        """Events, since the start; dead letters too."""
        self.buried = 0
        """Dead letters, since the start."""
        self.rejoined = 0
        """How often it had to leave the group and begin again."""

    async def __aenter__(self) -> Saga:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"saga {self.name}", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        await asyncio.to_thread(self._thread.join)

    def check(self) -> None:
        """Raise what keeps it from going on, or has ended it, if something does."""
        if self._trouble is not None:
            raise self._trouble

    # ---- in its thread --------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._ending.is_set():
            handled = self.handled
            try:
                self._follow()
            except (Closed, asyncio.CancelledError) as error:
                # What was not committed comes again, wherever the saga runs next.
                if not self._ending.is_set():
                    self._trouble = error
                    logger.error("saga %s ends: its application is closed", self.name)
                return
            except Exception as error:
                failures = 1 if self.handled > handled else failures + 1
                self._trouble = error
                pause = _PAUSES_S[min(failures, len(_PAUSES_S)) - 1]
                logger.error("saga %s: %s; it joins again in %g s", self.name, error, pause)
                self._ending.wait(pause)
                self.rejoined += 1

    def _follow(self) -> None:
        """As a member of the group, until the end or until something goes wrong."""
        self._letters.ensure()
        consumer = Consumer(self._settings)
        try:
            consumer.subscribe([self._source.name, self._letters.retry])
            while not self._ending.is_set():
                found = [m for m in consumer.consume(_BATCH, 0.1) if self._is_good(m)]
                if not found:
                    continue
                handling = asyncio.run_coroutine_threadsafe(self._handle(found), self._loop)
                handling.result()
                # A rebalance in between: the new owner repeats some, which changes nothing.
                with contextlib.suppress(KafkaException):
                    consumer.commit(offsets=_behind(found), asynchronous=False)
                self._trouble = None
        finally:
            consumer.close()

    def _is_good(self, message: Message) -> bool:
        error = message.error()
        if error is not None and error.code() not in _PASSING:
            self._trouble = KafkaException(error)
            logger.warning("saga %s: %s", self.name, error.str())
        return error is None

    async def _handle(self, messages: list[Message]) -> None:
        """One aggregate's events one after another, different aggregates side by side."""
        by_key: dict[bytes, list[Message]] = {}
        for each in messages:
            if each.value() is not None:
                by_key.setdefault(_bytes(each.key()), []).append(each)
        tasks = (self._in_order(mine) for mine in by_key.values())
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if outcome is not None:
                raise outcome
        self.handled += len(messages)

    async def _in_order(self, messages: list[Message]) -> None:
        for message in messages:
            try:
                (event,) = self._codec.decode(_bytes(message.value()), 1)
                place = place_of(message)
                first = Step(self.name, self.name)
                await self._carry_out(event, self._react(event) or (), place, first)
            except _OF_ALL:
                raise
            except Exception as error:
                await self._bury(message, error)

    async def _bury(self, message: Message, error: Exception) -> None:
        why = str(error) if isinstance(error, EventsError) else f"{type(error).__name__}: {error}"
        where = place_of(message).text
        logger.error("saga %s: %s becomes a dead letter: %s", self.name, where, why)
        await asyncio.to_thread(self._letters.put, message, why)
        self.buried += 1

    async def _carry_out(
        self, event: Any, sends: Iterable[Send], place: Place, before: Step
    ) -> None:
        steps = Steps(before)
        for send in sends:
            step = steps.next(send.to.name, send.id, send.command)
            answer = await self._send(event, send, place, step)
            if isinstance(answer, Refused) and send.refused is not None:
                await self._carry_out(event, send.refused(answer), place, step.refused)

    async def _send(self, event: Any, send: Send, place: Place, step: Step) -> Answer:
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
                    command_id=f"{step.path}:{place.text}",
                    former_id=f"{step.former}:{place.text}",
                    who=f"saga {self.name}",
                    correlation=correlation_of(event),
                    causation=place.text,
                    sent_at_ms=place.ms,
                )
            except (OutcomeUnknown, Busy) as error:
                if self._ending.is_set():
                    raise Closed("the saga is ending") from error
                logger.warning("saga %s: %s; sending it again", self.name, error)
                if isinstance(error, Busy):
                    await asyncio.sleep(_BUSY_S)


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _behind(messages: list[Message]) -> list[TopicPartition]:
    last: dict[tuple[str, int], int] = {}
    for each in messages:
        topic, partition, offset = each.topic(), each.partition(), each.offset()
        assert topic is not None and partition is not None and offset is not None
        last[topic, partition] = offset + 1
    return [TopicPartition(topic, p, offset) for (topic, p), offset in last.items()]
