"""What may become of a topic, and what is said where it may not: for `topics` and those who ask it.

And who works on a topic of which name (`Reservations`): others wait for the name, and not for the
whole catalogue. A topic may have thousands of folders, and making or removing them takes the disk as long
as it takes; so `topics` holds the catalogue's lock only to look, and to write what it says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.catalogue import Topic
from headwater.log.partition import StorageFailed

T = TypeVar("T")

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PARTITIONS_MAX = 10_000
"""Of one topic. Each has a folder and open files; more is a mistake on one machine."""


class TopicError(Exception):
    """A topic operation that is refused, with the protocol's code."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code

    @property
    def row(self) -> dict[str, object]:
        """What the answer says of the topic."""
        return {"error_code": self.code, "error_message": str(self)}


Admission = Callable[[Topic], None]
"""Looks at a topic in the turn in which it is changed, when nobody else can change it any more: raises
TopicError. What was seen before that may be of another topic."""


def anything(topic: Topic) -> None:
    """For those who know."""


def unknown_topic(why: str = "This server does not host this topic-partition.") -> TopicError:
    return TopicError(ErrorCode.unknown_topic_or_partition, why)


def check_name(name: str) -> None:
    """Raise TopicError unless a topic may be called this."""
    if name in ("", ".", ".."):
        raise TopicError(ErrorCode.invalid_topic_exception, f"{name!r} is not a topic name")
    if not _NAME.fullmatch(name):
        raise TopicError(
            ErrorCode.invalid_topic_exception,
            f"Topic name is invalid: {name[:300]!r} is not made of at most 249 ASCII letters, "
            f"digits, '.', '_' and '-'",
        )


def clashing(name: str, names: Iterable[str]) -> str | None:
    """Kafka treats '.' and '_' as one letter here, because its metric names do."""
    if "." not in name and "_" not in name:
        return None
    same = name.replace(".", "_")
    return next((each for each in names if each != name and each.replace(".", "_") == same), None)


@contextmanager
def storage_errors() -> Iterator[None]:
    try:
        yield
    except (StorageFailed, OSError) as error:
        raise TopicError(
            ErrorCode.kafka_storage_error, f"the disk refused the change: {error}"
        ) from error


class Reservations:
    """Names of topics that are being made, grown or removed."""

    def __init__(self, lock: asyncio.Lock) -> None:
        """`lock`: held by whoever changes the catalogue."""
        self._lock = lock
        self._done: dict[str, asyncio.Event] = {}
        self.new: set[str] = set()
        """Those of them of which there is no record yet."""

    def __contains__(self, name: str) -> bool:
        return name in self._done

    async def over(self, name: str) -> None:
        """Wait for whoever has it: that may fail, so only then is it known whether there is a topic."""
        while name in self._done:
            await self._done[name].wait()

    async def begin(self, name: str, look: Callable[[], T]) -> T:
        """What `look` says as soon as nobody has the name; from then on others wait, until `held` is left.
        If it raises, nobody has it."""
        while True:
            await self.over(name)  # not in the lock, which that needs
            async with self._lock:
                if name not in self._done:
                    found = look()
                    self._done[name] = asyncio.Event()
                    return found

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """To be entered in the turn in which it was begun."""
        try:
            yield
        finally:
            self.new.discard(name)
            self._done.pop(name).set()
