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

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from headwater.events import topics
from headwater.views.deadletters import HEADER

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
        self._producer: Producer | None = None

    def ensure(self) -> None:
        """Make the topics where they are missing."""
        topics.ensure_letters(AdminClient(self._settings), self._source, self.topic, self.retry)

    def put(self, message: Message, why: str) -> None:
        """On disk when this returns. Raises KafkaException."""
        if self._producer is None:
            self._producer = Producer({**self._settings, "enable.idempotence": True})
        place = place_of(message)
        _, partition, offset = place.text.rsplit("/", 2)
        said = {
            "topic": self.retry,
            "partition": partition,
            "offset": offset,
            "group": self._group,
            "message": why,
        }
        own = [each for each in _headers(message) if each[0] != _WHICH]
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error)

        self._producer.produce(
            self.topic,
            message.value(),
            message.key(),
            0,
            on_delivery=delivered,
            headers=[
                *((f"{HEADER}{name}", value.encode()) for name, value in said.items()),
                (_WHICH, f"{place.text}@{place.ms}".encode()),
                *own,
            ],
        )
        if self._producer.flush(_TIMEOUT_S) or failed:
            raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))


def _headers(message: Message) -> list[tuple[str, str | bytes | None]]:
    return list(message.headers() or [])  # type: ignore[arg-type]


def _text(value: str | bytes | None) -> str:
    return value if isinstance(value, str) else (value or b"").decode("utf-8", "replace")
