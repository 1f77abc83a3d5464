"""One dead letter: a record as it was, with headers that say where it came from and why it is here.

Works on headwater's topics and on Apache Kafka's. The headers are listed in docs/queues.md; a record
without them is no dead letter, and is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

PREFIX, SUFFIX = "dlq.", ".dead-letters"
"""A share group's topic, and that of a Spark query or a view."""
HEADER = "__dlq.errors."


@dataclass(frozen=True)
class Letter:
    """Where it lies, where it came from, and why; `key`, `value` and `headers` are the record's own."""

    partition: int
    offset: int
    timestamp_ms: int
    source: str
    source_partition: int
    source_offset: int
    group: str
    deliveries: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    said: Mapping[str, str] = field(default_factory=dict)
    """Whatever else was noted: the refused row, the batch, the view's position."""

    @property
    def has_source(self) -> bool:
        """False for a row that came from no single record (an aggregate)."""
        return bool(self.source) and self.source_partition >= 0


def is_dead_letters(topic: str) -> bool:
    return topic.startswith(PREFIX) or topic.endswith(SUFFIX)


def letter_of(message: Message) -> Letter | None:
    """None for a record that is no dead letter."""
    headers: list[tuple[str, Any]] = list(message.headers() or [])  # type: ignore[arg-type]
    said = {
        name.removeprefix(HEADER): value.decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(HEADER) and value is not None
    }
    try:
        return Letter(
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            said.pop("topic"),
            int(said.pop("partition")),
            int(said.pop("offset")),
            said.pop("group"),
            int(said.pop("delivery.count", "0")),
            said.pop("message", ""),
            message.key(),
            message.value(),
            [(name, value) for name, value in headers if not name.startswith(HEADER)],
            said,
        )
    except (KeyError, ValueError):
        return None
