"""Commands for partitions that another process owns: out to NAME.commands, answers from NAME.replies.

Used by `Application` where it is not the owner itself. Each process reads one partition of the replies,
from the moment of its first command on, and takes those that name it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from headwater.client.librdkafka import Consumer, KafkaError, Producer, TopicPartition
from headwater.events import answers
from headwater.events.aggregate import Aggregate
from headwater.events.answers import Answer
from headwater.events.commands import Asked, CommandCodec, ReplyTo
from headwater.events.errors import REPLIED, DecideFailed, OutcomeUnknown
from headwater.events.ledger import Decision

logger = logging.getLogger("headwater.events")
TIMEOUT_S = 30.0
_AGAIN_S = 1.0


class Forwarding:
    """The way to the owners, opened when first needed."""

    def __init__(
        self,
        aggregate: Aggregate[Any],
        settings: Mapping[str, Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._aggregate = aggregate
        self._settings = dict(settings)
        self._codec = CommandCodec(aggregate)
        self._loop = loop
        self._name = uuid.uuid4().hex
        self._waiting: dict[Decision, list[asyncio.Future[Answer]]] = {}
        """Whoever asked; replies come in that order."""
        self.failures = 0
        """Of the thread that hears the replies, since the start."""
        self._opening = asyncio.Lock()
        self._producer: Producer | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._partition = 0

    async def ask(self, asked: Asked, partition: int, timeout_s: float) -> Answer:
        """Raises OutcomeUnknown when no answer comes in time."""
        async with self._opening:
            if self._producer is None:
                await asyncio.to_thread(self._open)
        assert self._producer is not None
        decision = (asked.id, asked.command_id)
        waiting: asyncio.Future[Answer] = self._loop.create_future()
        value = self._codec.encode(asked, ReplyTo(self._partition, self._name))
        self._waiting.setdefault(decision, []).append(waiting)
        self._producer.produce(
            self._aggregate.inbox,
            value,
            asked.id,
            partition,
            on_delivery=lambda error, _: self._sent(waiting, error),
        )
        self._producer.poll(0)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            raise OutcomeUnknown(
                f"no owner answered {asked.command_id} within {timeout_s:g} s",
                hint="send it again with the same command_id and sent_at: it is decided once",
            ) from None
        finally:
            self._leave(decision, waiting)

    def _leave(self, decision: Decision, waiting: asyncio.Future[Answer]) -> None:
        others = self._waiting.get(decision, [])
        if waiting in others:
            others.remove(waiting)
        if not others:
            self._waiting.pop(decision, None)

    def _sent(self, waiting: asyncio.Future[Answer], error: KafkaError | None) -> None:
        if error is not None:
            failed = OutcomeUnknown(f"the command was not acknowledged: {error.str()}")
            self._loop.call_soon_threadsafe(_fail, waiting, failed)

    def _open(self) -> None:
        base = {**self._settings, "linger.ms": 0}
        consumer = Consumer(
            {
                **self._settings,
                "group.id": f"{self._aggregate.replies}-{self._name}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 500,
            }
        )
        topic = self._aggregate.replies
        known = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        self._partition = int(self._name, 16) % len(known.partitions)
        place = TopicPartition(topic, self._partition)
        _, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        place.offset = end
        consumer.assign([place])
        self._thread = threading.Thread(
            target=self._listen, args=(consumer,), name=f"replies of {topic}", daemon=True
        )
        self._thread.start()
        self._producer = Producer({**base, "enable.idempotence": True})

    def _listen(self, consumer: Consumer) -> None:
        while not self._ending.is_set():
            try:
                for message in consumer.consume(500, 0.1):
                    if message.error() is None and message.key() == self._name.encode():
                        self._heard(message.value() or b"")
                if self._producer is not None:
                    self._producer.poll(0)
            except Exception:  # of these replies: the thread must go on for all others
                self.failures += 1
                logger.exception("%s: hearing replies failed", self._aggregate.replies)
                self._ending.wait(_AGAIN_S)
        consumer.close()

    def _heard(self, value: bytes | str) -> None:
        try:
            said = json.loads(value)
            decision = (str(said["id"]), str(said["command"]))
        except (ValueError, KeyError, TypeError) as error:
            # Whoever waits for it asks again: the thread must go on for all others.
            logger.warning("%s: a reply is not understood: %r", self._aggregate.replies, error)
            return
        self._loop.call_soon_threadsafe(self._settle, decision, said)

    def _settle(self, decision: Decision, said: dict[str, Any]) -> None:
        waiting = next((e for e in self._waiting.get(decision, ()) if not e.done()), None)
        if waiting is None:
            return
        if "failed" in said:
            kind = REPLIED.get(str(said.get("error")), DecideFailed)
            waiting.set_exception(kind(said["failed"]))
        else:
            waiting.set_result(answers.from_reply(said))

    async def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        if self._producer is not None:
            await asyncio.to_thread(self._producer.flush, 5)


def _fail(waiting: asyncio.Future[Answer], error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)
