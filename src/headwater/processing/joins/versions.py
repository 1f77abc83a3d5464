"""The versions of a table's rows, and which of them an event sees. Pure: no Spark, no clock.

Called by `tables`, once per group of keys and batch. A change has two times: from when on its row is valid,
and when the log got it (its record's timestamp). With a lateness L, an event of time t sees, of its key,

    the change with the latest valid time, among those that are valid by t and were recorded by t + L.

Whoever asks later, and however the records came in batches, that is the same change: it depends on nothing
but the records. So a change is *visible* to events from max(valid, recorded - L) on, and of those visible
the one of the highest rank counts, where rank is (valid, recorded, partition, offset).

    time        ──1────2────3────4────5──▶
    change a      ├───────────────────────   valid 1, told at once
    change b                ├─────────────   valid 3, told at once
    change c                     ├┄┄┄┄┄┄┄┄   valid 2, but told at 4 + L: b outranks it, nobody sees it

Invariant: the kept versions of a key must be in the order of both visible time and rank, each of a higher
rank than the one before. One that is outranked when it becomes visible is never seen, and so not kept.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Rank = tuple[int, int, int, int]
EVER = -(2**62)
"""A valid time for what has always been so, in microseconds."""
NEVER = 2**62


class Version(NamedTuple):
    visible: int
    rank: Rank
    row: str | None
    """None: from then on there is no row."""


class Change(NamedTuple):
    key: str
    valid: int
    recorded: int
    partition: int
    offset: int
    row: str | None

    def version(self, lateness: int) -> Version:
        rank = (self.valid, self.recorded, self.partition, self.offset)
        return Version(max(self.valid, self.recorded - lateness), rank, self.row)


class Event(NamedTuple):
    time: int
    key: str | None
    """None: a null, which is equal to nothing."""
    row: str


Joined = tuple[str, str | None, int]
"""An event's row, the table's row that it sees, and the event's time."""


def place(versions: list[Version], new: Version) -> None:
    """Put a version where it belongs, unless nobody will ever see it."""
    at = bisect_right(versions, new.visible, key=_visible)
    if at and versions[at - 1].rank >= new.rank:
        return  # outranked from the beginning; or the same record once more
    end = at
    while end < len(versions) and versions[end].rank < new.rank:
        end += 1
    versions[at:end] = [new]


def seen(versions: list[Version], time: int) -> str | None:
    """The row that an event of this time sees."""
    at = bisect_right(versions, time, key=_visible)
    return versions[at - 1].row if at else None


def settle(versions: list[Version], time: int, forget: int) -> None:
    """Let go of what no event after `time` can see; of a deletion once it is older than `forget`."""
    at = bisect_right(versions, time, key=_visible)
    if at > 1:
        del versions[: at - 1]
    if at and versions[0].row is None and versions[0].visible + forget <= time:
        del versions[0]


def _visible(version: Version) -> int:
    return version.visible


@dataclass
class Group:
    """The state of some keys: their versions, and the events that still wait."""

    versions: dict[str, list[Version]] = field(default_factory=dict)
    waiting: list[Event] = field(default_factory=list)
    newest: int = EVER
    """The latest time of an event so far."""
    alarm_ms: int | None = None
    """When this group asked to be called again, at the latest."""

    def take(self, changes: Iterable[Change], events: Iterable[Event], lateness: int) -> None:
        for change in changes:
            place(self.versions.setdefault(change.key, []), change.version(lateness))
        for each in events:
            self.waiting.append(each)
            self.newest = max(self.newest, each.time)

    def decide(self, until: int) -> list[Joined]:
        """The events up to a time, each with the row that it sees; they wait no longer."""
        due = [each for each in self.waiting if each.time <= until]
        if not due:
            return []
        self.waiting = [each for each in self.waiting if each.time > until]
        due.sort(key=lambda each: each.time)
        none: list[Version] = []
        known = self.versions
        return [
            (
                each.row,
                seen(known.get(each.key, none), each.time) if each.key is not None else None,
                each.time,
            )
            for each in due
        ]

    def settle(self, time: int, forget: int) -> None:
        """Let go of what no event after `time` needs."""
        for key in list(self.versions):
            versions = self.versions[key]
            if len(versions) > 1 or versions[0].row is None:
                settle(versions, time, forget)
                if not versions:
                    del self.versions[key]

    @property
    def next_time(self) -> int | None:
        return min((each.time for each in self.waiting), default=None)

    def to_bytes(self) -> bytes:
        """As it is kept between two batches: plain tuples, which load fastest."""
        versions = {key: [tuple(v) for v in kept] for key, kept in self.versions.items()}
        waiting = [tuple(each) for each in self.waiting]
        plain = (1, versions, waiting, self.newest, self.alarm_ms)
        return pickle.dumps(plain, protocol=5)

    @classmethod
    def from_bytes(cls, data: bytes) -> Group:
        form, versions, waiting, newest, alarm_ms = pickle.loads(data)
        if form != 1:
            raise ValueError(f"state of form {form}, which another version has written")
        return cls(
            {key: [Version(*v) for v in kept] for key, kept in versions.items()},
            [Event(*each) for each in waiting],
            newest,
            alarm_ms,
        )
