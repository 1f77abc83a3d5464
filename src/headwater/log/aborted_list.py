"""The aborted transactions of one segment, and which of them a piece of the log touches.

Fetch with `read_committed` asks of all that it reads. The entries are in the order of their markers: those
that ended before are found by halving. Those that began behind it are passed over a block at a time: while
one transaction is open a hundred thousand others may be aborted, and any of them may have begun early.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter

from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.allowance import Allowance

BLOCK = 512
_MARKER = attrgetter("last_offset")


class AbortedList(list[AbortedTransaction]):
    """Must only grow at its end: what is known of a whole block stays true."""

    __slots__ = ("_lows",)

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        super().__init__(entries)
        self._lows: dict[int, int] = {}

    def _low(self, begin: int, within: Allowance | None) -> int:
        """The first offset of all in the whole block that begins there."""
        low = self._lows.get(begin)
        if low is None:
            if within is not None:
                within.take(BLOCK)
            low = min(entry.first_offset for entry in self[begin : begin + BLOCK])
            self._lows[begin] = low
        return low

    def next(self, number: int, end: int, within: Allowance | None) -> int:
        """The same number, or behind the whole blocks from there on that have nothing from before `end`."""
        while number % BLOCK == 0 and number + BLOCK <= len(self):
            if within is not None:
                within.take()
            if (
                self._low(number, within) < end
                or self[number + BLOCK - 1].last_stable_offset >= end
            ):
                break
            number += BLOCK
        return number


def between(
    lists: Iterable[AbortedList], first: int, end: int, within: Allowance | None = None
) -> list[AbortedTransaction]:
    """Those that touch the offsets [first, end); `lists`: of the segments from `first` on."""
    return list(touching(lists, first, end, within))


def touching(
    lists: Iterable[AbortedList], first: int, end: int, within: Allowance | None = None
) -> Iterator[AbortedTransaction]:
    """The same one by one. Raises TooMuch."""
    for entries in lists:
        number = bisect_left(entries, first, key=_MARKER)
        while number < len(entries):
            if within is not None:
                within.take()
            entry = entries[number]
            if entry.first_offset < end:
                yield entry
            if entry.last_stable_offset >= end:
                return  # what ends later has begun later, too
            number = entries.next(number + 1, end, within)
