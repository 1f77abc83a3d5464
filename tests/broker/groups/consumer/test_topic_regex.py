"""Which topics an expression means: only new names are looked at, many of them in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial

import pytest

from headwater import regex
from headwater.broker.expression_thread import ExpressionThread
from headwater.broker.groups.consumer.topic_regex import (
    Aside,
    BadRegex,
    Budget,
    TopicRegex,
    compiled,
    look,
    names_of,
)
from headwater.regex import Regex


@pytest.fixture
def aside() -> Iterator[Aside]:
    thread = ExpressionThread()
    yield partial(thread.run, "here")
    thread.close()


def names(count: int, letters: int = 200) -> list[str]:
    return [f"{number:06d}" + "x" * letters for number in range(count)]


def test_only_names_that_are_new_are_looked_at_again() -> None:
    machine = TopicRegex(".*5x+")
    first = names(3000)
    found = machine.among(first)
    assert len(found) == 300
    assert machine.steps(first) == 0
    assert 0 < machine.steps([*first, "new"]) < machine.steps(["other"]) * 3
    gone = first[5:]
    assert machine.among([*gone, "5x"]) == found - {first[5 - 5], *first[:5]} | {"5x"}


async def test_many_names_are_looked_at_in_a_thread_and_known_then(
    aside: Aside,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def matching(regex: Regex, names: Iterable[str]) -> list[str]:
        threads.append(threading.current_thread().name)
        return [name for name in names if regex.matches(name)]

    monkeypatch.setattr(Regex, "matching", matching)
    expression = "[0-9]*7x+"
    await look(aside, [expression], names(5))
    assert threads == [], "so few are looked at when they are asked for"
    await look(aside, [expression], names(2000))
    assert [name.startswith("headwater-expression") for name in threads] == [True]
    assert len(compiled(expression).among(names(2000))) == 200
    assert len(threads) == 1, "and not again"


async def test_what_is_too_much_work_is_so_at_once_the_second_time(
    aside: Aside,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expression = "(x|y|[0-9])*(a|b|c)?(x*)*q?"
    monkeypatch.setattr(regex, "WORK_S", 0.0)
    await look(aside, [expression], names(2000))
    monkeypatch.undo()
    known = compiled(expression)
    assert known.steps(names(2000)) == 0
    with pytest.raises(BadRegex):
        known.among(names(2000))


async def test_many_expressions_share_what_the_event_loop_has_time_for(aside: Aside) -> None:
    few, expressions = names(5), [f"[0-9]*{number}x+" for number in range(300)]
    looked = await look(aside, expressions, few)
    assert all(each.has_seen(names_of(few)) for each in looked)
    more = names_of(names(6))
    budget = Budget()
    assert 0 < [budget.allows(each, more) for each in looked].count(True) < 20


async def test_what_is_in_use_is_known_however_many_others_were_asked_for(aside: Aside) -> None:
    looked = await look(aside, ["[0-9]*8x+"], names(2000))
    for number in range(200):
        compiled(f"other{number}")
    assert compiled("[0-9]*8x+") is looked[0]


def test_no_expression_is_said_to_be_none_every_time() -> None:
    for _ in range(2):
        with pytest.raises(BadRegex):
            compiled("(").check()
