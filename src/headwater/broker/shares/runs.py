"""Offsets in flight, as runs: neighbours in the same state are one entry, however many they are.

`state.SharePartition` keeps its records here. Runs lie end to end from the first offset to the last,
so an operation costs as much as there are runs in its range, and a batch that is delivered and
acknowledged as a whole is one run all its life.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar


class State(IntEnum):
    """What has become of a record in a share group; the numbers are those of Kafka's log records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self >= State.ACKNOWLEDGED


class Run:
    """`first` to `last`, both included."""

    __slots__ = ("deadline", "deliveries", "first", "last", "member", "state", "writing")

    def __init__(
        self,
        first: int,
        last: int,
        state: State = State.AVAILABLE,
        deliveries: int = 0,
        member: str = "",
        deadline: int = 0,
        writing: bool = False,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries
        """How often it was delivered."""
        self.member = member
        """Who holds the lock, if acquired."""
        self.deadline = deadline
        """When the lock ends, in ms of the monotonic clock."""
        self.writing = writing
        """Its next state is on its way to the log: nobody else may touch it."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        mark = "*" if self.writing else ""
        return f"{self.first}–{self.last} {self.state.name}{mark} ×{self.deliveries} {self.member}"

    def part(self, first: int, last: int) -> Run:
        return Run(
            first, last, self.state, self.deliveries, self.member, self.deadline, self.writing
        )

    def is_like(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.deliveries == other.deliveries
            and self.member == other.member
            and self.deadline == other.deadline
            and self.writing == other.writing
        )


class Stretch(Protocol):
    """Some offsets, both included."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...


T = TypeVar("T", bound=Stretch)


class Runs:
    """An ordered list of runs without holes between `start` and `end` (the first offset beyond)."""

    __slots__ = ("_runs", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def between(self, first: int, last: int) -> list[Run]:
        """The runs from `first` to `last`, split so that none reaches beyond."""
        first, last = max(first, self.start), min(last, self.end - 1)
        if first > last:
            return []
        self._split(first)
        self._split(last + 1)
        return self._runs[self._at(first) : self._at(last) + 1]

    def look(self, first: int, last: int) -> list[Run]:
        """The runs that touch this range, unsplit."""
        first, last = max(first, self.start), min(last, self.end - 1)
        return [] if first > last else self._runs[self._at(first) : self._at(last) + 1]

    def extend(self, last: int) -> Run:
        """Add everything up to `last`, available and never delivered."""
        assert last >= self.end
        run = Run(self.end, last)
        self._runs.append(run)
        self.end = last + 1
        return run

    def drop_before(self, offset: int) -> None:
        """Forget everything before this offset."""
        if offset >= self.end:
            self._runs.clear()
            self.end = max(self.end, offset)
        else:
            self._split(offset)
            del self._runs[: self._at(offset)]
        self.start = max(self.start, offset)

    def drop_from(self, offset: int) -> None:
        """Forget everything from this offset on."""
        self._split(offset)
        self._runs = [run for run in self._runs if run.last < offset]
        self.start, self.end = min(self.start, offset), min(self.end, offset)

    def drop_final(self) -> None:
        """Forget what is settled at the front."""
        count = 0
        for run in self._runs:
            if not run.state.is_final or run.writing:
                break
            count += 1
        if count:
            self.start = self._runs[count - 1].last + 1
            del self._runs[:count]

    def merge(self, first: int, last: int) -> None:
        """Join neighbours of one kind in and around this range."""
        if not self._runs:
            return
        index = max(self._at(max(first - 1, self.start)), 0)
        while index + 1 < len(self._runs) and self._runs[index].last <= last:
            one, two = self._runs[index], self._runs[index + 1]
            if one.is_like(two):
                one.last = two.last
                del self._runs[index + 1]
            else:
                index += 1

    def revise(self, places: Sequence[Stretch], change: Callable[[Run, int], None]) -> None:
        """Call `change` with each run of these places, split so that none reaches beyond its place, and with
        the number of that. The places rise and do not overlap. One pass, however many they are: tens of
        thousands of splits and joins of a list would each move all that lies behind them."""
        runs = self.between(places[0].first, places[-1].last) if places else []
        if not runs:
            return
        first, last = runs[0].first, runs[-1].last
        begin, made, number = self._at(first), list[Run](), 0
        for run in runs:
            offset = run.first
            while offset <= run.last:
                while number < len(places) and places[number].last < offset:
                    number += 1
                is_meant = number < len(places) and places[number].first <= offset
                until = _until(run, places, number, is_meant)
                part = run.part(offset, until)
                if is_meant:
                    change(part, number)
                if made and made[-1].is_like(part):
                    made[-1].last = until
                else:
                    made.append(part)
                offset = until + 1
        self._runs[begin : begin + len(runs)] = made
        self.merge(first, first)
        self.merge(last, last)

    def _at(self, offset: int) -> int:
        return bisect_right(self._runs, offset, key=lambda run: run.first) - 1

    def _split(self, offset: int) -> None:
        """Let a run begin exactly here."""
        if not self.start < offset < self.end:
            return
        index = self._at(offset)
        run = self._runs[index]
        if run.first < offset:
            self._runs.insert(index + 1, run.part(offset, run.last))
            run.last = offset - 1


def _until(run: Run, places: Sequence[Stretch], number: int, is_meant: bool) -> int:
    """Where the part of this run ends that lies in the place of this number, or before it."""
    if number == len(places):
        return run.last
    place = places[number]
    return min(run.last, place.last if is_meant else place.first - 1)


def rising(places: Iterable[T]) -> Iterator[list[T]]:
    """Stretches of these in which offsets rise; usually one. What the broker writes does, and others may have
    written it."""
    some: list[T] = []
    for each in places:
        if some and each.first <= some[-1].last:
            yield some
            some = []
        some.append(each)
    if some:
        yield some
