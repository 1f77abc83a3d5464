"""Which topics there are, for all who append: asked of the log before a record is handed to a client of it.

librdkafka would create a topic, or wait for one, that is only misspelt. What is there is known for a while,
and what is not for a moment: strangers ask for any name, and each question takes a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from headwater.client.errors import NotThere, RequestRefused
from headwater.client.librdkafka import KafkaError
from headwater.client.log import Log
from headwater.client.publisher import Draft
from headwater.client.topics import configured
from headwater.edges.caller import SENDER
from headwater.edges.workers import Workers
from headwater.errors import HeadwaterError

KNOWN_S, ABSENT_S, LOOKING_S = 5.0, 1.0, 1.0
KNOWN_MAX, ABSENT_MAX = 10_000, 1_000
THREADS, AT_ONCE = 8, 2
_KEYS = "give every record a key: its last one is what a compacted topic keeps"
_ANY_MS = str(2**63 - 1)
_BATCH_BYTES = str(1024**2 + 12)
_SEGMENT_BYTES = str(1024**3)
"""What a topic takes that says nothing else, as Kafka has it."""
_CHECKS = tuple(f"{each}schema.validation" for each in ("", "confluent.value.", "confluent.key."))
"""A broker's check of values, ours and Confluent's."""
GONE_MS = 1_000
"""How long librdkafka waits for a topic to appear: who appends has found it, so it would wait for one that
was deleted since, and others with it."""
_GONE = (
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._DESTROY,  # it went while librdkafka had a record for it in hand
)
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
OF_A_BATCH = (
    *TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,  # librdkafka's: another in its batch is to blame
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.POLICY_VIOLATION,
)
"""What a broker says of a whole batch, though one record of it may be to blame."""
Seen = TypeVar("Seen")


class Topic(NamedTuple):
    until: float
    """When it is looked at again."""
    partitions: tuple[int, ...]
    is_compacted: bool
    timestamp_limits: tuple[int, int] | None
    """How many milliseconds before and after now a record may be dated; None: whatever it is."""
    batch_bytes_max: int
    """Its max.message.bytes, or segment.bytes: of a whole batch, whoever sent the records in it."""
    is_checked: bool
    """Whether the broker looks into values, of which nobody else knows what it will say."""

    def refusal(self, name: str, draft: Draft, now_ms: int) -> RequestRefused | None:
        """Before the broker sees it: it would refuse the records of others in the same batch as well."""
        if self.is_compacted and draft.key is None:
            return no_key(name)
        return None if self.takes_timestamp(draft.timestamp_ms, now_ms) else bad_time(name)

    def takes_timestamp(self, timestamp_ms: int | None, now_ms: int) -> bool:
        """None: now, which every topic takes."""
        if timestamp_ms is None or self.timestamp_limits is None:
            return True
        before, after = self.timestamp_limits
        return now_ms - before <= timestamp_ms <= now_ms + after


class Topics:
    """For one event loop."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._known: dict[str, Topic] = {}
        self.absent: dict[str, tuple[float, NotThere]] = {}
        self._looks: dict[tuple[str, str], asyncio.Task[Topic]] = {}
        """By who asks: nobody waits in the line of another."""
        self._workers = Workers(THREADS, AT_ONCE, "topics")

    async def find(self, name: str) -> Topic:
        """Raises NotThere, BrokerUnreachable, Overloaded."""
        known = self._known.get(name)
        if known is not None:
            if self._clock() < known.until:
                return known
            # While one looks again, the others go on with what was.
            self._known[name] = known._replace(until=self._clock() + LOOKING_S)
        until, absent = self.absent.get(name, (0.0, None))
        if absent is not None and self._clock() < until:
            raise NotThere(absent.sentence, hint=absent.hint)
        # One look for all that one sender asks meanwhile: they go on in the order in which they came.
        kind = (SENDER.get(), name)
        look = self._looks.get(kind)
        if look is None:
            look = self._looks[kind] = asyncio.create_task(self._look(name))
            look.add_done_callback(lambda done: self._looked(kind, done))
        return await asyncio.shield(look)

    def forget(self, name: str) -> None:
        """It was made, or deleted, just now."""
        self._known.pop(name, None)
        self.absent.pop(name, None)

    def close(self) -> None:
        self._workers.close()

    async def _look(self, name: str) -> Topic:
        try:
            described = await self._workers.run(lambda: _described(self._log, name))
        except NotThere as error:
            self.forget(name)
            self.absent[name] = (self._clock() + ABSENT_S, error)
            _bound(self.absent, ABSENT_MAX)
            raise
        found = Topic(self._clock() + KNOWN_S, *described)
        self.forget(name)
        self._known[name] = found
        _bound(self._known, KNOWN_MAX)
        return found

    def _looked(self, kind: tuple[str, str], done: asyncio.Task[Topic]) -> None:
        del self._looks[kind]
        if not done.cancelled():
            done.exception()  # whoever asked may have gone


def _bound(found: dict[str, Seen], most: int) -> None:
    """Those that were seen longest ago go first."""
    while len(found) > most:
        del found[next(iter(found))]


def _described(
    log: Log, name: str
) -> tuple[tuple[int, ...], bool, tuple[int, int] | None, int, bool]:
    numbers, found = tuple(log.partitions(name)), configured(log, name)
    limits = None
    if found.value("message.timestamp.type", "CreateTime") == "CreateTime":
        before, after = (f"message.timestamp.{each}.max.ms" for each in ("before", "after"))
        limits = int(found.value(before, _ANY_MS)), int(found.value(after, _ANY_MS))
    batch_bytes_max = int(found.value("max.message.bytes", _BATCH_BYTES))
    segment_bytes = int(found.value("segment.bytes", _SEGMENT_BYTES))
    is_checked = any(found.value(each, "").lower() == "true" for each in _CHECKS)
    return numbers, found.is_compacted, limits, min(batch_bytes_max, segment_bytes), is_checked


def no_key(topic: str) -> RequestRefused:
    return RequestRefused(f"{topic} is compacted, and a record has no key", hint=_KEYS)


def bad_time(topic: str) -> RequestRefused:
    return RequestRefused(
        f"appending to {topic}: it takes no record of that time (INVALID_TIMESTAMP)",
        hint="see its message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    )


def deleted(log: Log, names: Iterable[str]) -> set[str]:
    """Of topics that were there; blocks. librdkafka asks for them again and again, while others wait."""
    found: set[str] = set()
    for name in names:
        try:
            log.partitions(name)
        except NotThere:
            found.add(name)
        except HeadwaterError:
            break  # nobody says: the broker is away
    return found


def is_gone(error: object) -> bool:
    """Whether librdkafka says that there is no such topic."""
    return isinstance(error, KafkaError) and error.code() in _GONE


def is_anothers(error: KafkaError) -> bool:
    """Whether the blame is on another record of its batch, of which the broker tells as well."""
    return bool(error.code() == KafkaError._INVALID_DIFFERENT_RECORD)


def gone(topic: str) -> NotThere:
    """For one that was there a moment ago."""
    return NotThere(f"there is no topic {topic!r} any more", hint="see headwater topics list")


def too_large(topic: str, limit: int) -> RequestRefused:
    """For a record that was alone in its batch."""
    return RequestRefused(
        f"appending to {topic}: a record is too large, the topic takes {limit} bytes at once "
        "(MSG_SIZE_TOO_LARGE)",
        hint="send less in one record, or raise the topic's max.message.bytes and segment.bytes: "
        "headwater topics alter",
        code=TOO_LARGE[0],
    )
