"""The state machine of one share-partition: a partition as one share group sees it. Pure.

    offsets  … settled │ start                     in flight                    end │ not yet looked at
                       └ available, acquired, acknowledged, archived records ┘

`start` and `end` are KIP-932's share-partition start and end offsets. A record moves

    available → acquired (delivery count + 1, locked for one member until a deadline)
    acquired  → acknowledged (accept) | archived (reject, gap, or given up) | available (release)

A settlement is decided at once, takes effect when it is durable (`commit`) and is forgotten if that
fails (`undo`); in between its records are marked and nobody else may have them. Giving a record back
needs no waiting: whether it is written or not, it will be delivered again. A release, an expired lock
or a member that goes away at the delivery limit archives instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from headwater.broker.shares.ack import Ack, Acknowledgement, pieces_of
from headwater.broker.shares.runs import Run, Runs, State, rising

__all__ = [
    "Ack",
    "AckError",
    "Acknowledgement",
    "Acquired",
    "Batch",
    "Change",
    "SharePartition",
    "State",
    "UnknownRecords",
]

WHOLE_BATCH_MAX = 10_000
"""Records of a batch that are delivered together, however few may be in flight: a megabyte holds a million,
and each may get an acknowledgement of its own."""


class AckError(Exception):
    """The records are not the member's to acknowledge (INVALID_RECORD_STATE)."""


class UnknownRecords(AckError):
    """They were never delivered (INVALID_REQUEST)."""


class Batch(NamedTuple):
    """A record batch of the log, as far as it matters here."""

    first: int
    last: int
    end: int = 0
    """Where it ends in the bytes that were read."""


class Acquired(NamedTuple):
    first: int
    last: int
    deliveries: int


class Reason(IntEnum):
    """Why a record was archived."""

    NONE = 0
    REJECTED = 1
    LIMIT = 2


class Change(NamedTuple):
    """A run's next state, as the log tells it."""

    first: int
    last: int
    state: State
    deliveries: int
    reason: Reason = Reason.NONE


class Limits(NamedTuple):
    """The group's configs that matter to a share-partition."""

    lock_ms: int = 30_000
    deliveries_max: int = 5
    in_flight: int = 2000


