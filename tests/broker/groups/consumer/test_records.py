"""The records of consumer groups: round trips, and any bytes are a value or `BadRecord`."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.groups.consumer import records
from headwater.broker.groups.consumer.member import ClassicSide
from headwater.broker.groups.consumer.records import KINDS, CurrentValue, MemberValue, RegexValue
from headwater.broker.groups.consumer.replay import READERS
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.modern.member import MemberState
from headwater.broker.groups.modern.records import Key, target_value

A, B = UUID(int=1), UUID(int=2)
MEMBER = MemberValue(
    "i", None, "client", "/host", frozenset({"t", "u"}), "t.*", 30_000, "range",
    ClassicSide(10_000, (("range", b"\0\1"), ("sticky", b""))),
)  # fmt: skip
CURRENT = CurrentValue(5, 4, MemberState.UNREVOKED, {A: {0: 3, 2: 5}}, {B: {1: 4}})

EXAMPLES = [
    (records.GROUP, records.group_value(7, -9), (7, -9)),
    (records.GROUP, records.group_value(7, 0), (7, 0)),
    (records.MEMBER, records.member_value(MEMBER), MEMBER),
    (records.TARGET, target_value(7, 123), (7, 123)),
    (
        records.MEMBER_TARGET,
        records.member_target_value({A: frozenset({1, 0})}),
        {A: frozenset({0, 1})},
    ),
    (records.CURRENT, records.current_value(CURRENT), CURRENT),
    (
        records.REGEX,
        records.regex_value(RegexValue(frozenset({"t"}), 3, 4)),
        RegexValue(frozenset({"t"}), 3, 4),
    ),
]


@pytest.mark.parametrize(("kind", "data", "value"), EXAMPLES)
def test_a_value_is_read_as_it_was_written(kind: int, data: bytes, value: object) -> None:
    assert READERS[kind](data) == value


@pytest.mark.parametrize(("kind", "data", "value"), EXAMPLES)
def test_a_value_that_is_cut_or_followed_by_bytes_is_refused(
    kind: int, data: bytes, value: object
) -> None:
    for wrong in (*(data[:end] for end in range(len(data))), data + b"\0"):
        with pytest.raises(BadRecord):
            READERS[kind](wrong)


@pytest.mark.parametrize("kind", [*READERS, records.PARTITIONS])
def test_a_key_is_read_as_it_was_written(kind: int) -> None:
    name = "m" if KINDS.has_name(kind) else ""
    assert KINDS.read_key(KINDS.key(kind, "g", name)) == Key(kind, "g", name)


@given(st.sampled_from(sorted(READERS)), st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_bad_record(kind: int, data: bytes) -> None:
    try:
        READERS[kind](b"\0\0" + data)
    except BadRecord:
        pass
