"""The position of a stream, as Spark keeps it in the checkpoint: JSON that is readable by others, too.

    {"orders": {"0": 1200, "1": 900},                       next offset to read, per partition
     "#": {"ids":    {"orders": "4b1c…"},                   which topic of that name it is
           "new":    {"orders": {"1": 0}},                  where partitions begin that are new in it
           "pieces": {"orders": {"0": 3}}}}                 tasks per partition, where not one

No topic can be called "#". A batch is planned from the positions at its two ends and from nothing else,
so a batch that comes again after a crash has the same tasks with the same ranges, whatever has changed
meanwhile: the number of cores, the options, the number of partitions. The sink's exactly-once relies on it.

`offsets` is for everybody who wants to know how far a query has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.client.constants import TopicPartition

NOTES = "#"


@dataclass(frozen=True)
class Position:
    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    new: Mapping[TopicPartition, int] = field(default_factory=dict)
    pieces: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        notes = {
            "ids": dict(sorted(self.ids.items())),
            "new": _nested(self.new),
            "pieces": _nested(self.pieces),
        }
        return _nested(self.offsets) | {
            NOTES: {key: value for key, value in notes.items() if value}
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Position:
        notes = found.get(NOTES, {})
        return cls(
            offsets(found),
            notes.get("ids", {}),
            _flat(notes.get("new", {})),
            _flat(notes.get("pieces", {})),
        )


def offsets(found: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The next offset of each partition, from a position's JSON."""
    return _flat({topic: each for topic, each in found.items() if topic != NOTES})


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        (topic, int(partition)): value
        for topic, partitions in nested.items()
        for partition, value in partitions.items()
    }


def _nested(flat: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (topic, partition), value in sorted(flat.items()):
        found.setdefault(topic, {})[str(partition)] = value
    return found
