"""Patterns over a few rows each, by hand: the clock is the watermark, and moves when a test says so.

Letters are rows of a key, one per microsecond unless a time is drawn; `within` is ten.
"""

from __future__ import annotations

import pytest

from headwater.processing.patterns import machine
from headwater.processing.patterns.errors import OtherPattern, TooManyWays
from headwater.processing.patterns.machine import Machine
from headwater.processing.patterns.worker import Bucket
from tests.processing.patterns.machines import Clocked, found, plan
from tests.processing.patterns.reference import Row

IS = {"A": "x = 0", "B": "x = 1", "C": "x is null"}
AB = {"A": "x = 0", "B": "x = 1"}
X = {"A": 0, "B": 1, "C": None, "z": 2}


def drawn(line: str) -> list[Row]:
    """`A..B` is an A at 0 and a B at 3."""
    return [Row(time, X[letter]) for time, letter in enumerate(line) if letter != "."]


def spans(pattern: str, line: str, **words: object) -> list[str]:
    """Where matches lie: `0-3`, and `0-3?` for a time-out."""
    said = {"define": {name: sql for name, sql in IS.items() if name in pattern}, **words}
    define = said.pop("define")
    results = found(pattern, drawn(line), define, **said)  # type: ignore[arg-type]
    return [f"{start}-{end}{'?' if late else ''}" for start, end, late, *_ in results]


def test_rows_of_a_match_follow_each_other_without_a_gap():
    #      012345678
    line = "ABzABABzB"
    assert spans("A B", line) == ["0-1", "3-4", "5-6"]
    assert spans("A B !(A | B)", line) == ["0-2", "5-7"]


def test_quantifiers_take_as_many_rows_as_they_can_and_reluctant_ones_as_few():
    line = "AAABB"
    assert spans("A+ B+", line) == ["0-4"]
    assert spans("A+ B+?", line) == ["0-3"]
    assert spans("A{2} B", line) == ["1-3"]
    assert spans("A{1,2}?", line) == ["0-0", "1-1", "2-2"]


def test_of_alternatives_the_left_one_is_preferred_even_if_it_is_shorter():
    assert spans("A | A B", "AB") == ["0-0"]
    assert spans("A B | A", "AB") == ["0-1"]
    # A match behind a preferred way waits until that way has failed.
    assert spans("A B B | A", "ABAB") == ["0-0", "2-2"]


def test_the_search_goes_on_where_skip_says():
    line = "ABABAB"
    pattern = "A B A B"
    assert spans(pattern, line) == ["0-3"]
    assert spans(pattern, line, skip="to next row") == ["0-3", "2-5"]
    assert spans(pattern, line, skip="to last A") == ["0-3", "2-5"]
    assert spans("A+ B", "AAAB", skip="to first B") == ["0-3"]
    # The first row itself would be found again for ever: then the next row.
    assert spans("A+ B", "AAAB", skip="to first A") == ["0-3", "1-3", "2-3"]


def test_a_row_that_is_not_b_may_be_anything_else():
    assert spans("A !B* C", "AzzAC") == ["0-4"]
    assert spans("A !B* C", "AzBAzC") == ["3-5"]
    assert spans("A !(B | C) A", "ABACAzA") == ["4-6"]


def test_a_then_no_b_within_the_time():
    #      0         1
    #      0123456789012345
    assert spans("A !B* $", "A........z......") == ["0-9"]
    assert spans("A !B* $", "A.........B.....") == [], "at the very end of the time is within it"
    assert spans("A !B* $", "A..........B....") == ["0-0"]
    assert spans("A !B* $", "A...A......B....", skip="to next row") == ["0-4"]


def test_a_match_ends_within_the_time_from_its_first_row():
    assert spans("A B", "A.........B") == ["0-10"]
    assert spans("A B", "A..........B") == []
    # What is taken greedily stops at the end of the time as well.
    assert spans("A+", "A.A.A.A.A.A.A") == ["0-10", "12-12"]


def test_a_beginning_that_runs_out_of_time_is_a_result_if_asked_for():
    assert spans("A !B* B", "AzzB.A.z", timeouts=True) == ["0-3", "5-7?"]
    assert spans("A !B* B", "AzzB.A.z") == ["0-3"]
    # A beginning that failed did not run out of time.
    assert spans("A B", "AAz", timeouts=True) == []
    # Time-outs rule nothing out: with them and without, the same matches.
    line = "A....A.....B"
    assert spans("A !B* B", line, timeouts=True) == ["0-5?", "5-11"]
    assert spans("A !B* B", line) == ["5-11"]


def test_a_match_without_rows_is_none():
    assert spans("A*", "BBA") == ["2-2"]
    assert spans("(A | B?)* C?", "zz") == []


def test_conditions_look_back_and_the_row_itself_counts():
    rising = {"B": "x > last(x, 1)"}
    rows = [Row(n, x) for n, x in enumerate([3, 1, 2, 3, 3, 4])]
    assert [r[:2] for r in found("A B+", rows, rising)] == [(1, 3), (4, 5)]
    few = {"B": "count(B) <= 2"}
    assert [r[:2] for r in found("A B*", rows, few)] == [(0, 2), (3, 5)]
    measures = {"lowest": "min(B.x)", "all": "count(*)", "over": "(last(B.x) - A.x) * 10 / 4"}
    got = found("A B+", rows, rising, measures=measures)
    assert [r[3:] for r in got] == [(2, 3, 5.0), (4, 2, 2.5)]
    assert found("A B", [Row(0, None), Row(1, 5)], {"B": "x > A.x"}) == [], "null does not hold"


def test_nothing_is_decided_before_the_watermark_and_arrival_order_is_nothing():
    clocked = Clocked(plan("A B", AB, "10 us", "past last row", {}, True))
    clocked.arrive([Row(5, 1)])
    assert clocked.advance(3) == []
    clocked.arrive([Row(4, 0)])
    assert clocked.advance(4) == [], "the B at 5 may not be the next row yet"
    assert clocked.advance(5) == [("k", 4, 5, False)]
    assert clocked.holds_nothing
    clocked.arrive([Row(7, 0)])
    assert clocked.advance(16) == []
    assert clocked.advance(17) == [("k", 7, 7, True)]
    assert clocked.holds_nothing


def test_keys_do_not_meet():
    clocked = Clocked(plan("A B", AB, "10 us", "past last row", {}, False))
    clocked.arrive([Row(1, 0), Row(3, 1)], "one")
    clocked.arrive([Row(2, 1), Row(4, 0)], "two")
    assert clocked.advance(100) == [("one", 1, 3, False)]


def test_state_of_another_pattern_is_refused():
    first = plan("A B", {}, "10 us", "past last row", {}, False)
    other = plan("A B C", {}, "10 us", "past last row", {}, False)
    clocked = Clocked(first)
    clocked.arrive([Row(5, 1)])
    clocked.advance(1)
    blob = clocked._blob
    assert blob is not None
    with pytest.raises(OtherPattern):
        Bucket(Machine(other), 0, 1).load(blob, other.fingerprint)


def test_more_ways_than_are_followed_stop_the_query(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "WAYS_MAX", 100)
    rows = [Row(0, n) for n in range(12)]
    define = {"C": "sum(A.x) = 1000"}
    with pytest.raises(TooManyWays, match="more than 100 ways"):
        found("(A | B)+ C", rows, define)
    # Ways that remember the same are one, and positions alone are few.
    assert found("(A | B)+ C", rows, {"C": "x is null"}) == []
