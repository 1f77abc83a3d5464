"""`when = …`, windows and what is news: pure, with the time handed in."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.client.errors import BadRequest
from headwater.client.records import Record
from headwater.edges.alerts import judge as judging
from headwater.edges.alerts import rules
from headwater.edges.alerts.judge import Judge, Values
from headwater.edges.alerts.notices import Notice, Said, notice_of, said, shown
from headwater.edges.alerts.rules import Aggregate, Beyond, Field, Lag, Matches, Silence, parse
from headwater.edges.alerts.watcher import Window


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("lag > 1000", Lag(Beyond(">", 1000))),
        ("lag>=30s", Lag(Beyond(">=", 30), in_seconds=True)),
        ("silence > 5m", Silence(300)),
        ("silence for 500ms", Silence(0.5)),
        ("matches", Matches()),
        ("after.total < -2.5", Field("after.total", Beyond("<", -2.5))),
        ("count > 100 in 1m", Aggregate("count", "", Beyond(">", 100), 60)),
        ("avg(after.total)  <=  5 in 2h", Aggregate("avg", "after.total", Beyond("<=", 5), 7200)),
    ],
)
def test_a_rule_is_understood(text: str, rule: rules.Rule):
    assert parse(text) == rule


@pytest.mark.parametrize(
    "text", ["", "lag", "lag > x", "count > 5", "silence > 5", "silence < 5m", "mean(x) > 1 in 1m"]
)
def test_what_is_no_rule_is_told_with_examples(text: str):
    with pytest.raises(BadRequest) as told:
        parse(text)
    assert "lag > 1000" in (told.value.hint or "")


@given(st.text(max_size=40))
def test_any_words_are_a_rule_or_an_error_of_ours(text: str):
    try:
        parse(text)
    except BadRequest:
        pass


def test_a_window_forgets_what_is_older_than_it():
    """
    at     0    10   20   30        69
    value  5    1    9    .
    now                   30: all   69: only 9 and what follows
    """
    window = Window(60)
    for at, value in ((0, 5.0), (10, 1.0), (20, 9.0)):
        window.add(at * 1000, value, now_ms=20_000)
    folds = ("count", "sum", "avg", "min", "max")
    assert [window.value(fold, 30_000) for fold in folds] == [3, 15, 5, 1, 9]
    assert [window.value(fold, 72_000) for fold in folds] == [1, 9, 9, 9, 9]
    assert [window.value(fold, 900_000) for fold in folds] == [0, 0, None, None, None]
    window.add(0, 5.0, now_ms=900_000)  # too old to count
    window.add(2_000_000, 5.0, now_ms=900_000)  # a clock that is ahead: now
    assert window.value("count", 900_000) == 1


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(-9, 9)), max_size=80))
def test_a_window_agrees_with_a_list_of_everything_up_to_a_bucket(found: list[tuple[int, int]]):
    window, now = Window(60), 200_000
    for at, value in sorted(found):
        window.add(at * 1000, value, now_ms=now)
    surely = [value for at, value in found if at * 1000 > now - 59_000]
    perhaps = [value for at, value in found if at * 1000 > now - 60_000]
    assert len(surely) <= (window.value("count", now) or 0) <= len(perhaps)


def test_only_a_change_is_news():
    judge = Judge("late", Said())
    results = [judge.measured(bad, "…", at) for at, bad in enumerate([0, 1, 1, 0, 0, 1])]
    states = [None if each is None else each.state for each in results]
    assert states == [None, "firing", None, "recovered", None, "firing"]
    assert results[3] is not None and results[3].since_ms == 1


def test_what_was_said_before_a_restart_is_not_said_again():
    judge = Judge("late", Said())
    first = judge.measured(True, "…", 1)
    other = Notice("other", "firing", "…", 2)
    assert first is not None
    again = Judge("late", said("late", [first.draft().value, other.draft().value, b"junk", None]))
    assert again.measured(True, "…", 3) is None
    recovered = again.measured(False, "…", 4)
    assert recovered is not None and (recovered.state, recovered.since_ms) == ("recovered", 1)
    assert notice_of(recovered.draft().value) == recovered


def record(offset: int, total: object, key: str | None = "a") -> Record:
    value = b'{"total": %s}' % str(total).encode()
    return Record("orders", 0, offset, 0, None if key is None else key.encode(), value)


def values(before: Said | None = None) -> Values:
    rule = parse("total > 10")
    assert isinstance(rule, Field)
    return Values(Judge("high", before or Said()), rule, None, Decoder())


def test_a_value_fires_and_recovers_for_each_key_by_itself():
    records = [record(0, 5), record(1, 11), record(2, 50, "b"), record(3, 12), record(4, 1)]
    found = values().look(records, 7)
    assert [(each.state, each.subject, each.value) for each in found] == [
        ("firing", "a", 11),
        ("firing", "b", 50),
        ("recovered", "a", 1),
    ]
    assert found[0].summary == "total of a is above 10: 11"
    assert found[2].summary == "total of a is no longer above 10: 1"
    assert found[0].draft().key == b"high|a"


def test_a_value_that_is_no_number_says_nothing():
    assert values().look([record(0, '"x"'), record(1, "true"), record(2, "null")], 0) == []


@pytest.mark.parametrize(
    ("number", "is_told"),
    [("1" + "0" * 400, True), ("1e999", True), ("-1" + "0" * 400, False), ("NaN", False)],
)
def test_a_number_beyond_all_floats_is_the_largest_and_ends_nothing(number: str, is_told: bool):
    found = values().look([record(0, number)], 1)
    assert [notice_of(each.draft().value) for each in found] == found
    assert bool(found) == is_told
    window = Window(60)
    for value in (1e308, 1e308, -1e308):
        window.add(1, value, now_ms=1)
    assert all(isfinite(window.value(fold, 1) or 0) for fold in ("sum", "avg", "min", "max"))


@pytest.mark.parametrize(
    "forged",
    [
        {"record": {}},
        {"record": 5},
        {"record": {"topic": "t", "partition": 0, "offset": "x", "key": None, "value": None}},
        {"subject": ["x"]},
        {"state": "fir\0ing"},
        {"summary": None},
        {"at_ms": "now"},
    ],
)
def test_what_somebody_else_wrote_into_the_topic_is_no_notice(forged: dict[str, object]):
    good = Notice("late", "firing", "…", 1, record=shown(record(3, 12)))
    value = json.dumps({**asdict(good), **forged}).encode()
    assert notice_of(good.draft().value) == good
    assert notice_of(value) is None
    assert said("late", [value, good.draft().value]).firing == {None: 1}


def test_records_that_are_read_again_after_a_kill_change_nothing():
    records = [record(0, 11), record(1, 1), record(2, 12), record(3, 13)]
    first = values().look(records, 0)
    assert [each.state for each in first] == ["firing", "recovered", "firing"]
    for known in range(len(first) + 1):  # killed when so many of them were stored
        before = said("high", [each.draft().value for each in first[:known]])
        rest = values(before).look(records, 0)
        assert [each.state for each in rest] == [each.state for each in first[known:]]


def test_matches_are_told_at_once_and_then_together():
    """
    now      0      1 2 3      60
    record   0      1 2 3
    told     0                 1, and 2 more up to 3
    """
    keep = Filter(where=("total=1",)).compiled(Decoder())
    found = judging.Matches(Judge("odd", Said()), keep, every_ms=60_000)
    (first,) = found.look([record(0, 1), record(1, 2)], 0)
    assert first.summary == "a record matched: orders-0 at 0"
    assert found.waits_at(("orders", 0)) is None
    assert found.look([record(2, 1), record(3, 1)], 1000) == []
    assert found.look([record(4, 1)], 3000) == []
    assert found.waits_at(("orders", 0)) == 2  # after a restart they are found again
    (rest,) = found.tick(60_000)
    assert rest.summary == "a record matched: orders-0 at 2, and 2 more up to 4"
    assert (rest.value, rest.place) == (3, (("orders", 0), 4))
    assert found.waits_at(("orders", 0)) is None


def test_so_many_subjects_fire_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judging, "SUBJECTS_MAX", 2)
    judge = Judge("high", Said())
    for subject in ("a", "b", "c"):
        judge.measured(True, "…", 0, subject=subject)
    assert (judge.firing, judge.left_out) == (2, 1)
