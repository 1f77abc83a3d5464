"""Commands of other processes, at the owner: in from NAME.commands, out to NAME.replies.

`Application` hands in what arrived; each command is decided like any other, then replied to, and only then
counts as done. What is not done when the owner dies is read again by the next one, which knows by the
command's id what is already decided: a reply may come twice, a decision does not.

Invariant: whoever is told that a command was not decided must be told so only when no owner will read it
again: first it counts as done, that is committed, then comes the reply.

A reply, or a dead letter, that can never be sent counts as sent: one command must not stop the inbox. Whoever
waits for it hears nothing, and is told the outcome when the command is sent again with its id.

Also here: what an owner tells another process of its command: the value of a record of NAME.replies.

`Inbox` writes it, `forwarder` reads it:

    {"id":"alice","command":"…","to":"…","accepted":{…}}     or "refused":{…}, or "failed":"…","error":"Busy"

Invariant: a reply must fit into a record whenever its answer did: a reason is cut before it would not.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headwater.client import dead_letters
from headwater.client.dead_letters import Cause
from headwater.client.librdkafka import FOR_GOOD, KafkaError, KafkaException, Message, Producer
from headwater.client.records import record_of
from headwater.events import answers
from headwater.events.aggregate import Aggregate
from headwater.events.answers import Accepted, Refused
from headwater.events.commands import Asked, CommandCodec, ReplyTo, sender_of
from headwater.events.errors import Busy, Closed, EventsError, replied_name

logger = logging.getLogger("headwater.events")
WAITING_MAX = 20_000
Submit = Callable[[int, Asked, Callable[[Any], None]], None]
_BUSY_S = 0.2
_PARTITIONS_MAX = 1 << 31


@dataclass(slots=True)
class _Entry:
    """A record of the inbox."""

    partition: int
    offset: int
    done: bool = False


class Inbox:
    """Of one application. Everything here happens on the event loop but `delivered`."""

    def __init__(
        self, aggregate: Aggregate[Any], settings: Mapping[str, Any], submit: Submit
    ) -> None:
        self._aggregate = aggregate
        self._codec = CommandCodec(aggregate)
        self._submit = submit
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 1})
        self._open: dict[int, deque[_Entry]] = {}
        """Per partition, in order."""
        self._done: dict[int, int] = {}
        self._unsaid: deque[tuple[_Entry, Callable[[], None]]] = deque()
        """Replies that wait until their commands are committed."""
        self.buried = 0
        """Dead letters, since the start."""

    @property
    def waiting(self) -> int:
        return sum(map(len, list(self._open.values())))

    def arrived(self, messages: list[Message]) -> None:
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            entry = _Entry(partition, offset)
            self._open.setdefault(partition, deque()).append(entry)
            try:
                asked, reply = self._codec.decode(message.value() or b"")
            except EventsError as error:
                self._bury(message, entry, error)
                continue
            self._decide(entry, asked, reply)

    def _bury(self, message: Message, entry: _Entry, error: EventsError) -> None:
        """What is no command goes to the dead letters, with its place and the reason.

        Whoever waits for its answer is told then: a newer process may know commands that we do not.
        """
        buried = self._buried(message, entry, error)
        try:
            self._produce_letter(message, error, buried)
        except BufferError:
            loop = asyncio.get_running_loop()
            loop.call_later(_BUSY_S, self._bury, message, entry, error)
        except Exception as failure:  # a letter is larger than its record, and may be too large
            place = (self._aggregate.inbox, entry.partition, entry.offset)
            logger.error("%s-%d, offset %d: not set aside: %s", *place, error)
            if self._is_lost(failure, self._aggregate.letters):
                buried(None, None)
        else:
            self.buried += 1

    def _produce_letter(
        self, message: Message, error: EventsError, buried: Callable[[KafkaError | None, Any], None]
    ) -> None:
        record = record_of(message)
        place = (self._aggregate.inbox, record.partition, record.offset)
        cause = Cause(self._aggregate.owners, str(error), *place)
        key, value, headers = dead_letters.letter(record.key, record.value, record.headers, cause)
        topic = self._aggregate.letters
        self._producer.produce(topic, value, key, 0, on_delivery=buried, headers=headers)
        self._producer.poll(0)

    def _buried(
        self, message: Message, entry: _Entry, error: EventsError
    ) -> Callable[[KafkaError | None, object], None]:
        sender = sender_of(message.value() or b"")

        def buried(failure: KafkaError | None, _: object) -> None:
            if failure is not None and not self._is_lost(failure, self._aggregate.letters):
                return
            if sender is None:
                entry.done = True
            else:
                self._reply_later(entry, sender.id, sender.command, sender.reply, error)

        return buried

    def _delivered(self, entry: _Entry) -> Callable[[KafkaError | None, object], None]:
        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None or self._is_lost(error, self._aggregate.replies):
                entry.done = True

        return delivered

    def _is_lost(self, error: KafkaError | Exception, topic: str) -> bool:
        """Whether what was not sent never can be. Else its command is not done: the next owner reads it."""
        lost = _is_for_good(error)
        logger.warning("%s: one was not sent%s: %s", topic, ", nor can be" if lost else "", error)
        return lost

    def _decide(self, entry: _Entry, asked: Asked, reply: ReplyTo | None) -> None:
        def answered(outcome: Any) -> None:
            if isinstance(outcome, Closed):
                return  # the next owner reads it again
            if isinstance(outcome, Busy):
                loop = asyncio.get_running_loop()
                loop.call_later(_BUSY_S, self._decide, entry, asked, reply)
            elif reply is None:
                entry.done = True
            elif isinstance(outcome, Accepted | Refused):
                self._reply(entry, asked.id, asked.command_id, reply, outcome)
            else:
                self._reply_later(entry, asked.id, asked.command_id, reply, outcome)

        self._submit(entry.partition, asked, answered)

    def _reply_later(
        self, entry: _Entry, aggregate_id: str, command_id: str, reply: ReplyTo, error: Exception
    ) -> None:
        """It was not decided, and will not be: it is told when that is sure."""
        self._unsaid.append(
            (entry, lambda: self._reply(entry, aggregate_id, command_id, reply, error))
        )
        entry.done = True

    def committed(self, offsets: Mapping[int, int]) -> None:
        """No owner will read again what is before these offsets."""
        for _ in range(len(self._unsaid)):
            entry, say = self._unsaid.popleft()
            if entry.offset < offsets.get(entry.partition, 0):
                say()
            else:
                self._unsaid.append((entry, say))

    def _reply(
        self, entry: _Entry, aggregate_id: str, command_id: str, reply: ReplyTo, outcome: Any
    ) -> None:
        value = encode(aggregate_id, command_id, reply.to, outcome)
        topic, delivered = self._aggregate.replies, self._delivered(entry)
        try:
            if not 0 <= reply.partition < _PARTITIONS_MAX:
                raise ValueError(f"there is no partition {reply.partition}")
            self._producer.produce(topic, value, reply.to, reply.partition, on_delivery=delivered)
            self._producer.poll(0)
        except BufferError:
            loop = asyncio.get_running_loop()
            loop.call_later(_BUSY_S, self._reply, entry, aggregate_id, command_id, reply, outcome)
        except (KafkaException, ValueError) as error:
            if self._is_lost(error, topic):
                entry.done = True

    def forget(self, partitions: list[int]) -> None:
        """These are another process's now."""
        for each in partitions:
            self._open.pop(each, None)
            self._done.pop(each, None)
        self._unsaid = deque(each for each in self._unsaid if each[0].partition not in partitions)

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)

    def done(self) -> dict[int, int]:
        """Partition → the first offset that is not done. Called from the membership's thread."""
        self._producer.poll(0)
        for partition, entries in list(self._open.items()):
            while entries and entries[0].done:
                self._done[partition] = entries.popleft().offset + 1
        return dict(self._done)


