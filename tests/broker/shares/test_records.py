"""The bytes of `__share_group_state`: whole, byte by byte, and whatever else may come."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.groups.cursor import BadRecord
from headwater.broker.shares.records import (
    SNAPSHOT,
    UPDATE,
    Key,
    Value,
    read_key,
    read_value,
    write_key,
    write_value,
)
from headwater.broker.shares.state import Change, State

KEY = Key("orders", uuid.UUID(int=7), 3)
OFFSETS = st.integers(0, 2**63 - 1)
CHANGES = st.builds(
    lambda first, size, state, deliveries: Change(
        first, min(first + size, 2**63 - 1), state, deliveries
    ),
    OFFSETS,
    st.integers(0, 1000),
    st.sampled_from([State.AVAILABLE, State.ACKNOWLEDGED, State.ARCHIVED]),
    st.integers(0, 32767),
)


def test_a_key_is_laid_out_as_kafka_does() -> None:
    assert write_key(SNAPSHOT, KEY) == (b"\0\0" + b"\0\6orders" + bytes(15) + b"\7" + b"\0\0\0\3")
    assert read_key(write_key(UPDATE, KEY)) == (UPDATE, KEY)


def test_an_update_is_laid_out_as_kafka_does() -> None:
    value = Value(2, 10, [Change(10, 12, State.ACKNOWLEDGED, 1)], complete=3)
    assert write_value(UPDATE, value) == (
        b"\0\0"  # version
        b"\0\0\0\2"  # snapshot epoch
        b"\0\0\0\0"  # leader epoch
        b"\0\0\0\0\0\0\0\x0a"  # start offset
        b"\2"  # one batch
        b"\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x0c\2\0\1\0"
        b"\1\0\4\0\0\0\3"  # tag 0: delivery complete count
    )


@given(
    st.sampled_from([SNAPSHOT, UPDATE]),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.lists(CHANGES, max_size=200),
    st.integers(-1, 2**31 - 1),
    st.tuples(st.integers(0, 2**31 - 1), OFFSETS, OFFSETS),
)
def test_what_is_written_is_read_back(
    kind: int,
    epoch: int,
    start: int,
    changes: list[Change],
    complete: int,
    more: tuple[int, int, int],
) -> None:
    value = Value(epoch, start, changes, complete)
    if kind == SNAPSHOT:
        value = Value(epoch, start, changes, complete, *more)
    assert read_value(kind, write_value(kind, value)) == value


@given(st.text(max_size=50).filter(lambda text: "\ud800" not in text), st.uuids())
def test_any_group_has_a_key(group_id: str, topic_id: uuid.UUID) -> None:
    key = Key(group_id, topic_id, 5)
    assert read_key(write_key(SNAPSHOT, key)) == (SNAPSHOT, key)


@pytest.mark.parametrize("kind", [SNAPSHOT, UPDATE])
def test_a_record_that_breaks_off_or_goes_on_is_refused(kind: int) -> None:
    whole = write_value(kind, Value(1, 2, [Change(2, 3, State.ARCHIVED, 4)], complete=2))
    for size in range(len(whole)):
        with pytest.raises(BadRecord):
            read_value(kind, whole[:size])
    with pytest.raises(BadRecord):
        read_value(kind, whole + b"\0")
    key = write_key(kind, KEY)
    for size in range(len(key)):
        with pytest.raises(BadRecord):
            read_key(key[:size])


@given(st.sampled_from([SNAPSHOT, UPDATE]), st.binary(max_size=120))
def test_any_bytes_parse_or_are_refused(kind: int, data: bytes) -> None:
    for read in (lambda: read_key(data), lambda: read_value(kind, data)):
        try:
            read()
        except BadRecord:
            pass
