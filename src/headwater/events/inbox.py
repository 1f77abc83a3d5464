"""Commands of other processes, at the owner: in from NAME.commands, out to NAME.replies.

`Application` hands in what arrived; each command is decided like any other, then replied to, and only then
counts as done. What is not done when the owner dies is read again by the next one, which knows by the
command's id what is already decided: a reply may come twice, a decision does not.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from headwater.events import answers
from headwater.events.aggregate import Aggregate
from headwater.events.answers import Accepted, Refused
from headwater.events.commands import Asked, CommandCodec, ReplyTo, sender_of
from headwater.events.errors import Closed, EventsError
from headwater.views.deadletters import HEADER

logger = logging.getLogger("headwater.events")
WAITING_MAX = 20_000
Submit = Callable[[int, Asked, Callable[[Any], None]], None]


class Inbox:
    """Of one application. Everything here happens on the event loop but `delivered`."""

    def __init__(
        self, aggregate: Aggregate[Any], settings: Mapping[str, Any], submit: Submit
    ) -> None:
        self._aggregate = aggregate
        self._codec = CommandCodec(aggregate)
        self._submit = submit
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 1})
        self._open: dict[int, deque[list[Any]]] = {}
        """Per partition: [offset, done], in order."""
        self._done: dict[int, int] = {}

    @property
    def waiting(self) -> int:
        return sum(map(len, list(self._open.values())))

    def arrived(self, messages: list[Message]) -> None:
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            entry = [offset, False]
            self._open.setdefault(partition, deque()).append(entry)
            try:
                asked, reply = self._codec.decode(message.value() or b"")
            except EventsError as error:
                self._bury(message, entry, error)
                continue
            self._submit(partition, asked, self._answer(entry, asked, reply))

    def _bury(self, message: Message, entry: list[Any], error: EventsError) -> None:
        """What is no command goes to the dead letters, with its place and the reason.

        Whoever waits for its answer is told then: a newer process may know commands that we do not.
        """
        said = {
            "topic": self._aggregate.inbox,
            "partition": str(message.partition()),
            "offset": str(message.offset()),
            "group": self._aggregate.owners,
            "message": str(error),
        }
        headers = [(f"{HEADER}{name}", value.encode()) for name, value in said.items()]
        self._producer.produce(
            self._aggregate.letters,
            message.value(),
            message.key(),
            0,
            on_delivery=self._buried(message, entry, error),
            headers=[*headers, *(message.headers() or [])],
        )
        self._producer.poll(0)

    def _buried(
        self, message: Message, entry: list[Any], error: EventsError
    ) -> Callable[[KafkaError | None, object], None]:
        sender = sender_of(message.value() or b"")
        delivered = self._delivered(entry)
        if sender is None:
            return delivered

        def then_told(failure: KafkaError | None, letter: object) -> None:
            if failure is not None:
                delivered(failure, letter)
            else:
                self._reply(entry, sender.id, sender.command, sender.reply, error)

        return then_told

    def _delivered(self, entry: list[Any]) -> Callable[[KafkaError | None, object], None]:
        def delivered(error: KafkaError | None, _: object) -> None:
            # Not done, then: the next owner of the partition reads it again.
            if error is not None:
                logger.warning("%s: a reply was not sent: %s", self._aggregate.replies, error)
            else:
                entry[1] = True

        return delivered

    def _answer(
        self, entry: list[Any], asked: Asked, reply: ReplyTo | None
    ) -> Callable[[Any], None]:
        def answered(outcome: Any) -> None:
            if isinstance(outcome, Closed):
                return  # the next owner reads it again
            if reply is None:
                entry[1] = True
            else:
                self._reply(entry, asked.id, asked.command_id, reply, outcome)

        return answered

    def _reply(
        self, entry: list[Any], aggregate_id: str, command_id: str, reply: ReplyTo, outcome: Any
    ) -> None:
        if isinstance(outcome, Accepted | Refused):
            said = answers.to_reply(outcome)
        else:
            said = {"failed": str(outcome), "error": type(outcome).__name__}
        value = json.dumps({"id": aggregate_id, "command": command_id, "to": reply.to, **said})
        self._producer.produce(
            self._aggregate.replies,
            value,
            reply.to,
            reply.partition,
            on_delivery=self._delivered(entry),
        )
        self._producer.poll(0)

    def forget(self, partitions: list[int]) -> None:
        """These are another process's now."""
        for each in partitions:
            self._open.pop(each, None)
            self._done.pop(each, None)

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)

    def done(self) -> dict[int, int]:
        """Partition → the first offset that is not done. Called from the membership's thread."""
        self._producer.poll(0)
        for partition, entries in list(self._open.items()):
            while entries and entries[0][1]:
                self._done[partition] = entries.popleft()[0] + 1
        return dict(self._done)
