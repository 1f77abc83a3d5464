"""Events that a saga could not handle: kept as dead letters, to be sent back to that saga, and to it alone.

    dlq.SOURCE.saga.NAME        the letters; `headwater deadletters list` and `replay`
    SOURCE.saga.NAME.retry      where `replay` sends them; the saga reads it beside the events

Nobody but owners may write events, so a letter names the retry topic as the place to which it goes back. A
header says which event it was; the ids of the commands that follow from it stay the same, so that what the
saga had done already is not done again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.client import dead_letters
from headwater.client.cluster import Cluster
from headwater.client.dead_letters import Cause
from headwater.client.librdkafka import Message
from headwater.client.options import cluster_settings
from headwater.client.publisher import Publisher
from headwater.events import topics

_WHICH = "headwater.event"
_TIMEOUT_S = 30.0
_PLACE = re.compile(r"(?P<place>.+)@(?P<ms>\d+)")


class Place(NamedTuple):
    """Where an event lies, TOPIC/PARTITION/OFFSET, and its time."""

    text: str
    ms: int


def place_of(message: Message) -> Place:
    """Of the event, also where a letter was sent back."""
    for name, value in _headers(message):
        if name == _WHICH and (found := _PLACE.fullmatch(_text(value))):
            return Place(found["place"], int(found["ms"]))
    text = f"{message.topic()}/{message.partition()}/{message.offset()}"
    return Place(text, message.timestamp()[1])


class Letters:
    """Of one saga. Blocking; for threads."""

    def __init__(self, source: str, saga: str, group: str, settings: Mapping[str, Any]) -> None:
        named = re.sub(r"[^A-Za-z0-9._-]", "-", saga)
        self.topic = f"dlq.{source}.saga.{named}"
        self.retry = f"{source}.saga.{named}.retry"
        self._source, self._group = source, group
        self._settings = dict(settings)
        self._publisher: Publisher | None = None

    def ensure(self) -> None:
        """Make the topics where they are missing."""
        cluster = Cluster(cluster_settings(self._settings, _TIMEOUT_S))
        try:
            topics.ensure_letters(cluster, self._source, self.topic, self.retry)
        finally:
            cluster.close()

    def put(self, message: Message, why: str) -> None:
        """On disk when this returns. Raises ClientError."""
        if self._publisher is None:
            self._publisher = Publisher(self._settings, _TIMEOUT_S)
        place = place_of(message)
        _, partition, offset = place.text.rsplit("/", 2)
        cause = Cause(self._group, why, self.retry, int(partition), int(offset))
        own = [
            (n, v.encode() if isinstance(v, str) else v)
            for n, v in _headers(message)
            if n != _WHICH
        ]
        own.append((_WHICH, f"{place.text}@{place.ms}".encode()))
        letter = dead_letters.draft(message.key(), message.value(), own, cause, partition=0)
        self._publisher.put(self.topic, letter)


def _headers(message: Message) -> list[tuple[str, str | bytes | None]]:
    return list(message.headers() or [])  # type: ignore[arg-type]


def _text(value: str | bytes | None) -> str:
    return value if isinstance(value, str) else (value or b"").decode("utf-8", "replace")
