"""Snapshots of a partition's producers: that they can be read, and are of a time that the log has come to.

`partition` makes one `Snapshots` for each partition. A start takes one and reads the log from there on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.remedy import MoveAside
from headwater.broker.inspection.segments import unreadable
from headwater.log import extent
from headwater.log.files import Files
from headwater.log.producers import Producers
from headwater.log.segment import file_name, offset_named

SNAPSHOT = ".snapshot"


class Untouched:
    """Reads as a start does, to which an unreadable file is none, and sets nothing aside."""

    def read_bytes(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except OSError:
            return None


def whole_snapshots(directory: Path) -> list[int]:
    """The offsets of those that are all there."""
    try:
        return extent.snapshots(Files(), Untouched(), directory)
    except OSError:
        return []


@dataclass(slots=True)
class Snapshots:
    """Those of one partition."""

    facts: Facts
    offsets: list[int] = field(default_factory=list)
    """Of those that can be read."""

    def read(self, names: list[str]) -> Iterator[Finding]:
        for name in names:
            if not name.endswith(SNAPSHOT):
                continue
            path = self.facts.place.directory / name
            try:
                found = Producers.from_bytes(path.read_bytes())
            except OSError as error:
                yield unreadable(self.facts, path, error)
                continue
            offset = offset_named(name, SNAPSHOT)
            if found is None or offset is None:
                yield self._finding(
                    name,
                    "snapshot-damaged",
                    "this snapshot of the producers cannot be read",
                    "the next start reads more of the log instead",
                )
                continue
            for producer_id, known in found.by_id.items():
                self.facts.has_producer(producer_id, proven=known.is_proven)
            self.offsets.append(offset)

    def believed(self, is_clean: bool) -> int:
        """Where the one is that a start takes: aborts below it are not looked for again."""
        usable = sorted(self.offsets, reverse=True)
        if not usable:
            return 0
        return usable[0] if is_clean or len(usable) == 1 else usable[1]

    def beyond(self) -> Iterator[Finding]:
        """Snapshots of a time that the log has not come to."""
        end = self.facts.end_offset
        for offset in self.offsets:
            if self.facts.was_read and offset > end:
                yield self._finding(
                    file_name(offset, SNAPSHOT),
                    "snapshot-beyond-end",
                    f"a snapshot of the producers at offset {offset}; the log ends at {end}",
                    "the next start removes it, and reads more of the log instead",
                )

    def _finding(self, name: str, kind: str, what: str, means: str) -> Finding:
        place = self.facts.place
        return Finding(
            kind,
            Severity.NUISANCE,
            place.where(name),
            what,
            means,
            place.topic,
            place.number,
            remedy=MoveAside("put it aside", (place.directory / name,)),
        )
