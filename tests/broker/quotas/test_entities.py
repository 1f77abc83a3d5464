"""Whose quota counts, what may be set, and what a filter finds."""

from __future__ import annotations

import pytest

from headwater.broker.api.k48_describe_client_quotas import EXACT, Component, matches
from headwater.broker.api.k49_alter_client_quotas import (
    Operation,
    QuotaRefused,
    changed,
    check_entity,
)
from headwater.broker.quotas.entities import CLIENT, IP, USER, Key, Table, entity

STRONG_TO_WEAK = [
    ({USER: "u", CLIENT: "c"}, ("u", "c")),
    ({USER: "u", CLIENT: None}, ("u", "c")),
    ({USER: "u"}, ("u", "")),
    ({USER: None, CLIENT: "c"}, ("u", "c")),
    ({USER: None, CLIENT: None}, ("u", "c")),
    ({USER: None}, ("u", "")),
    ({CLIENT: "c"}, ("", "c")),
    ({CLIENT: None}, ("", "c")),
]


@pytest.mark.parametrize("first", range(len(STRONG_TO_WEAK)))
def test_the_strongest_entity_that_has_the_quota_counts(first):
    table = Table()
    for place, (parts, _) in enumerate(STRONG_TO_WEAK):
        if place >= first:
            table.put(entity(parts), {Key.PRODUCE: float(place + 1)})
        else:
            table.put(entity(parts), {Key.FETCH: 1.0})  # another quota of its own
    limit = table.limit(Key.PRODUCE, "u", "c")
    assert limit is not None
    assert limit.value == first + 1
    assert limit.shared_by == STRONG_TO_WEAK[first][1]


def test_others_have_no_quota():
    table = Table()
    table.put(entity({USER: "u"}), {Key.PRODUCE: 1.0})
    assert table.limit(Key.PRODUCE, "v", "c") is None
    assert table.limit(Key.FETCH, "u", "c") is None
    table.put(entity({USER: "u"}), {})
    assert table.quotas == {}


def test_an_address_has_its_own_or_the_default():
    table = Table()
    table.put(entity({IP: None}), {Key.CONNECTION: 5.0})
    table.put(entity({IP: "10.0.0.1"}), {Key.CONNECTION: 9.0})
    assert [table.connection_limit(each).value for each in ("10.0.0.1", "10.0.0.2")] == [9.0, 5.0]


@pytest.mark.parametrize(
    "parts", [[], [("shoe", "x")], [(USER, "")], [(IP, "::1"), (USER, "u")], [(IP, "host")]]
)
def test_what_is_no_entity_is_refused(parts):
    with pytest.raises(QuotaRefused):
        check_entity(parts)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (Key.PRODUCE, 0.0),
        (Key.PRODUCE, -5.0),
        (Key.PRODUCE, float("nan")),
        (Key.PRODUCE, float("inf")),
        (Key.REQUEST, float("inf")),
        (Key.PRODUCE, 1.5),
        (Key.CONNECTION, 1.0),
        ("nope", 1.0),
    ],
)
def test_what_is_no_quota_of_a_user_is_refused(key, value):
    with pytest.raises(QuotaRefused):
        changed(entity({USER: "u"}), {}, [Operation(key, value)])


def test_operations_set_and_remove():
    before = {Key.PRODUCE: 1.0, Key.FETCH: 2.0}
    after = changed(
        entity({USER: "u"}), before, [Operation(Key.FETCH, None), Operation(Key.REQUEST, 12.5)]
    )
    assert after == {Key.PRODUCE: 1.0, Key.REQUEST: 12.5}


def test_a_strict_filter_wants_the_entity_and_nothing_more():
    both = entity({USER: "u", CLIENT: "c"})
    component = Component(USER, EXACT, "u")
    assert matches(both, [component], strict=False)
    assert not matches(both, [component], strict=True)
