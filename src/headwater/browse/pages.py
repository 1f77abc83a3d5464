"""A page of records: from a place on, or back from it; all of them, or those that a filter keeps.

Partitions have no order between them; a page merges them by timestamp and keeps each partition's order.
Going back, the newest record is first. A page costs what it shows, wherever it is: ranges just as long as
needed are read, and grow where there are holes (compaction, aborted transactions) or where the filter
keeps little, within stated `Bounds`. `Page.next` goes on from exactly there: nothing is shown twice, nothing
is left out. A filtered page ends as soon as it is full, its partitions having come about equally far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.browse.key_reader import STEP, KeyReader
from headwater.client import ranges as reading
from headwater.client.log import PAGE_BYTES, SCAN_BYTES, Log
from headwater.client.places import BEGINNING, END, Place, located
from headwater.client.records import Cursor, Range, Record

LIMIT = 50
_STEP_FILTERED = 1000
_LONG_STEP = 2000
"""From so many offsets on, large fetches are worth it."""
_STEP_S = 0.25
"""Steps grow until one takes this long, so that bounds and progress are looked at often enough."""

Keep = Callable[[Record], bool]
Progress = Callable[[int, int], None]
"""Offsets looked at so far, and how many there are at most."""


@dataclass(frozen=True)
class Bounds:
    """Where looking for records ends for now; what is left is for the next page."""

    scanned_max: int = 100_000
    seconds: float = 60.0
    bytes_max: int = 64 * 1024**2
    """Of the records of a page, the one that goes beyond it included; and about twice that in memory."""


BOUNDS = Bounds()


@dataclass(frozen=True)
class Page:
    """`next`: where the following page in the same direction begins; None if nothing is left there.

    `here`: this page again. `ranges`: what the topic held. `scanned`: offsets looked at. `is_cut`: a bound
    ended it before the page was full: say so, and offer to go on.
    """

    records: list[Record]
    here: Cursor
    next: Cursor | None
    ranges: Mapping[int, Range]
    scanned: int = 0
    is_cut: bool = False

    @property
    def ends(self) -> Cursor:
        """Where the partitions ended when it was read: from here on a tail shows what comes."""
        return Cursor({p: end for p, (_, end) in self.ranges.items()})


def page(
    log: Log,
    topic: str,
    place: Place | None = None,
    *,
    back: bool = False,
    until: Place | None = None,
    limit: int = LIMIT,
    keep: Keep | None = None,
    reader: KeyReader | None = None,
    partitions: list[int] | None = None,
    bounds: Bounds = BOUNDS,
    progress: Progress | None = None,
) -> Page:
    """At most `limit` records from `place` (the beginning; going back, the end) to `until`.

    `reader` stands in for `keep`, where only the records of a key are wanted.
    """
    held = log.ranges(topic, partitions)
    here = located(log, topic, place or (END if back else BEGINNING), held)
    borders = _borders(log, topic, until, held, back=back)
    walk = _Walk(log, topic, here, borders, limit, back=back, keep=keep, reader=reader)
    walk.run(bounds, progress)
    records, rest = walk.merged(bounds.bytes_max)
    is_over = all(offset == borders.get(p, offset) for p, offset in rest)
    full = len(records) == limit
    return Page(records, here, None if is_over else rest, held, walk.scanned, not (full or is_over))


def _borders(
    log: Log, topic: str, until: Place | None, held: Mapping[int, Range], *, back: bool
) -> dict[int, int]:
    """Where each partition's part of the walk ends."""
    if until is None:
        return {p: both[0] if back else both[1] for p, both in held.items()}
    return dict(located(log, topic, until, held))