def _is_for_good(error: KafkaError | Exception) -> bool:
    """Whether the same record would be told so again, however often it is sent."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    return error.code() in FOR_GOOD if isinstance(error, KafkaError) else True


BYTES_MAX = 900_000
"""Brokers take records of a megabyte by default."""
REASON_MAX = 100_000
"""Characters that are left of a reason that is too long; each is six bytes at most."""


def encode(
    aggregate_id: str, command_id: str, to: str, outcome: Accepted | Refused | Exception
) -> bytes:
    whose = {"id": aggregate_id, "command": command_id, "to": to}
    value = _encode(whose, outcome)
    return value if len(value) <= BYTES_MAX else _encode(whose, outcome, REASON_MAX)


def _encode(
    whose: Mapping[str, str],
    outcome: Accepted | Refused | Exception,
    reason_max: int | None = None,
) -> bytes:
    said: dict[str, Any]
    if isinstance(outcome, Accepted):
        said = answers.to_reply(outcome)
    elif isinstance(outcome, Refused):
        reason = outcome.reason[:reason_max]
        said = answers.to_reply(msgspec.structs.replace(outcome, reason=reason))
    else:
        said = {"failed": str(outcome)[:reason_max], "error": replied_name(outcome)}
    # Half of a surrogate pair, which is no UTF-8, becomes what JSON writes for it.
    return json.dumps({**whose, **said}, ensure_ascii=False).encode(errors="backslashreplace")
