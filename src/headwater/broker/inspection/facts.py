"""What an inspection learns of one partition on its way, for those that look across partitions.

`segments` fills it; `checkpoints`, `transactions`, `groups` and `shares` read it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path

from headwater.broker.inspection.decisions import Decisions
from headwater.broker.producer_ids import MADE_UP
from headwater.log.producers import Producers
from headwater.record.batch import BatchHeader


@dataclass(frozen=True, slots=True)
class Place:
    """A partition and its folder."""

    topic: str
    number: int
    root: Path
    directory: Path

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.number

    def where(self, name: str = "") -> str:
        """A path as people see it: within the data folder."""
        path = self.directory / name if name else self.directory
        return str(path.relative_to(self.root))


@dataclass(frozen=True, slots=True)
class Promise:
    """How far records are known to have been acknowledged."""

    offset: int
    is_known: bool
    """The partition's own file says so, or a clean stop does; else there may be more."""
    is_clean: bool


@dataclass(slots=True)
class Began:
    """A transaction that is open in a partition."""

    first_offset: int
    timestamp: int
    epochs: set[int]
    """Of its batches. Where there are several, a marker between two transactions is lost."""
    last_offset: int
    """Of its records so far, up to the first hole."""
    hole: tuple[int, int] | None = None
    """The first offsets behind its beginning that cannot be read: its marker may have had one of them."""
    has_lost_marker: bool = False
    """What cannot be read there is a marker of this producer, and not one that aborts."""
    has_resumed: bool = False
    """There are records of it behind the hole."""

    @classmethod
    def with_(cls, header: BatchHeader) -> Began:
        """By its first batch."""
        first = (header.base_offset, header.max_timestamp)
        return cls(*first, {header.producer_epoch}, header.last_offset)

    @property
    def epoch(self) -> int:
        return max(self.epochs)

    @property
    def may_have_committed(self) -> bool:
        """A marker has one offset, and it is the last that its transaction has."""
        is_last = self.hole == (self.last_offset + 1,) * 2 and not self.has_resumed
        return self.has_lost_marker or is_last


@dataclass(frozen=True, slots=True)
class Hidden:
    """A transaction with a hole in it that a later marker has aborted."""

    producer_id: int
    began: Began
    timestamp: int
    """Of that marker."""


@dataclass(slots=True)
class EpochRun:
    """Batches in a row that have the same leader epoch."""

    epoch: int
    first_offset: int
    base_offset: int
    """Of the segment in which the run begins."""
    file_position: int
    header: BatchHeader
    batches: int = 1


@dataclass(slots=True)
class Facts:
    """Filled while a partition's segments are gone through."""

    place: Place
    promise: Promise
    start_offset: int
    """As its own file has it or, where there is none, the checkpoint."""
    told_start: int = 0
    """As the checkpoint has it."""
    told_end: int = 0
    """How far the recovery points have it on disk; what is believed is the promise."""
    topic_id: uuid.UUID | None = None
    gaps: bool = False
    """Compaction may have taken offsets."""
    first_offset: int = 0
    end_offset: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    producers: Producers = field(default_factory=Producers)
    began: dict[int, Began] = field(default_factory=dict)
    hidden: list[Hidden] = field(default_factory=list)
    producer_id_max: int = -1
    """Of all that wrote here, without those from `MADE_UP` on that are not proven."""
    proven_id_max: int = -1
    """Of those that no client can have made up."""
    decisions: Decisions = field(default_factory=Decisions)
    """What the coordinator's log says of transactions, as far as it has been read."""
    idle_markers: int = 0
    oversize: int = 0
    epoch_runs: list[EpochRun] = field(default_factory=list)
    was_read: bool = True
    """False: something could not be read at all."""

    def has_producer(self, producer_id: int, *, proven: bool) -> None:
        """Anybody may write an id of his own making: the largest are no broker's."""
        if proven:
            self.proven_id_max = max(self.proven_id_max, producer_id)
        if proven or producer_id < MADE_UP:
            self.producer_id_max = max(self.producer_id_max, producer_id)

    def leave_unread(self, limit: int | None) -> None:
        """A segment could not be read; the next one begins at `limit`, if there is one."""
        self.was_read = False
        self.end_offset = limit if limit is not None else self.promise.offset

    def pass_over(self, first: int, last: int, marker_of: int | None = None) -> None:
        """These cannot be read: what is open may have ended there."""
        for producer_id, began in self.began.items():
            if began.hole is None and first <= last:
                began.hole, began.has_lost_marker = (first, last), producer_id == marker_of

    @property
    def start(self) -> int:
        return max(self.start_offset, self.first_offset)
