"""How far something is in the log: topic → partition → the next offset, the first one not yet in it.

A view has one, a producer's answer has one, and "has this view seen my write" compares the two.
Written as `orders:0=17,orders:1=4` on command lines and in headers, as JSON in stores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError


class NotAPosition(HeadwaterError):
    """A text that says no position."""


@dataclass(frozen=True)
class Position:
    """Next offsets; what is not named has not been begun."""

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def covers(self, other: Position) -> bool:
        """Whether all that is before `other` is before this one too."""
        return all(
            self.offset(topic, partition) >= offset
            for topic, partitions in other.offsets.items()
            for partition, offset in partitions.items()
        )

    def offset(self, topic: str, partition: int) -> int:
        return self.offsets.get(topic, {}).get(partition, 0)

    def behind(self, end: Position) -> int:
        """Records between this and `end`, in the topics of `end`."""
        return sum(
            max(0, offset - self.offset(topic, partition))
            for topic, partitions in end.offsets.items()
            for partition, offset in partitions.items()
        )

    def __str__(self) -> str:
        return ",".join(
            f"{topic}:{partition}={offset}"
            for topic, partitions in sorted(self.offsets.items())
            for partition, offset in sorted(partitions.items())
        )

    def to_json(self) -> str:
        plain = {t: {str(p): o for p, o in sorted(ps.items())} for t, ps in self.offsets.items()}
        return json.dumps(plain, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Position:
        read = json.loads(text)
        return cls({t: {int(p): int(o) for p, o in ps.items()} for t, ps in read.items()})

    @classmethod
    def parse(cls, text: str) -> Position:
        """From `TOPIC:PARTITION=NEXT,…`."""
        offsets: dict[str, dict[int, int]] = {}
        try:
            for part in text.split(","):
                place, offset = part.strip().rsplit("=", 1)
                topic, partition = place.rsplit(":", 1)
                if not topic or int(partition) < 0 or int(offset) < 0:
                    raise ValueError(part)
                offsets.setdefault(topic, {})[int(partition)] = int(offset)
        except ValueError:
            raise NotAPosition(
                f"{text!r} is no position", hint="write TOPIC:PARTITION=NEXT, as in orders:0=17"
            ) from None
        return cls(offsets)
