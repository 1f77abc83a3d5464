"""Expressions of strangers: RE2's syntax, Python's answers where both agree, and no explosion."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import regex
from headwater.regex import BadRegex, Regex


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("orders", ["orders"], ["orders2", "my-orders"]),
        ("^orders.*$", ["orders", "orders-2"], ["my-orders"]),
        ("a|b", ["a", "b"], ["ab", "c"]),
        ("(?i)ORD-[0-9]+", ["ord-12", "Ord-1"], ["ord-"]),
        ("x(^a)", [], ["xa"]),
        (r"\Qa.b\E.", ["a.bc"], ["axbc"]),
        ("[[:alpha:]_]+", ["ab_c"], ["ab1"]),
        ("[^a-c.]x", ["dx"], ["ax", ".x"]),
        (r"\d{2,3}\.\w+?", ["12.a", "123.ab"], ["1.a", "1234.a"]),
        (r"(?P<name>t)\pN\p{Lu}", ["t1A"], ["t1a"]),
        (r"\Aa\z", ["a"], ["ab"]),
        ("(a|b)*c", ["c", "ababc"], ["ab"]),
        ("a{,2}", [], ["a", "aa"]),
    ],
)
def test_a_name_matches_as_a_whole(expression: str, matching: list[str], others: list[str]) -> None:
    regex = Regex(expression)
    assert regex.matching([*matching, *others]) == matching


@pytest.mark.parametrize(
    "expression",
    [
        "(",
        ")",
        "[a",
        "a**",
        "(?=x)",
        "(?<!x)",
        r"\1",
        "a{1001}",
        "*a",
        "[z-a]",
        "\\",
        r"\y",
        "[[:x:]]",
    ],
)
def test_what_re2_refuses_is_refused(expression: str) -> None:
    with pytest.raises(BadRegex):
        Regex(expression)


@pytest.mark.parametrize("expression", ["(a*)*b", "(a+)+b", "(a|a)*b", "(a|b|ab)*c", "(.*){20}b"])
def test_an_expression_that_makes_others_explode_is_matched_at_once(expression: str) -> None:
    start = time.process_time()
    assert not Regex(expression).matches("a" * 249)
    assert time.process_time() - start < 5  # others take years


@pytest.mark.parametrize(
    "expression", ["((a{100}){100}){100}", "(" * 1500, "a" * 5_000, r"\pL{1000}"]
)
def test_an_expression_that_is_too_large_is_refused(expression: str) -> None:
    with pytest.raises(BadRegex):
        Regex(expression)


atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "1", "-", "^", "$"])
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("expression", ["$^", "^$", "($^)*", "(^|$){2}", "$^$"])
def test_the_empty_name_begins_where_it_ends(expression: str) -> None:
    assert Regex(expression).matches("")
    assert not Regex(expression).matches("a")


@given(expressions, st.text(alphabet="ab1-", max_size=6))
def test_it_answers_as_python_does(expression: str, name: str) -> None:
    assert Regex(expression).matches(name) == (re.fullmatch(expression, name) is not None)


@given(st.text(alphabet=r"ab.*+?()[]{}|^$\dpQ:1,-", max_size=12))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        Regex(text).matches("ab1")
    except BadRegex:
        pass


def test_names_of_any_letters_match() -> None:
    assert Regex("ü.[^a]").matches("üöß")
    assert Regex("a.").matches("a\ud800")
    with pytest.raises(BadRegex, match="no text"):
        Regex("\udcff")


def test_a_part_is_found_in_either_case() -> None:
    assert Regex("B+c", ignore_case=True).finds("abbCd")
    assert not Regex("B+c").finds("abbCd")


def test_so_much_work_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "WORK_S", 0.0)
    with pytest.raises(BadRegex, match="too much work"):
        Regex("a").matching(["a"])
    assert Regex("a").matching([]) == []