class _Walk:
    """Partitions read step by step in one direction, until each has a page or is through."""

    def __init__(
        self,
        log: Log,
        topic: str,
        start: Cursor,
        borders: Mapping[int, int],
        limit: int,
        *,
        back: bool,
        keep: Keep | None,
        reader: KeyReader | None,
    ) -> None:
        self._log, self._topic, self._limit = log, topic, limit
        self._back, self._keep, self._reader = back, keep, reader
        self._borders = {p: borders[p] for p, _ in start if p in borders}
        self._reached = {p: offset for p, offset in start if p in borders}
        self._found: dict[int, list[Record]] = {p: [] for p in self._reached}
        self._total = sum(self._left(p) for p in self._reached)
        self._bytes = 0
        self.scanned = 0

    def run(self, bounds: Bounds, progress: Progress | None) -> None:
        step = self._limit if self._keep is None else max(self._limit, _STEP_FILTERED)
        if self._reader is not None:
            step = STEP
        deadline = time.monotonic() + bounds.seconds
        while wanted := self._wanted(step, bounds.scanned_max):
            began = time.monotonic()
            self._read(wanted, PAGE_BYTES if step < _LONG_STEP else SCAN_BYTES, bounds.bytes_max)
            if self._bytes > bounds.bytes_max:
                return
            now = time.monotonic()
            if progress is not None:
                progress(self.scanned, self._total)
            if now >= deadline:
                return
            factor = min(_STEP_S, deadline - now) / max(now - began, 0.001)
            step = max(self._limit, int(step * min(4.0, factor)))

    def merged(self, bytes_max: int) -> tuple[list[Record], Cursor]:
        """The page, and what comes after it."""
        sign = -1 if self._back else 1
        taken: list[Record] = []
        at = dict.fromkeys(self._found, 0)
        heads = {p: rows[0] for p, rows in self._found.items() if rows}
        size = 0
        while heads and len(taken) < self._limit and size <= bytes_max:
            p = min(heads, key=lambda each: (sign * heads[each].timestamp_ms, each))
            taken.append(heads.pop(p))
            size += _size(taken[-1])
            at[p] += 1
            if at[p] < len(self._found[p]):
                heads[p] = self._found[p][at[p]]
        # Going back, a cursor names the offset after the record that comes next.
        rest = {p: heads[p].offset + self._back for p in heads}
        return taken, Cursor({**self._reached, **rest})

    def _left(self, p: int) -> int:
        between = self._borders[p] - self._reached[p]
        return max(0, -between if self._back else between)

    def _has_enough(self, p: int) -> bool:
        """Without a filter, a whole page of each: a record of any of them may be the next in time. With one,
        a page of all together, because the next that is meant may be far away."""
        is_filtered = self._keep is not None or self._reader is not None
        piles = self._found.values() if is_filtered else [self._found[p]]
        return sum(map(len, piles)) >= self._limit

    def _wanted(self, step: int, scanned_max: int) -> dict[int, Range]:
        short = [p for p in self._reached if self._left(p) and not self._has_enough(p)]
        left = scanned_max - self.scanned
        if not short or left <= 0:
            return {}
        short = short[:left]
        each = min(step, left // len(short))
        found = {}
        for p in short:
            at, length = self._reached[p], min(each, self._left(p))
            found[p] = (at - length, at) if self._back else (at, at + length)
        return found

    def _read(self, wanted: Mapping[int, Range], fetch_bytes: int, bytes_max: int) -> None:
        piles: dict[int, list[Record]] = {p: [] for p in wanted}
        ends = {p: end for p, (_, end) in wanted.items()}
        for records in self._records(wanted, fetch_bytes):
            for record in records:
                if self._keep is None or self._keep(record):
                    piles[record.partition].append(record)
                    self._bytes += _size(record)
            if self._bytes > bytes_max and not self._back:
                # Each partition has come as far as its last record; what is behind it is read again.
                ends = {
                    p: pile[-1].offset + 1 if pile else wanted[p][0] for p, pile in piles.items()
                }
                break
        for p, pile in piles.items():
            self._found[p] += _reversed(pile) if self._back else pile
            start = wanted[p][0]
            self._reached[p] = start if self._back else ends[p]
            self.scanned += ends[p] - start

    def _records(self, wanted: Mapping[int, Range], fetch_bytes: int) -> Iterator[list[Record]]:
        if self._reader is not None:
            return self._reader.read(self._topic, wanted)
        return reading.read(self._log, self._topic, wanted, fetch_bytes)


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + 100


def _reversed(records: Sequence[Record]) -> list[Record]:
    return list(reversed(records))
