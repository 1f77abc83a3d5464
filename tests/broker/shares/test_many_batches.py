"""Very many small batches: what a member gets of them is found in one pass, and is right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.shares.acknowledgement import common, parts, rest
from headwater.broker.shares.state import Ack, Acknowledgement, Acquired, Batch

STRETCHES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.booleans()), max_size=8)
Stretch = tuple[int, int, bool]


def ranges(stretches: list[Stretch]) -> Iterator[tuple[int, int]]:
    """First and last offsets, with holes in between."""
    end = 0
    for hole, length, _ in stretches:
        yield end + hole, end + hole + length - 1
        end += hole + length


def offsets(found: Iterator[tuple[int, int]] | list[tuple[int, int]]) -> set[int]:
    return {each for first, last in found for each in range(first, last + 1)}


@given(STRETCHES, STRETCHES)
def test_what_is_delivered_is_what_was_taken_and_not_aborted(
    batches: list[Stretch], acquired: list[Stretch]
) -> None:
    ends = accumulate(length for _, length, _ in batches)
    found = [Batch(*each, end) for each, end in zip(ranges(batches), ends, strict=True)]
    void = [each for each, (_, _, aborted) in zip(found, batches, strict=True) if aborted]
    counts = [1 + again for _, _, again in acquired]
    taken = [Acquired(*each, n) for each, n in zip(ranges(acquired), counts, strict=True)]
    mine = offsets(ranges(acquired))
    gaps = common(taken, void)
    assert offsets(gaps) == mine & {n for each in void for n in range(each.first, each.last + 1)}
    kept = rest(taken, [Acknowledgement(*each, [Ack.GAP]) for each in gaps])
    assert {n: each.deliveries for each in kept for n in range(each.first, each.last + 1)} == {
        n: each.deliveries
        for each in taken
        for n in range(each.first, each.last + 1)
        if n not in offsets(gaps)
    }
    data = memoryview(b"".join(bytes([n]) * length for n, (_, length, _) in enumerate(batches)))
    sent = [part[0] for part in parts(data, found, taken)]
    assert sent == [n for n, each in enumerate(found) if mine & set(range(each[0], each[1] + 1))]


TAKEN = [Acquired(n, n, 1) for n in range(300)]
FOUND = [Batch(n, n, n + 1) for n in range(2000)]
GAPS = [Acknowledgement(n, n, [Ack.GAP]) for n in range(0, 300, 2)]


@pytest.mark.parametrize(
    "work",
    [
        lambda: list(parts(memoryview(bytes(2000)), FOUND, TAKEN)),
        lambda: list(common(TAKEN, FOUND)),
        lambda: list(rest(TAKEN, GAPS)),
    ],
)
def test_the_work_does_not_grow_with_batches_times_what_is_taken(
    work: Callable[[], list[object]],
) -> None:
    """It is done in one turn of the event loop, and a megabyte may hold 15,000 batches."""
    steps = [0]

    def line(frame: object, event: str, argument: object) -> object:
        steps[0] += 1
        return line

    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(None)
    assert steps[0] < 10 * (len(TAKEN) + len(FOUND))
