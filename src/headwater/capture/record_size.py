"""Records that are larger than a topic takes: the topic is given room, up to a bound; called by `writer`.

A row may be as large as its database allows, and a topic takes a megabyte unless it was told otherwise. So a
topic that gets a larger record is altered once, unless the capture's own `topic_config` says how large its
records may be. What is above the bound becomes a dead letter, which keeps the key, the place and the
beginning of the value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from headwater.capture.change import BY_KEY, FullRecord, Position, Record
from headwater.client import dead_letters, settings
from headwater.client.librdkafka import AdminClient
from headwater.record import dead_letter
from headwater.record.dead_letter import Cause

ORDINARY_BYTES = 990_000
"""What every topic takes, with what the log adds."""
RECORD_BYTES_MAX = 64 << 20
OVERHEAD_BYTES = 64 << 10
_LIMIT = "max.message.bytes"
_NOT_PLACES = ("schemas", "tables", "snapshot", "incremental")


def letters_topic(capture: str) -> str:
    """The topic for rows that the log does not take."""
    return dead_letters.beside(capture)


class RecordSizes:
    """How large a record each topic of one capture takes."""

    def __init__(self, admin: AdminClient, bytes_max: int, topic_config: Mapping[str, str]) -> None:
        self._admin = admin
        self._bytes_max = bytes_max
        self._fixed = _LIMIT in topic_config
        self._limits: dict[str, int] = {}
        self.altered = False
        """A cluster may need a moment until all of it knows."""

    def fits(self, topic: str, size: int) -> bool:
        """Whether the topic takes it; it is altered where it may be."""
        needed = size + OVERHEAD_BYTES
        if size > self._bytes_max:
            return False
        if topic not in self._limits:
            self._limits[topic] = int(settings.of_topic(self._admin, topic)[_LIMIT].value or 0)
        if needed > self._limits[topic] and not self._fixed:
            self._limits[topic] = self._bytes_max + OVERHEAD_BYTES
            settings.alter_topic(self._admin, topic, {_LIMIT: str(self._limits[topic])})
            self.altered = True
        return needed <= self._limits[topic]


def size_of(record: Record) -> int:
    return len(record[1] or b"") + len(record[2] or b"")


def place_of(position: Position) -> Position:
    """What a letter says of where its row was."""
    return {name: at for name, at in position.items() if name not in _NOT_PLACES}


def letter(capture: str, record: Record, position: Position) -> tuple[FullRecord, str]:
    """The record that is too large, as a dead letter; and what is to be said of it."""
    topic, key, value = record[:3]
    reason = f"a record of {size_of(record):,} bytes is larger than {topic} takes"
    more = {"position": json.dumps(place_of(position))}
    cause = Cause(f"headwater.capture.{capture}", reason, topic, more=more)
    made = dead_letter.letter(key, value, (), cause)
    letters = letters_topic(capture)
    shown = (key or b"null").decode("utf-8", "replace")[:200]
    sentence = f"{reason}: the row {shown} was set aside in {letters}"
    return (letters, made.key, made.value, made.headers, BY_KEY), sentence
