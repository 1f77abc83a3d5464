"""What a bridge brought in, into the log: each message to its topic, however long that takes.

Called by `runner`. A log that is away or overloaded is waited for, with the messages in hand: ending
the bridge instead would lose those of a source that does not send again. Where an outcome is not known, the
messages from the first such one on are appended again, in order. One that the log refuses for itself (too
large, no key in a compacted topic, not as the topic's schema has it) goes to the dead letters.

Also here: dead letters of bridges: what came and cannot be stored, what cannot be sent.

    in    TOPIC.dead-letters                       the message, where TOPIC is the bridge's topic
    out   headwater.bridge.NAME.dead-letters       the record

The form is that of all dead letters (`record.dead_letter`): `headwater deadletters` shows them, and can
send those of a bridge out again. A message that came in has no place in the log: partition and offset are -1.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headwater.client import dead_letters
from headwater.client.dead_letters import Cause
from headwater.client.errors import BrokerUnreachable, RequestRefused
from headwater.client.publisher import Draft
from headwater.edges import counts
from headwater.edges.bridges.config import Config
from headwater.edges.bridges.contract import Message, Refusal
from headwater.edges.errors import Invalid, Overloaded
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.edges.context import Context


FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0
_CODE = re.compile(r"\((\w+)\)$")
_OF_THE_RECORD = {
    "MSG_SIZE_TOO_LARGE",
    "INVALID_MSG_SIZE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
}
PLAIN_MIN = 8
PLAIN_BYTES_MAX = 16 * 1024
Check = Callable[[bytes | None], str | None]
"""Of a value: what is wrong with it."""


class Storing:
    """For one bridge. `records` and `dead` are counts since the edges were started."""

    def __init__(self, context: Context, config: Config, check: Check | None = None) -> None:
        self._context, self._config, self._check = context, config, check
        self._ensured: set[str] = set()
        self.records = 0
        self.dead = 0
        self.repeated = 0
        self.waits_for: str | None = None

    async def store(self, messages: Sequence[Message]) -> None:
        """On disk when this returns. Raises NotThere, and whatever else waiting does not mend."""
        good: dict[str, list[Message]] = {}
        bad: list[tuple[Message, str]] = []
        for message in messages:
            reason = message.refused
            if reason is None and not message.beside and self._check is not None:
                reason = self._check(message.value)
            if reason is None:
                good.setdefault(message.beside, []).append(message)
            else:
                bad.append((message, reason))
        for beside, some in good.items():
            bad += await self._store(beside, some)
        if bad:
            await self._bury(bad)

    async def _store(self, beside: str, messages: Sequence[Message]) -> list[tuple[Message, str]]:
        """Those that were refused, and why."""
        topic = self._config.topic + beside
        if beside:
            await self._ensure(topic)
        refused: list[tuple[Message, str]] = []
        wait_s = FIRST_WAIT_S
        while messages:
            outcomes = await self._appended(topic, messages)
            again = [number for number, each in enumerate(outcomes) if _passes(each)]
            done = again[0] if again else len(messages)
            self._count(topic, messages, outcomes, done)
            refused += [
                (message, str(outcome))
                for message, outcome in zip(messages[:done], outcomes, strict=False)
                if isinstance(outcome, RequestRefused | Invalid)
            ]
            if again:
                wait_s = await self._wait(outcomes[done], wait_s)
            messages = messages[done:]
        self.waits_for = None
        return refused

    async def _wait(self, error: HeadwaterError | None, wait_s: float) -> float:
        self.waits_for = str(error)
        await asyncio.sleep(error.retry_after if isinstance(error, Overloaded) else wait_s)
        return min(LONGEST_WAIT_S, wait_s * 2)

    async def _appended(
        self, topic: str, messages: Sequence[Message], *, once: bool = True
    ) -> list[HeadwaterError | None]:
        """For each its error, if any; one that is not about the message is raised."""
        if once and self._config.is_once and topic == self._config.topic:
            return await self._appended_once(topic, messages)
        appender = self._context.appender
        try:
            known = await appender.topics.find(topic)
            bytes_max = 0 if known.is_checked else min(PLAIN_BYTES_MAX, known.batch_bytes_max // 2)
            if _is_plain(messages, bytes_max):
                values = [message.value or b"" for message in messages]
                await appender.append_values(topic, values, [each.key for each in messages])
                return [None] * len(messages)
            stored = await appender.append_each(topic, [_draft(each) for each in messages])
            outcomes = [each if isinstance(each, HeadwaterError) else None for each in stored]
        except (BrokerUnreachable, Overloaded) as error:
            return [error] * len(messages)
        except RequestRefused as error:
            outcomes = [error] * len(messages)
        return await self._without_the_innocent(topic, messages, outcomes)

    async def _without_the_innocent(
        self, topic: str, messages: Sequence[Message], outcomes: list[HeadwaterError | None]
    ) -> list[HeadwaterError | None]:
        """A broker refuses batches: halve those that were refused, until the one to blame is alone."""
        refused = [
            number for number, each in enumerate(outcomes) if isinstance(each, RequestRefused)
        ]
        for number in refused:
            _check_blame(outcomes[number])
        if len(refused) < 2:
            return outcomes
        half = len(refused) // 2
        for numbers in (refused[:half], refused[half:]):
            again = await self._appended(topic, [messages[number] for number in numbers])
            for number, outcome in zip(numbers, again, strict=True):
                outcomes[number] = outcome
        return outcomes

    async def _appended_once(
        self, topic: str, messages: Sequence[Message]
    ) -> list[HeadwaterError | None]:
        async def one(message: Message) -> HeadwaterError | None:
            if message.id is None:
                return (await self._appended(topic, [message], once=False))[0]
            key = f"bridge {self._config.name}|{message.id}"
            try:
                appended = await self._context.once.append(topic, key, [_draft(message)])
            except (RequestRefused, Invalid, BrokerUnreachable, Overloaded) as error:
                return error
            self.repeated += not appended.is_new
            return None

        return await asyncio.gather(*map(one, messages))

    async def _bury(self, bad: Sequence[tuple[Message, str]]) -> None:
        topic = topic_of(self._config)
        await self.keep(topic, [of_message(self._config, message, why) for message, why in bad])

    async def keep(self, topic: str, drafts: Sequence[Draft]) -> None:
        """Dead letters; there when this returns."""
        await self._ensure(topic)
        wait_s = FIRST_WAIT_S
        while True:
            try:
                await self._context.appender.append(topic, drafts)
                break
            except (BrokerUnreachable, Overloaded) as error:
                wait_s = await self._wait(error, wait_s)
        self.waits_for = None
        self.dead += len(drafts)
        counts.dead(self._config.way, topic, len(drafts))

    async def _ensure(self, topic: str) -> None:
        wait_s = FIRST_WAIT_S
        while topic not in self._ensured:
            try:
                await asyncio.to_thread(dead_letters.ensure, self._context.log, topic)
                self._ensured.add(topic)
            except BrokerUnreachable as error:
                wait_s = await self._wait(error, wait_s)

    def _count(
        self,
        topic: str,
        messages: Sequence[Message],
        outcomes: Sequence[HeadwaterError | None],
        done: int,
    ) -> None:
        stored = [
            len(message.value or b"")
            for message, error in zip(messages[:done], outcomes, strict=False)
            if error is None
        ]
        self.records += len(stored)
        counts.arrived(self._config.way, topic, len(stored), sum(stored))


def _passes(error: HeadwaterError | None) -> bool:
    """Whether waiting mends it."""
    return isinstance(error, BrokerUnreachable | Overloaded)


def _check_blame(error: HeadwaterError | None) -> None:
    """Raises one that says nothing about the record: a right that is missing is mended elsewhere."""
    code = _CODE.search(str(error))
    if error is not None and code is not None and code[1] not in _OF_THE_RECORD:
        raise error


def _is_plain(messages: Sequence[Message], bytes_max: int) -> bool:
    """Many small values and nothing else, as devices send them: one call for all of them. Where one may be
    refused, each is to have an outcome of its own: else all would have to be sent again."""
    return len(messages) >= PLAIN_MIN and not any(
        message.headers
        or message.timestamp_ms is not None
        or message.value is None
        or len(message.value) + len(message.key or b"") > bytes_max
        for message in messages
    )


def _draft(message: Message) -> Draft:
    return Draft(message.key, message.value, message.headers, timestamp_ms=message.timestamp_ms)


def topic_of(config: Config) -> str:
    return dead_letters.beside(config.topic if config.is_inbound else config.group)


def of_message(config: Config, message: Message, reason: str) -> Draft:
    cause = Cause(config.group, reason, config.topic)
    return dead_letters.draft(message.key, message.value, message.headers, cause)


def of_refusal(config: Config, refusal: Refusal) -> Draft:
    record = refusal.record
    cause = Cause(config.group, refusal.reason, record.topic, record.partition, record.offset)
    return dead_letters.draft(record.key, record.value, record.headers, cause)
