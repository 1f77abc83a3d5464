"""Two texts side by side, line by line: what is the same, changed, added, gone; pure.

The texts are strangers' (`subjects`), as long as their schemas may be. So the lines are matched by Myers' way
(An O(ND) Difference Algorithm, 1986), whose cost is that of the differences, up to `WORK_MAX` steps; beyond
them all between the first and the last line that differ is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

SAME, CHANGED, ADDED, GONE = "same", "changed", "added", "gone"
WORK_MAX = 1_000_000
"""Steps: about a second."""
AROUND = 3
"""Lines that are the same, before and after what differs."""


class Pair(NamedTuple):
    """A line of the older text beside one of the newer; None: there is none."""

    old: str | None
    new: str | None
    mark: str
    """same, changed, added or gone."""


def side_by_side(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    found: list[Pair] = []
    at_old = at_new = 0
    for one, other in [*_matches(old, new), (len(old), len(new))]:
        left, right = old[at_old:one], new[at_new:other]
        both = min(len(left), len(right))
        found += [Pair(left[n], right[n], CHANGED) for n in range(both)]
        found += [Pair(each, None, GONE) for each in left[both:]]
        found += [Pair(None, each, ADDED) for each in right[both:]]
        if one < len(old):
            found.append(Pair(old[one], new[other], SAME))
        at_old, at_new = one + 1, other + 1
    return found


def unified(pairs: Sequence[Pair]) -> Iterator[str]:
    """What differs, with the lines around it, as `diff -u` prints it; without names."""
    before = [[0, *accumulate(int(each[side] is not None) for each in pairs)] for side in (0, 1)]
    for begin, end in _hunks(pairs):
        part = pairs[begin:end]
        old, new = (_range(each[begin], each[end]) for each in before)
        yield f"@@ -{old} +{new} @@"
        gone, come = list[str](), list[str]()
        for each in part:
            if each.mark == SAME:
                yield from (*gone, *come, f" {each.old}")
                gone, come = [], []
            else:
                gone += [] if each.old is None else [f"-{each.old}"]
                come += [] if each.new is None else [f"+{each.new}"]
        yield from (*gone, *come)


def _hunks(pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for place, each in enumerate(pairs):
        if each.mark == SAME:
            continue
        begin, end = max(0, place - AROUND), min(len(pairs), place + AROUND + 1)
        if found and begin <= found[-1][1]:
            begin = found.pop()[0]
        found.append((begin, end))
    return found


def _range(begin: int, end: int) -> str:
    count = end - begin
    return f"{end}" if count == 1 else f"{begin + (count > 0)},{count}"


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of lines that are the same, in order."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(each, len(numbers)) for each in old]
    b = [numbers.setdefault(each, len(numbers)) for each in new]
    least = min(len(a), len(b))
    head = next((n for n in range(least) if a[n] != b[n]), least)
    tail = next((n for n in range(least - head) if a[-1 - n] != b[-1 - n]), least - head)
    inner = _shortest(a[head : len(a) - tail], b[head : len(b) - tail])
    first = [(n, n) for n in range(head)]
    last = [(len(a) - n, len(b) - n) for n in range(tail, 0, -1)]
    return [*first, *((head + one, head + other) for one, other in inner), *last]


def _shortest(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """As few lines as can be are not matched; none is, where that takes too long."""
    work, trace = 0, list[dict[int, int]]()
    """How far into the older text one comes on each diagonal, after so many lines that are not matched."""
    for edits in range(len(a) + len(b) + 1):
        reached: dict[int, int] = {}
        for k in range(-edits, edits + 1, 2):
            start, _ = _step(trace, k, edits)
            x = start
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            reached[k] = x
            work += 1 + x - start
            if x >= len(a) and x - k >= len(b):
                return _back(trace, len(a), len(b))
            if work > WORK_MAX:
                return []
        trace.append(reached)
    return []


def _step(trace: Sequence[dict[int, int]], k: int, edits: int) -> tuple[int, int]:
    """Where one is on a diagonal after one more of them, and from which diagonal."""
    if edits == 0:
        return 0, 0
    reached = trace[edits - 1]
    down, right = reached.get(k + 1, -1), reached.get(k - 1, -2) + 1
    return (down, k + 1) if down >= right else (right, k - 1)


def _back(trace: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for edits in range(len(trace), -1, -1):
        k = x - y
        start, before = _step(trace, k, edits)
        found += [(each, each - k) for each in range(x - 1, start - 1, -1)]
        if edits:
            x = trace[edits - 1][before]
            y = x - before
    return found[::-1]
