"""The catalogue as its log tells it: `check` shows it every batch of `__headwater_catalogue-0`.

Unlike the broker's `Catalogue` it remembers what is gone, too: a folder of a topic that was deleted is one
thing, a folder that the catalogue never heard of another.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.broker import producer_ids
from headwater.broker.catalogue import Topic
from headwater.broker.inspection.writer import is_filler
from headwater.broker.security import authorizer, credentials
from headwater.record.batch import BatchHeader
from headwater.record.records import Record

RIGHTS = (authorizer.KIND, credentials.KIND)
Json = Mapping[str, object] | None


@dataclass(slots=True)
class CatalogueView:
    """What the records of the catalogue add up to."""

    topics: dict[str, Topic] = field(default_factory=dict)
    gone: dict[uuid.UUID, str] = field(default_factory=dict)
    """Ids of topics that were deleted."""
    producer_ids_end: int = 0
    newest: dict[str, tuple[int, Json]] = field(default_factory=dict)
    """Offset and value of each key's last record."""
    filled: int = -1
    """The last offset whose record a repair could not bring back, nor tell what it was about."""
    kinds: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Offsets of records that cannot be understood, and why."""
    is_whole: bool = True
    """False while damage, or the disk, hides some of its records."""
    has_holes: bool = False
    """Whether records of it are gone for good: it may have known what it does not name."""

    def visit(self, header: BatchHeader, found: list[Record], _data: memoryview) -> None:
        self.has_holes |= not found and not header.is_control  # as a repair leaves it
        if is_filler(header):
            self.filled = header.last_offset
        for record in found:
            try:
                key = (record.key or b"").decode()
                value = None if record.value is None else json.loads(record.value)
                self._apply(key, value)
                self.newest[key] = (record.offset, value)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.bad.append((record.offset, str(error)))

    def _apply(self, key: str, value: Any) -> None:
        kind, _, name = key.partition("/")
        self.kinds[kind] += 1
        if kind == producer_ids.KEY and value is not None:
            self.producer_ids_end = int(value["next"])
        if kind != "topic":
            return
        known = self.topics.pop(name, None)
        if known is not None:
            self.gone[known.id] = name
        if value is not None:
            count, made = int(value["partitions"]), int(value.get("created_ms", 0))
            topic = Topic(name, uuid.UUID(value["id"]), count, value["configs"], made)
            self.topics[name] = topic
            self.gone.pop(topic.id, None)

    def rights_before(self, offset: int) -> list[str]:
        """Users and permissions that nothing was said of from this offset on."""
        return [
            key
            for key, (at, value) in self.newest.items()
            if value is not None and at < offset and key.partition("/")[0] in RIGHTS
        ]

    def may_be_older(self, topic: str) -> bool:
        """Whether a record that a repair could not bring back may have said more of a topic."""
        return self.newest.get(f"topic/{topic}", (-1, None))[0] < self.filled

    def by_id(self) -> dict[uuid.UUID, Topic]:
        return {topic.id: topic for topic in self.topics.values()}
