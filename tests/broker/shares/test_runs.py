"""Runs of offsets: split and joined, and never a hole between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.shares.runs import Run, Runs, State


def shape(runs: Runs) -> list[tuple[int, int, str]]:
    return [(run.first, run.last, run.state.name) for run in runs]


def marked(runs: Runs, first: int, last: int, state: State) -> None:
    for run in runs.between(first, last):
        run.state = state
    runs.merge(first, last)


def test_a_range_is_cut_out_of_the_run_that_holds_it() -> None:
    runs = Runs(10)
    runs.extend(19)
    marked(runs, 12, 14, State.ACQUIRED)
    assert shape(runs) == [
        (10, 11, "AVAILABLE"),
        (12, 14, "ACQUIRED"),
        (15, 19, "AVAILABLE"),
    ]


def test_equal_neighbours_become_one_run_again() -> None:
    runs = Runs(0)
    runs.extend(9)
    for offset in (3, 5, 4):
        marked(runs, offset, offset, State.ACKNOWLEDGED)
    assert shape(runs) == [(0, 2, "AVAILABLE"), (3, 5, "ACKNOWLEDGED"), (6, 9, "AVAILABLE")]
    marked(runs, 0, 9, State.ACKNOWLEDGED)
    assert shape(runs) == [(0, 9, "ACKNOWLEDGED")]


def test_a_range_beyond_both_ends_is_only_what_is_there() -> None:
    runs = Runs(5)
    runs.extend(7)
    assert [(run.first, run.last) for run in runs.between(0, 100)] == [(5, 7)]
    assert runs.between(8, 9) == []
    assert runs.look(0, 4) == []


def test_what_is_settled_at_the_front_is_forgotten() -> None:
    runs = Runs(0)
    runs.extend(9)
    marked(runs, 0, 3, State.ACKNOWLEDGED)
    marked(runs, 4, 5, State.ARCHIVED)
    marked(runs, 7, 7, State.ACKNOWLEDGED)
    runs.drop_final()
    assert runs.start == 6
    assert shape(runs)[0] == (6, 6, "AVAILABLE")


def test_what_is_being_written_is_not_forgotten() -> None:
    runs = Runs(0)
    runs.extend(4)
    (run,) = runs
    run.state, run.writing = State.ACKNOWLEDGED, True
    runs.drop_final()
    assert runs.start == 0


def test_dropping_the_front_may_cut_a_run_or_take_everything() -> None:
    runs = Runs(0)
    runs.extend(9)
    runs.drop_before(4)
    assert (runs.start, shape(runs)) == (4, [(4, 9, "AVAILABLE")])
    runs.drop_before(50)
    assert (runs.start, runs.end, len(runs)) == (50, 50, 0)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=12),
)
def test_places_that_rise_are_revised_together_as_one_by_one(
    before: list[tuple[int, int]], gaps: list[tuple[int, int]]
) -> None:
    together, apart = Runs(3), Runs(3)
    for runs in (together, apart):
        runs.extend(45)
        for first, size in before:
            for run in runs.between(5 * first, 5 * first + size):
                run.deliveries += 1
            runs.merge(5 * first, 5 * first + size)
    places, offset = [], 0
    for gap, size in gaps:
        places.append(Run(offset + gap, offset + gap + size))
        offset += gap + size + 1
    together.revise(places, lambda run, number: setattr(run, "deliveries", 10 + number % 3))
    for number, place in enumerate(places):
        for run in apart.between(place.first, place.last):
            run.deliveries = 10 + number % 3
        apart.merge(place.first, place.last)
    assert list(map(repr, together)) == list(map(repr, apart))
