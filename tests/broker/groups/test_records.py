"""The formats of `__consumer_offsets`: whole, byte by byte, with trailing bytes, and any bytes."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.groups import member, records
from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.effects import Now
from headwater.broker.groups.member import Member
from headwater.broker.groups.records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
)
from headwater.broker.groups.subscription import topics_of

text = st.text(max_size=20)
i32 = st.integers(0, 2**31 - 1)
i64 = st.integers(0, 2**63 - 1)
offset_keys = st.builds(OffsetKey, text, text, i32)
topic_ids = st.uuids().filter(lambda each: each.int)
offset_values = (
    st.builds(OffsetValue, i64, st.just(-1), text, i64, i64)
    | st.builds(OffsetValue, i64, i32, text, i64)
    | st.builds(OffsetValue, i64, i32, text, i64, st.just(-1) | i64, topic_ids)
)
members = st.builds(
    MemberValue,
    text,
    st.none() | text,
    text,
    text,
    i32,
    i32,
    st.binary(max_size=20),
    st.binary(max_size=20),
)
group_values = st.builds(
    GroupValue,
    text,
    i32,
    st.none() | text,
    st.none() | text,
    i64,
    st.lists(members, max_size=3).map(tuple),
)


@given(offset_keys)
def test_an_offset_key_comes_back_as_it_was(key: OffsetKey) -> None:
    assert records.read_key(records.offset_key(key)) == key


@given(offset_values)
def test_an_offset_value_comes_back_as_it_was(value: OffsetValue) -> None:
    assert records.read_offset_value(records.offset_value(value)) == value


@given(text)
def test_a_group_key_comes_back_as_it_was(group_id: str) -> None:
    assert records.read_key(records.group_key(group_id)) == GroupKey(group_id)


@given(group_values)
def test_a_group_value_comes_back_as_it_was(value: GroupValue) -> None:
    assert records.read_group_value(records.group_value(value)) == value


def test_the_bytes_are_those_of_kafka() -> None:
    assert records.offset_key(OffsetKey("g", "to", 7)) == bytes.fromhex(
        "0001 0001 67 0002 746f 00000007"
    )
    assert records.offset_value(OffsetValue(5, 2, "m", 9)) == bytes.fromhex(
        "0003 0000000000000005 00000002 0001 6d 0000000000000009"
    )
    assert records.offset_value(OffsetValue(5, 2, "m", 9, 10)) == bytes.fromhex(
        "0001 0000000000000005 0001 6d 0000000000000009 000000000000000a"
    )
    assert records.group_key("g") == bytes.fromhex("0002 0001 67")
    member = MemberValue("id", None, "c", "/h", 3, 4, b"s", b"a")
    assert records.group_value(GroupValue("p", 1, None, "id", 9, (member,))) == bytes.fromhex(
        "0003 0001 70 00000001 ffff 0002 6964 0000000000000009 00000001"
        "0002 6964 ffff 0001 63 0002 2f68 00000003 00000004 00000001 73 00000001 61"
    )


def test_older_and_newer_versions_of_an_offset_value_are_read() -> None:
    body = struct.pack(">q", 5)
    meta, when = b"\x00\x01m", struct.pack(">q", 9)
    expected = OffsetValue(5, -1, "m", 9)
    assert records.read_offset_value(b"\0\0" + body + meta + when) == expected
    assert records.read_offset_value(b"\0\2" + body + meta + when) == expected
    flexible = b"\0\4" + body + struct.pack(">i", 2) + b"\2m" + when
    with_topic_id = flexible + b"\1\0\x10" + bytes(16)
    assert records.read_offset_value(flexible + b"\0") == OffsetValue(5, 2, "m", 9)
    assert records.read_offset_value(with_topic_id) == OffsetValue(5, 2, "m", 9)


def test_an_expiry_beside_a_topics_id_is_a_tagged_field() -> None:
    value = OffsetValue(5, 2, "m", 9, 10, UUID(int=7))
    data = records.offset_value(value)
    assert data == bytes.fromhex(
        "0004 0000000000000005 00000002 02 6d 0000000000000009"
        "02 00 10 00000000000000000000000000000007 904e 08 000000000000000a"
    )
    with pytest.raises(BadRecord, match="an expiry of 7 bytes"):
        records.read_offset_value(data[:-9] + b"\x07" + data[-7:])


def test_older_and_newer_versions_of_a_group_value_are_read() -> None:
    head = b"\0\1p" + struct.pack(">i", 1) + b"\xff\xff" + b"\xff\xff"
    member = b"\0\1i\0\1c\0\1h" + struct.pack(">i", 30) + b"\0\0\0\1s" + b"\0\0\0\1a"
    value = records.read_group_value(b"\0\0" + head + b"\0\0\0\1" + member)
    assert value.state_timestamp == -1
    assert value.members == (MemberValue("i", None, "c", "h", 30, 30, b"s", b"a"),)
    flexible = (
        b"\0\4\2p" + struct.pack(">i", 1) + b"\0\0" + struct.pack(">q", 9)
        + b"\2" + b"\2i\0\2c\2h" + struct.pack(">ii", 20, 30) + b"\2s\2a\0" + b"\0"
    )  # fmt: skip
    value = records.read_group_value(flexible)
    assert value == GroupValue(
        "p", 1, None, None, 9, (MemberValue("i", None, "c", "h", 20, 30, b"s", b"a"),)
    )


def test_a_record_of_another_group_type_is_left_to_that_type() -> None:
    assert records.read_key(b"\0\3anything") is None


SAMPLES = [
    (records.read_key, records.offset_key(OffsetKey("group", "topic", 3))),
    (records.read_key, records.group_key("group")),
    (records.read_offset_value, records.offset_value(OffsetValue(1, 2, "meta", 3))),
    (
        records.read_group_value,
        records.group_value(
            GroupValue("p", 1, "r", "l", 2, (MemberValue("m", "i", "c", "h", 1, 2, b"s", b"a"),))
        ),
    ),
]


@pytest.mark.parametrize(("read", "data"), SAMPLES)
def test_a_record_that_is_cut_short_is_refused_at_every_byte(read: object, data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(BadRecord):
            read(data[:end])  # type: ignore[operator]


@pytest.mark.parametrize(("read", "data"), SAMPLES)
def test_bytes_that_follow_a_record_are_refused(read: object, data: bytes) -> None:
    with pytest.raises(BadRecord):
        read(data + b"\0")  # type: ignore[operator]


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_raise(data: bytes) -> None:
    for read in (
        records.read_key,
        records.read_offset_value,
        records.read_group_value,
        topics_of,
    ):
        try:
            read(data)
        except BadRecord:
            pass


def test_a_string_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BadRecord):
        records.group_key("x" * 40_000)


def test_the_topics_of_a_subscription_are_read_in_every_version() -> None:
    topics = b"\0\0\0\2\0\1a\0\1b"
    for version in range(4):
        metadata = struct.pack(">h", version) + topics + b"\0\0\0\0" + b"later fields"
        assert topics_of(metadata) == {"a", "b"}


def subscriber(name: str, subscription: bytes) -> Member:
    return Member(name, None, "", "", 0, 0, (("range", subscription),))


def test_what_members_subscribe_to_is_read_when_they_say_it_and_kept_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a thousand members with thousands of topics each it would hold up everybody else."""
    group = ClassicGroup("g", Now(0, 0))
    group.protocol_type, group.protocol = "consumer", "range"
    for number in range(3):
        group.add(subscriber(f"m{number}", b"\0\0\0\0\0\1\0\1a"))
    group.add(subscriber("other", b"\0\1\0\0\0\1\0\1b"))
    with monkeypatch.context() as patch:
        patch.setattr(member, "topics_of", None)
        group.read_subscriptions()
    assert [group.subscribes(topic) for topic in "abc"] == [True, True, False]
    assert group.subscribed is not None
    assert len(group.subscribed) == 2
    group.change_protocols(group.members["m0"], (("range", b"?"),))
    group.read_subscriptions()
    assert group.subscribed is None
    assert group.subscribes("c"), "nobody knows"
