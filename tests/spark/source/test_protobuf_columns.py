"""Protobuf to columns in compiled code says what Protobuf's own library says, whatever the message."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas import kinds
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.protobuf import ProtobufCodec
from headwater.spark.source.values import python
from headwater.spark.source.values.protobuf_columns import plan as protobuf_plan
from headwater.spark.source.values.protobuf_columns.arrays import ProtobufColumns

PREFIX = b"\0\0\0\0\7\0"
TEXT = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Row {
  int64 a = 1; optional int32 b = 2; uint32 c = 3; uint64 d = 4; sint32 e = 5; optional sint64 f = 6;
  bool g = 7; fixed32 h = 8; fixed64 i = 9; sfixed32 j = 10; sfixed64 k = 11; float l = 12;
  double m = 13; string n = 14; optional string o = 15; bytes p = 100; Size q = 1000;
  google.protobuf.Timestamp at = 16; Inner inner = 17; repeated int32 unread = 18; Unread other = 19;
  optional bool r = 20;
}
message Inner { string name = 1; Inner2 more = 2; }
message Inner2 { optional int64 x = 3; }
message Unread { string s = 1; }
enum Size { SMALL = 0; LARGE = 1; HUGE = -3; }
"""
CODEC = ProtobufCodec(kinds.parse("PROTOBUF", TEXT, (), is_new=False), in_micros=True)
ROW = GetMessageClass(CODEC.message())
UNSIGNED = pa.decimal128(20, 0)
INNER = pa.struct([("name", pa.string()), ("more", pa.struct([("x", pa.int64())]))])
KIND = pa.struct(
    [
        *[("a", pa.int64()), ("b", pa.int32()), ("c", pa.int64()), ("d", UNSIGNED)],
        *[("e", pa.int32()), ("f", pa.int64()), ("g", pa.bool_()), ("h", pa.int64())],
        *[("i", UNSIGNED), ("j", pa.int32()), ("k", pa.int64()), ("l", pa.float32())],
        *[("m", pa.float64()), ("n", pa.string()), ("o", pa.string()), ("p", pa.binary())],
        *[("q", pa.string()), ("at", pa.timestamp("us", "UTC")), ("inner", INNER)],
        *[("r", pa.bool_()), ("new", pa.int64())],
    ]
)
INT, LONG = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))
UINT, ULONG = (st.integers(0, (1 << bits) - 1) for bits in (32, 64))
STAMP = st.fixed_dictionaries(
    {"seconds": st.integers(-62_135_596_800, 253_402_300_799), "nanos": st.integers(0, 999_999_999)}
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "a": LONG, "b": INT, "c": UINT, "d": ULONG, "e": INT, "f": LONG, "g": st.booleans(), "h": UINT,
    "i": ULONG, "j": INT, "k": LONG, "l": st.floats(width=32, allow_nan=False),
    "m": st.floats(allow_nan=False), "n": st.text(max_size=9), "o": st.text(max_size=9),
    "p": st.binary(max_size=9), "q": st.sampled_from([0, 1, -3]), "at": STAMP,
    "inner": st.fixed_dictionaries({}, optional={"name": st.text(max_size=5),
        "more": st.fixed_dictionaries({}, optional={"x": LONG})}),
    "unread": st.lists(INT, max_size=3), "r": st.booleans(),
    "other": st.fixed_dictionaries({"s": st.text(max_size=5)}),
}  # fmt: skip
ROWS = st.fixed_dictionaries({}, optional=FIELDS)


def plan() -> ProtobufColumns:
    made = protobuf_plan.plan(CODEC.message(), KIND)
    assert made is not None
    return made


def one_by_one(values: list[bytes | None]) -> tuple[list[Any], list[int]]:
    """What the values are, read as they were before: by Protobuf's own library, to JSON, to the type."""

    def parse(value: bytes) -> Any:
        try:
            return CODEC.decode(value[5:])
        except NotOfItsSchema as error:
            raise python.Misfit(str(error)) from None

    found, bad = python.convert(pa.array(values, pa.binary()), KIND, parse)
    return found.to_pylist(), [each.row for each in bad]


def written(message: Message) -> bytes:
    return PREFIX + message.SerializeToString()


