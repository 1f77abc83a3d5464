"""What a capture sets aside: rows that the log does not take, and rows of an outbox that are no events.

Called by `outbox` and `compacted_topics`; `writer` writes them with the rest of their batch, and asks here
which records are too large. A row may be as large as its database allows, and a topic takes a megabyte unless
it was told otherwise. So a topic that gets a larger record is altered once, unless the capture's own
`topic_config` says how large its records may be. What is above the bound becomes a dead letter, with the
beginning of its value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from headwater.capture.change import BY_KEY, FullRecord, Headers, Position, Record
from headwater.client import dead_letters, settings
from headwater.client.dead_letters import Cause
from headwater.client.librdkafka import AdminClient

ORDINARY_BYTES = 990_000
"""What every topic takes, with what the log adds."""
RECORD_BYTES_MAX = 64 << 20
OVERHEAD_BYTES = 64 << 10
_LIMIT = "max.message.bytes"

_NOT_PLACES = ("schemas", "tables", "snapshot", "incremental")


def topic_of(capture: str, of_outbox: bool = False) -> str:
    return dead_letters.beside(f"{capture}.outbox" if of_outbox else capture)


def dead(
    capture: str,
    record: tuple[str, bytes | None, bytes | None, Headers],
    reason: str,
    position: Position | None = None,
) -> FullRecord:
    """`record`: the topic that it was for, or its table; of an outbox where there is no `position`.

    It has no place in the log: the position says where the row was.
    """
    where, key, value, headers = record
    places = {name: at for name, at in (position or {}).items() if name not in _NOT_PLACES}
    more = {} if position is None else {"position": json.dumps(places)}
    own = [(name, text.encode() if isinstance(text, str) else text) for name, text in headers]
    cause = Cause(f"headwater.capture.{capture}", reason, where, more=more)
    letter = dead_letters.letter(key, value, own, cause)
    topic = topic_of(capture, of_outbox=position is None)
    return topic, letter.key, letter.value, letter.headers, BY_KEY


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


def too_large(capture: str, record: Record, position: Position) -> tuple[FullRecord, str]:
    """The record that is too large, as a dead letter; and what is to be said of it."""
    topic, key, value = record[:3]
    reason = f"a record of {size_of(record):,} bytes is larger than {topic} takes"
    made = dead(capture, (topic, key, value, []), reason, position)
    shown = (key or b"null").decode("utf-8", "replace")[:200]
    return made, f"{reason}: the row {shown} was set aside in {made[0]}"
