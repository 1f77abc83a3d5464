"""Ranges to tasks: nothing twice, nothing left out, and always the same."""

from __future__ import annotations

import json
from bisect import bisect_left
from functools import partial
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.source import splits
from headwater.spark.source.position import Position, offsets
from headwater.spark.source.splits import Advance, Range, Way

places = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 4))
ranges = st.dictionaries(
    places, st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=6
).map(lambda found: [Range(*p, start, start + size) for p, (start, size) in found.items()])


@given(ranges, st.none() | st.integers(1, 40), st.integers(1, 2000))
def test_tasks_cover_each_range_once_and_in_order(
    drawn: list[Range], min_partitions: int | None, per_task: int
) -> None:
    drawn = [each for each in drawn if each.records]
    tasks = splits.divide(drawn, splits.pieces(drawn, min_partitions, per_task))
    for each in drawn:
        mine = [task for task in tasks if task[:2] == each[:2]]
        assert (mine[0].start, mine[-1].end) == (each.start, each.end)
        assert all(before.end == after.start for before, after in pairwise(mine))
        assert all(0 < task.records <= per_task for task in mine)
    assert len(tasks) >= min(min_partitions or 0, sum(each.records for each in drawn)) * 0.8


@given(ranges, st.integers(1, 3000))
def test_a_limit_is_kept_and_no_partition_starves(drawn: list[Range], most: int) -> None:
    start = {each[:2]: each.start for each in drawn}
    end = {each[:2]: each.end for each in drawn}
    found = splits.limit(start, end, most)
    taken = {place: found[place] - start[place] for place in found}
    waiting = {place: end[place] - start[place] for place in end}
    assert sum(taken.values()) <= max(most, 0) + len(waiting)
    assert all(0 < taken[p] <= waiting[p] for p in waiting if waiting[p])


@given(ranges, st.dictionaries(places, st.integers(2, 5)))
def test_a_position_is_the_same_after_json(
    drawn: list[Range], pieces: dict[tuple[str, int], int]
) -> None:
    position = Position({each[:2]: each.end for each in drawn}, {"a": "id"}, {("b", 1): 3}, pieces)
    found = json.loads(json.dumps(position.to_json()))
    assert Position.from_json(found) == position
    assert offsets(found) == position.offsets


def test_a_checkpoint_of_sparks_kafka_source_can_be_read() -> None:
    assert offsets({"orders": {"0": 5, "1": 7}}) == {("orders", 0): 5, ("orders", 1): 7}


Stamps = list[list[int]]
stamps = st.lists(st.lists(st.integers(0, 60), max_size=40), min_size=1, max_size=5)


@given(stamps, st.integers(1, 30), st.integers(0, 100))
def test_partitions_that_share_by_time_reach_a_moment_together(
    drawn: Stamps, most: int, now: int
) -> None:
    """Read batch by batch, a record comes after all that are older, whatever partition they are in, if
    its own partition is in order; and none is left out."""
    ordered = [sorted(each) for each in drawn]
    end = {("t", n): len(each) for n, each in enumerate(ordered)}
    position = dict.fromkeys(end, 0)
    limits = splits.Limits(most, None, {})

    def at(moment: int) -> dict[tuple[str, int], int]:
        found = {("t", n): bisect_left(each, moment) for n, each in enumerate(ordered)}
        return {place: -1 if o == end[place] else o for place, o in found.items()}

    advance, newest = Advance(), -1
    while position != end:
        start = dict(position)
        way = Way(start, end, partial(limits.load, start), at)
        if way.load(end) > 1:
            position = dict(advance.ends(way, now, partial(limits.shared, start)))
        else:
            position = dict(end)
        taken = [ordered[n][o] for (_, n), a in start.items() for o in range(a, position["t", n])]
        assert taken and min(taken) >= newest, (start, position)
        assert len(taken) <= most + len(ordered)
        newest = max(taken)


def test_a_partition_out_of_order_is_read_to_its_end_all_the_same() -> None:
    stamps = {("t", 0): [5, 90, 6, 7], ("t", 1): [1, 2, 3, 4, 5, 6]}
    end = {place: len(each) for place, each in stamps.items()}

    def at(moment: int) -> dict[tuple[str, int], int]:
        return {
            place: next((o for o, stamp in enumerate(each) if stamp >= moment), -1)
            for place, each in stamps.items()
        }

    advance, position = Advance(), dict.fromkeys(end, 0)
    for _ in range(10):
        limits = splits.Limits(3, None, {})
        way = Way(position, end, partial(limits.load, position), at)
        if way.load(end) <= 1:
            break
        position = dict(advance.ends(way, 50, partial(limits.shared, position)))
    assert position["t", 1] == 6
    assert way.load(end) <= 1