@given(st.lists(ROWS, max_size=8), st.data())
def test_columns_are_what_protobuf_reads(rows: list[dict[str, Any]], data: st.DataObject):
    values: list[bytes | None] = [None, *(written(ROW(**row)) for row in rows)]
    begin = data.draw(st.integers(0, 1))
    made = plan().convert(pa.array(values, pa.binary()).slice(begin))
    assert made is not None
    structs, verdicts = made
    assert not verdicts.any()
    assert structs.to_pylist() == one_by_one(values[begin:])[0]


@given(st.lists(ROWS, min_size=1, max_size=4), st.data())
def test_a_value_that_breaks_off_or_is_two_in_one_is_read_as_protobuf_reads_it(
    rows: list[dict[str, Any]], data: st.DataObject
):
    values: list[bytes] = []
    for row in rows:
        whole = written(ROW(**row))
        values.append(whole[: data.draw(st.integers(6, len(whole)))])
        values.append(whole + written(ROW(**data.draw(ROWS)))[len(PREFIX) :])
    _alike(values)


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_bytes_are_read_alike_or_left_to_protobuf(bodies: list[bytes]):
    _alike([PREFIX + body for body in bodies])


def _alike(values: list[bytes]) -> None:
    made = plan().convert(pa.array(values, pa.binary()))
    if made is None:
        return  # a text that is none: all of them are read one by one
    for value, struct, verdict in zip(values, made[0].to_pylist(), made[1], strict=True):
        message = ROW()
        try:
            message.ParseFromString(value[len(PREFIX) :])
        except DecodeError:
            # Only what nobody asked for may be wrong: nobody looks into it.
            assert verdict or b"\x9a\x01" in value or b"\x92\x01" in value
            continue
        if not verdict:
            (found,), bad = one_by_one([value])
            assert not bad
            assert repr(struct) == repr(found)  # NaN is NaN


@pytest.mark.parametrize("more", [{"q": 7}, {"at": {"seconds": 1, "nanos": -1}}])
def test_what_only_shows_later_is_left_to_who_reads_one_by_one(more: dict[str, Any]):
    values = [written(ROW(a=1)), written(ROW(a=2, **more)), written(ROW(a=3))]
    made = plan().convert(pa.array(values, pa.binary()))
    assert made is not None
    assert made[1].tolist() == [0, 1, 0]
    assert [each and each["a"] for each in made[0].to_pylist()] == [1, None, 3]


def test_a_time_is_cut_off_at_the_microsecond_and_in_json_it_is_whole():
    times = [{"seconds": 1, "nanos": 123_456_789}, {"seconds": -1, "nanos": 999_999_999}]
    values = [written(ROW(at=each)) for each in times]
    made = plan().convert(pa.array(values, pa.binary()))
    assert made is not None
    assert not made[1].any()
    assert [each["at"].isoformat() for each in made[0].to_pylist()] == [
        "1970-01-01T00:00:01.123456+00:00",
        "1969-12-31T23:59:59.999999+00:00",
    ]
    whole = ProtobufCodec(kinds.parse("PROTOBUF", TEXT, (), is_new=False))
    assert whole.decode(values[0][5:])["at"] == "1970-01-01T00:00:01.123456789Z"


def test_another_message_of_the_file_is_not_read_here():
    made = plan().convert(
        pa.array([b"\0\0\0\0\7\2\2", b"\0\0\0\0\7\2\0", b"\0\0\0\0\7"], pa.binary())
    )
    assert made is not None
    assert made[1].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "field",
    ["repeated int64 a = 1;", "map<string, int64> a = 1;", "oneof x { int64 a = 1; int64 z = 2; }"],
)
def test_lists_maps_and_choices_are_left_to_who_reads_one_by_one(field: str):
    text = f'syntax = "proto3"; message M {{ {field} }}'
    codec = ProtobufCodec(kinds.parse("PROTOBUF", text, (), is_new=False))
    assert protobuf_plan.plan(codec.message(), pa.struct([("a", pa.int64())])) is None


@pytest.mark.parametrize(("seconds", "nanos"), [(1, -5), (10**15, 0), (-(10**15), 0)])
def test_a_time_that_is_none_does_not_fit_its_schema(seconds: int, nanos: int) -> None:
    """Protobuf's own library raises something else for it, which would end the query."""
    message = ROW(at={"seconds": seconds, "nanos": nanos})
    with pytest.raises(NotOfItsSchema, match="Timestamp"):
        CODEC.decode(PREFIX[5:] + message.SerializeToString())
