"""What is wrong with a pattern or a condition is said in a sentence, with a caret at the place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.processing.patterns.automaton import ACCEPT, AT_END, build
from headwater.processing.patterns.errors import PatternError
from headwater.processing.patterns.expressions import conditions, measure
from headwater.processing.patterns.syntax import One, parse
from headwater.processing.patterns.trees import Literal
from tests.processing.patterns.machines import plan

# The text, where the caret stands, the sentence.
PATTERNS = {
    "": (0, "the pattern is empty"),
    "A (B": (2, "never closed"),
    "A B)": (3, "closes nothing"),
    "A | | B": (4, "a variable is missing"),
    "A (B | )": (7, "a variable is missing"),
    "A{5,2}": (1, "at least 5 and at most 2"),
    "A{}": (1, "how many"),
    "A{2000}": (1, "1,000 repetitions"),
    "A {x}": (2, "begins a number"),
    "A**": (2, "second quantifier"),
    "+ A": (0, "something before it"),
    "A $*": (3, "cannot be repeated"),
    "A !+": (3, "stands before a variable"),
    "A !(B C)": (6, "stands before a variable"),
    "A ^B": (2, "written !B"),
    "A [B]": (2, "has no meaning"),
}
CONDITIONS = {
    "x > A.x and": (11, "too early"),
    "A.x > case when": (6, "'case' is not possible"),
    "x > last(A.x": (8, "never closed"),
    "prev(x) > A.x": (0, "last(column, 1)"),
    "A.x > 3 3": (8, "'3' was not expected"),
    "foo(A.x) > 1": (0, "only be asked about the row itself"),
    "sum(A.x * B.x) > 1": (4, "one variable"),
    "x > last()": (4, "of what"),
    "x = A.x + B": (10, "which column of B"),
    "x > sum(A.x, 1)": (13, "only first and last"),
    "x between 1 or A.x": (12, "AND is missing"),
    "at - A.at < interval soon": (12, "INTERVAL 5 MINUTES"),
}


def pointed(refused: pytest.ExceptionInfo[PatternError]) -> tuple[int, str]:
    sentence, _, caret = str(refused.value).rsplit("\n", 2)
    return caret.index("^") - 4, sentence


@pytest.mark.parametrize("text", PATTERNS)
def test_a_caret_stands_where_a_pattern_is_wrong(text: str):
    place, words = PATTERNS[text]
    with pytest.raises(PatternError) as refused:
        parse(text)
    assert pointed(refused)[0] == place
    assert words in pointed(refused)[1]


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_caret_stands_where_a_condition_is_wrong(text: str):
    place, words = CONDITIONS[text]
    with pytest.raises(PatternError) as refused:
        conditions(text, frozenset("ABC"), "C")
    assert pointed(refused)[0] == place
    assert words in pointed(refused)[1]
    assert str(refused.value).startswith("define 'C': ")


@given(st.text(alphabet="AB(){}|!$?*+,12 ^", max_size=12))
def test_any_text_is_a_pattern_or_refused(text: str):
    try:
        built = build(parse(text))
    except PatternError:
        return
    assert built.first and all(built.follow)
    for targets in (built.first, *built.follow):
        assert len(set(targets)) == len(targets)
        assert ACCEPT not in targets[:-1]
        assert all(target in (ACCEPT, AT_END) or target >= 0 for target in targets)


@given(st.text(alphabet="AxB.()+-*/<>='123 ,andornotislikfrscum", max_size=16))
def test_any_text_is_a_measure_or_refused(text: str):
    try:
        measure(text, frozenset("AB"), "measures 'm'")
    except PatternError:
        return


def test_preferences_are_the_order_of_what_follows():
    greedy, reluctant = build(parse("A B* C")), build(parse("A B*? C"))
    assert greedy.positions == (One("A"), One("B"), One("C"))
    assert (greedy.first, greedy.follow) == ((0,), ((1, 2), (1, 2), (ACCEPT,)))
    assert reluctant.follow == ((2, 1), (2, 1), (ACCEPT,))
    assert build(parse("A !B* $")).follow == ((1, AT_END), (1, AT_END))


def test_patterns_that_can_never_end_or_never_begin_are_refused():
    for text, words in {
        "$": "takes no row",
        "A $ B": "nothing can follow",
        "((A{90}){90}){90}": "rows",
    }.items():
        with pytest.raises(PatternError, match=words):
            build(parse(text))


def test_parts_of_a_condition_that_concern_the_row_alone_stay_sql():
    text = "amount > 3 and lower(kind) = 'x' and amount > 2 * B.amount and C.day is not null"
    parts = conditions(text, frozenset("BC"), "C")
    assert [part.sql.strip() for part in parts if part.tree is None] == [
        "amount > 3",
        "lower(kind) = 'x'",
        "day is not null",
    ]
    (whole,) = conditions("case when x then true end", frozenset("B"), "B")
    assert whole.tree is None, "Spark's own SQL, whatever it is"
    (either,) = conditions("x > 3 or B.x = 1 and x < 2", frozenset("BC"), "C")
    assert either.tree is not None


def test_what_is_written_stays_as_it_is_written_for_spark_to_read():
    for text in (
        "interval 5 minutes 2 seconds",
        "'it''s'",
        "9.99",
        "1e3",
        "5L",
        "2.5BD",
        ".5d",
        "timestamp_ntz '2026-03-29 02:30:00'",
    ):
        assert measure(text, frozenset(), "") == Literal(text)


def test_skipping_to_what_is_never_bound_is_refused():
    for skip, words in {
        "to last B": "no row is ever bound",
        "to last": "has no meaning",
        "backwards": "has no meaning",
    }.items():
        with pytest.raises(PatternError, match=words):
            plan("A !B*", {}, "1 minute", skip, {}, False)