class SharePartition:
    """One partition, one group."""

    __slots__ = ("runs",)

    def __init__(self, start: int, kept: Iterable[Change] = ()) -> None:
        self.runs = Runs(start)
        self.restore(list(kept))

    @property
    def start(self) -> int:
        return self.runs.start

    @property
    def end(self) -> int:
        return self.runs.end

    # ---- delivering ------------------------------------------------------------------------------

    def next_offset(self, limits: Limits) -> int | None:
        """Where to read for the next delivery; None: as much is in flight as may be."""
        for run in self.runs:
            if run.state is State.AVAILABLE and not run.writing:
                return run.first
        return self.end if self.end - self.start < limits.in_flight else None

    def acquire(
        self,
        member: str,
        batches: Sequence[Batch],
        limits: Limits,
        now: int,
        *,
        read_from: int,
        records_max: int,
        batch_size: int = 0,
        exactly: bool = False,
    ) -> list[Acquired]:
        """Lock what is available of these batches, which were read from offset `read_from` on.

        Whole batches, until there are `records_max` records; with `exactly` never one more, and of a batch
        that has very many no more than `WHOLE_BATCH_MAX` beyond what may be in flight. Nothing
        that was not read may be locked, or the client would take it for a gap. Entries of the result
        are joined up to `batch_size` records.
        """
        taken: list[Acquired] = []
        left, follows = records_max, max(read_from, self.start)
        for batch in batches:
            # Offsets that compaction took out belong to the batch behind them: the client reports
            # them as gaps.
            first, last = follows, batch.last
            if last < first:
                continue
            follows = last + 1
            room = left if exactly else last - first + 1
            got = self._acquire_batch(member, first, last, limits, now, room, exactly)
            left -= sum(each.last - each.first + 1 for each in got)
            for each in got:
                _append(taken, each, batch_size)
            if left <= 0 or follows > self.end:  # as much is in flight as may be
                break
        if taken:
            self.runs.merge(taken[0].first, taken[-1].last)
        return taken

    def _acquire_batch(
        self,
        member: str,
        first: int,
        last: int,
        limits: Limits,
        now: int,
        room: int,
        exactly: bool,
    ) -> list[Acquired]:
        if last >= self.end:
            free = limits.in_flight - (self.end - self.start)
            if free > 0:
                new = min(room, free) if exactly else max(free, WHOLE_BATCH_MAX)
                self.runs.extend(min(last, self.end + new - 1))
        got: list[Acquired] = []
        for run in self.runs.look(first, last):
            if run.state is not State.AVAILABLE or run.writing or room <= 0:
                continue
            begin = max(run.first, first)
            until = min(run.last, last, begin + room - 1)
            for part in self.runs.between(begin, until):
                part.state, part.deliveries = State.ACQUIRED, part.deliveries + 1
                part.member, part.deadline = member, now + limits.lock_ms
                got.append(Acquired(part.first, part.last, part.deliveries))
            room -= until - begin + 1
        return got

    # ---- settling --------------------------------------------------------------------------------

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], limits: Limits, now: int
    ) -> list[Change]:
        """What to write down. Raises AckError, and then nothing has changed."""
        for each in acknowledgements:
            self._check(member, each.first, each.last)
        wanted = [piece for each in acknowledgements for piece in pieces_of(each)]
        changes: list[Change] = []

        def decide(run: Run, number: int) -> None:
            if wanted[number].kind == Ack.RENEW:
                run.deadline = now + limits.lock_ms
            else:
                run.writing = True
                changes.append(_settled(run, wanted[number].kind, limits))

        self.runs.revise(wanted, decide)
        return changes

    def _check(self, member: str, first: int, last: int) -> None:
        if last < self.start:
            return  # retention or an administrator was quicker
        if self.start == self.end:
            raise AckError("Nothing is in flight.")
        if last >= self.end:
            raise UnknownRecords(f"{first}–{last} is beyond the records in flight")
        for run in self.runs.look(first, last):
            if run.state is not State.ACQUIRED or run.writing:
                raise AckError(
                    "The batch cannot be acknowledged. The batch is not in the acquired state."
                )
            if run.member != member:
                raise AckError("Member is not the owner of batch record")

    def commit(self, changes: Sequence[Change]) -> None:
        """They are durable."""
        self._apply(changes)
        self.runs.drop_final()

    def undo(self, changes: Sequence[Change], deadline: int) -> None:
        """They could not be written: the records stay the member's until this deadline."""

        def take_back(run: Run, _: int) -> None:
            run.writing, run.deadline = False, deadline

        self.runs.revise(changes, take_back)

    def release(self, member: str, limits: Limits) -> tuple[list[Change], list[Change]]:
        """The member is gone: (free from now on, archived when durable)."""
        return self._give_back([run for run in self._locked() if run.member == member], limits)

    def expire(self, limits: Limits, now: int) -> tuple[list[Change], list[Change]]:
        """Locks that have ended: (free from now on, archived when durable)."""
        return self._give_back([run for run in self._locked() if run.deadline <= now], limits)

    def _locked(self) -> Iterator[Run]:
        return (run for run in self.runs if run.state is State.ACQUIRED and not run.writing)

    def _give_back(self, found: list[Run], limits: Limits) -> tuple[list[Change], list[Change]]:
        changes = [_settled(run, Ack.RELEASE, limits) for run in found]
        freed = [each for each in changes if each.state is not State.ARCHIVED]
        given_up = [each for each in changes if each.state is State.ARCHIVED]

        def mark(run: Run, _: int) -> None:
            run.writing = True

        self._apply(freed)
        self.runs.revise(given_up, mark)
        return freed, given_up

    def next_deadline(self) -> int | None:
        """When the next lock ends."""
        return min((run.deadline for run in self._locked()), default=None)

    def move_start(self, offset: int) -> bool:
        """The log begins later now: what was before is gone for this group, too."""
        if offset <= self.start:
            return False
        self.runs.drop_before(offset)
        self.runs.drop_final()
        return True

    # ---- the log's view ----------------------------------------------------------------------------

    def restore(self, changes: Sequence[Change]) -> None:
        """Apply changes that the log tells, in their order."""
        for some in rising([each for each in changes if each.last >= self.start]):
            if some[-1].last >= self.end:
                self.runs.extend(some[-1].last)
            self._apply(some)
            self.runs.drop_final()

    def durable(self) -> list[Change]:
        """Everything in flight as a restart would find it: locks are not kept."""
        kept: list[Change] = []
        for run in self.runs:
            state, deliveries = run.state, run.deliveries
            if state is State.ACQUIRED:
                state, deliveries = State.AVAILABLE, max(deliveries - 1, 0)
            last = kept[-1] if kept else None
            if last is not None and (last.state, last.deliveries) == (state, deliveries):
                kept[-1] = last._replace(last=run.last)
            else:
                kept.append(Change(run.first, run.last, state, deliveries))
        return kept

    def is_settled(self, offset: int) -> bool:
        """Whether this record is done with."""
        return offset < self.start or any(
            run.state.is_final for run in self.runs.look(offset, offset)
        )

    def settled_count(self) -> int:
        """Records after the start that are done with (KIP-1226)."""
        return sum(len(run) for run in self.runs if run.state.is_final)

    def _apply(self, changes: Sequence[Change]) -> None:
        def settle(run: Run, number: int) -> None:
            run.state, run.deliveries = changes[number].state, changes[number].deliveries
            run.member, run.deadline, run.writing = "", 0, False

        self.runs.revise(changes, settle)


def _settled(run: Run, kind: int, limits: Limits) -> Change:
    """Where an acknowledgement takes an acquired run."""
    if kind == Ack.ACCEPT:
        return Change(run.first, run.last, State.ACKNOWLEDGED, run.deliveries)
    if kind == Ack.GAP:
        return Change(run.first, run.last, State.ARCHIVED, run.deliveries)
    if kind == Ack.REJECT:
        return Change(run.first, run.last, State.ARCHIVED, run.deliveries, Reason.REJECTED)
    if run.deliveries >= limits.deliveries_max:
        return Change(run.first, run.last, State.ARCHIVED, run.deliveries, Reason.LIMIT)
    return Change(run.first, run.last, State.AVAILABLE, run.deliveries)


def _append(taken: list[Acquired], more: Acquired, batch_size: int) -> None:
    """Join with the last entry as long as that stays within the client's batch size."""
    last = taken[-1] if taken else None
    if (
        last is not None
        and last.last + 1 == more.first
        and last.deliveries == more.deliveries
        and more.last - last.first < max(batch_size, 1)
    ):
        taken[-1] = Acquired(last.first, more.last, more.deliveries)
    else:
        taken.append(more)
