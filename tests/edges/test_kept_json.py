"""What is kept in memory of many events has the size that is counted for it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from headwater.edges.feeds import bodies
from headwater.edges.rest.batch import Batch
from tests.edges.feeds.making import PLAIN, record

COUNT, SIZE = 2_000, 400


def _in_a_batch(count: int) -> Batch:
    batch = Batch("json", 10 * COUNT * SIZE)
    assert all(batch.add(record(number)) for number in range(count))
    return batch


MAKERS: list[Callable[[int], object]] = [
    lambda count: [bodies.of_record(record(number), PLAIN) for number in range(count)],
    lambda count: [bodies.of_row(record(number), PLAIN) for number in range(count)],
    _in_a_batch,
]


@pytest.mark.parametrize("made", MAKERS, ids=["records", "rows", "a consumer's answer"])
def test_an_event_that_is_kept_takes_hardly_more_memory_than_its_text(
    made: Callable[[int], object],
):
    """The library's own texts take four kilobytes each, however short."""
    made(10)  # whatever is made once
    tracemalloc.start()
    try:
        kept = made(COUNT)
        assert tracemalloc.get_traced_memory()[0] < COUNT * SIZE
        assert kept
    finally:
        tracemalloc.stop()
