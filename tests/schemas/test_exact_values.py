"""JSON sent by a schema is stored as what it says, or refused: never as another value."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.model import Imported
from headwater.schemas.protobuf.document import parse
from headwater.schemas.values.arrow import _encoder
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.codecs import Codec
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.json import JsonCodec
from headwater.schemas.values.protobuf import ProtobufCodec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True, scope="module")
def elsewhere() -> Iterator[None]:
    """A server whose clock is not UTC's."""
    was = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Kolkata"
    time.tzset()
    yield
    os.environ.pop("TZ") if was is None else os.environ.update(TZ=was)
    time.tzset()


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


FIXED = {"type": "fixed", "name": "F", "size": 16}
AVRO = {
    "int": "int", "long": "long", "float": "float", "double": "double", "string": "string",
    "bytes": "bytes", "boolean": "boolean", "null": "null", "fixed": FIXED,
    "decimal": logical("bytes", "decimal", precision=9, scale=3),
    "small": {**FIXED, "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2},
    "date": logical("int", "date"), "time-millis": logical("int", "time-millis"),
    "time-micros": logical("long", "time-micros"),
    "timestamp-millis": logical("long", "timestamp-millis"),
    "timestamp-micros": logical("long", "timestamp-micros"),
    "local-timestamp-millis": logical("long", "local-timestamp-millis"),
    "local-timestamp-micros": logical("long", "local-timestamp-micros"),
    "uuid": logical("string", "uuid"), "unknown": logical("long", "shoe-size"),
    "timestamp-nanos": logical("long", "timestamp-nanos"),
    "duration": {**FIXED, "size": 12, "logicalType": "duration"},
    "fixed-uuid": {**FIXED, "logicalType": "uuid"},
    "union": ["null", "int", "float", "double", "string", logical("long", "timestamp-millis")],
}  # fmt: skip
CODECS = {name: AvroCodec(json.dumps(kind)) for name, kind in AVRO.items()}
PROTO = """syntax = "proto3";
message M {
  int32 int32 = 1; uint64 uint64 = 2; sint64 sint64 = 3; float float = 4; double double = 5;
  string string = 6; bytes bytes = 7; bool bool = 8; map<int32, double> map = 9;
  repeated fixed32 fixed32 = 10; optional string note = 11; string two_words = 12;
}
"""
MESSAGE = ProtobufCodec(parse(PROTO, (), is_new=True))

digits = st.text("0123456789", min_size=1, max_size=24)
numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    digits.map(lambda text: str(int(text))),
    st.one_of(st.just(""), digits.map(lambda text: f".{text}")),
    st.sampled_from(["", "", "e3", "E-7", "e400", "e-400", "e39", "e-310"]),
)
edges = st.sampled_from(
    [f"{sign}{(1 << bits) + more}" for bits in (24, 31, 32, 53, 63, 64) for more in (-1, 0, 1)
     for sign in ("", "-")]
)  # fmt: skip
moments = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["2026-01-02T03:04:05", "1969-12-31T23:59:59", "0001-01-01T00:00:00",
                     "9999-12-31T23:59:59", "2026-01-02", "03:04:05", "20260102", "2026-02-30"]),
    st.one_of(st.just(""), st.text("0123456789", min_size=1, max_size=9).map(lambda t: f".{t}")),
    st.just(""),
    st.sampled_from(["", "Z", "+05:30", "-14:00"]),
)  # fmt: skip
texts = st.one_of(
    moments,
    numbers,
    st.text(max_size=8),
    st.text("ABCDab0123+/=-_ ", max_size=24),
    st.uuids().map(str),
    st.uuids().map(lambda each: each.hex),
    st.sampled_from(["NaN", "Infinity", "nan", "1_000", " 1", "\ud800"]),
)
tokens = st.one_of(
    numbers,
    edges,
    texts.map(json.dumps),
    st.sampled_from(["null", "true", "NaN", "Infinity", "-0", "-0.0", "[]", "{}", "1.0", "1e2"]),
)


def rounded_is_same(sent: Decimal | int, got: float) -> bool:
    """Of the digits that were sent, all are those of the number that is there."""
    sent = Decimal(sent)
    return Context(prec=len(sent.as_tuple().digits)).create_decimal(Decimal(got)) == sent


def instant(text: str) -> timedelta:
    """To the microsecond, since 1970; what is finer is 0 in all that is taken."""
    assert not re.search(r"\.\d{6}\d*[1-9]", text)
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH


def midnight(text: str) -> timedelta:
    return instant(f"1970-01-01T{text}")


UNITS = {"millis": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}


def is_same(kind: str, sent: object, got: object) -> bool:
    """`sent`: as JSON has it, numbers to their last digit; `got`: what a reader finds."""
    if kind in ("float", "double") and not isinstance(sent, str):
        return isinstance(got, float) and rounded_is_same(sent, got)  # type: ignore[arg-type]
    if kind in ("float", "double"):  # what is no number in JSON is the text that it was
        return sent == got if sent in ("NaN", "Infinity") else str(float(sent)) == str(got)  # type: ignore[arg-type]
    if kind in ("decimal", "small"):
        return Decimal(str(sent)) == Decimal(str(got))
    if kind == "date" and isinstance(sent, int):
        return got == (date(1970, 1, 1) + timedelta(days=sent)).isoformat()
    if "time" in kind and kind != "timestamp-nanos":
        of, unit = (instant if "timestamp" in kind else midnight), UNITS[kind.rpartition("-")[2]]
        wanted = sent * unit if isinstance(sent, int) else of(str(sent))
        has_zone = isinstance(sent, str) and bool(re.search(r"(Z|[+-]\d\d:\d\d)$", sent))
        if isinstance(sent, str) and has_zone != (kind.startswith("timestamp")):
            return False  # in whose zone?
        return of(str(got)) == wanted
    if kind == "uuid":
        return str(sent).lower() == got
    if kind == "union" and isinstance(got, float):
        return rounded_is_same(sent, got)  # type: ignore[arg-type]
    return type(sent) is type(got) and sent == got


def sent_back(codec: Codec, text: str) -> tuple[object, object] | None:
    """What was sent and what is there then; None: it was refused."""
    try:
        data = codec.encode_text(text)
    except NotOfItsSchema:
        return None
    sent = json.loads(text, parse_float=Decimal, parse_constant=lambda _: pytest.fail(text))
    return sent, codec.decode(data)


@pytest.mark.parametrize("kind", AVRO)
@given(token=tokens)
def test_avro_is_what_was_sent(kind: str, token: str):
    found = sent_back(CODECS[kind], token)
    assert found is None or is_same(kind, *found), (token, found)


FIELDS = ["int32", "uint64", "sint64", "float", "double", "string", "bytes", "bool", "note"]


@pytest.mark.parametrize("field", FIELDS)
@given(token=tokens)
def test_protobuf_is_what_was_sent(field: str, token: str):
    found = sent_back(MESSAGE, f'{{"{field}":{token}}}')
    if found is None:
        return
    (sent,), got = found[0].values(), found[1][field]  # type: ignore[attr-defined, index]
    if field in ("float", "double"):
        sent = Decimal(sent) if isinstance(sent, str) and sent not in ("NaN", "Infinity") else sent
        assert is_same(field, sent, got), (token, got)
    elif field.endswith(("32", "64")):
        assert Decimal(sent) == got, (token, got)  # a text, too: so Protobuf's JSON has 64 bits
    elif field == "bytes":
        assert sent.rstrip("=").replace("-", "+").replace("_", "/") == got.rstrip("=")
    else:
        assert is_same(field, sent, got), (token, got)


@given(token=tokens)
def test_json_is_stored_to_the_letter(token: str):
    codec = JsonCodec("true", ())
    text = f'{{"b": {token},\n "a":[{token}]}}'
    try:
        data = codec.encode_text(text)
    except NotOfItsSchema:
        return
    assert data.decode() == text


TAKEN = [
    ("double", "0.1"), ("double", "0.10000000000000001"), ("double", "5e-324"), ("double", '"NaN"'),
    ("float", "0.1"), ("float", "3.1415927"), ("float", "16777216"), ("double", "1.7976931348623157e308"),
    ("decimal", '"12.5"'), ("decimal", "-999999.999"), ("decimal", "12.5000"), ("decimal", "1e2"),
    ("small", "-1234.56"), ("date", '"2026-01-02"'), ("date", "0"), ("time-millis", '"03:04:05.678"'),
    ("timestamp-millis", '"2026-01-02T03:04:05.678+05:30"'), ("timestamp-micros", "-1"),
    ("local-timestamp-micros", '"2026-01-02T03:04:05.678901"'), ("unknown", "43"),
    ("timestamp-nanos", "1767323045678901234"), ("duration", '"AAAAAAAAAAAAAAAA"'),
    ("time-millis", "86399999"), ("time-micros", "0"),
    ("fixed-uuid", '"AAAAAAAAAAAAAAAAAAAAAA=="'), ("union", "0.1"), ("union", "3000000000"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "token"), TAKEN)
def test_avro_takes_what_it_can_hold(kind: str, token: str):
    assert sent_back(CODECS[kind], token) is not None


REFUSED = [
    ("double", "1e400"), ("double", "9007199254740993"), ("double", "0.1234567890123456789"),
    ("double", "NaN"), ("float", "16777217"), ("float", "1e39"), ("float", "3.14159265358979"),
    ("decimal", "0.0001"), ("decimal", "1000000"), ("decimal", '"1_000"'), ("decimal", '"NaN"'),
    ("decimal", "1e999999"), ("small", "-99999.99"), ("date", "2147483648"), ("date", '"20260102"'),
    ("date", "2147483647"), ("time-millis", "86400000"), ("time-millis", '"03:04:05.6789"'),
    ("time-micros", '"03:04:05.1234567"'), ("time-micros", '"03:04:05Z"'),
    ("timestamp-millis", '"2026-01-02T03:04:05"'), ("timestamp-millis", "9223372036854775808"),
    ("timestamp-millis", '"2026-01-02T03:04:05.6789Z"'), ("timestamp-millis", '"2026-01-02"'),
    ("timestamp-micros", '"2026-01-02T03:04:05.1234567Z"'),
    ("local-timestamp-millis", '"2026-01-02T03:04:05Z"'),
    ("bytes", '"AB=="'), ("bytes", '"A B="'), ("uuid", '"{00000000-0000-0000-0000-000000000000}"'),
    ("unknown", "9223372036854775808"), ("duration", '"AAAA"'), ("string", '"\\ud800"'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "token"), REFUSED)
def test_avro_refuses_what_it_cannot_hold_in_a_sentence(kind: str, token: str):
    with pytest.raises(NotOfItsSchema, match=r"the field value is .* which is no |it is no JSON"):
        CODECS[kind].encode_text(token)


@pytest.mark.parametrize("name", ["avro", "protobuf", "json"])
def test_a_name_that_stands_twice_is_refused(name: str):
    record = {"type": "record", "name": "R", "fields": [{"name": "note", "type": "string"}]}
    codec = {
        "avro": AvroCodec(json.dumps(record)),
        "protobuf": MESSAGE,
        "json": JsonCodec("{}", ()),
    }[name]
    assert sent_back(codec, '{"note":"a"}') is not None
    with pytest.raises(NotOfItsSchema, match="the field note stands twice"):
        codec.encode_text('{"note":"a","note":"b"}')


@pytest.mark.parametrize(
    "text",
    ['{"two_words":"a","twoWords":"b"}', '{"map":{"1":1,"01":2}}', '{"string":5}', '{"int32":null}',
     '{"bytes":"not base64!"}', '{"double":9007199254740993}', '{"fixed32":[1.5]}', "[]", "1",
     '{"none":1}', '{"uint64":-1}', '{"int32":"1_0"}', '{"bool":"true"}'],
)  # fmt: skip
def test_protobuf_refuses_what_its_parser_would_make_another_value_of(text: str):
    with pytest.raises(NotOfItsSchema):
        MESSAGE.encode_text(text)


def test_protobuf_that_lacks_what_is_required_is_refused():
    codec = ProtobufCodec(
        parse('syntax="proto2"; message M { required int32 a = 1; }', (), is_new=True)
    )
    with pytest.raises(NotOfItsSchema):
        codec.encode_text("{}")
    assert codec.decode(codec.encode_text('{"a":1}')) == {"a": 1}


_GOOGLES = """syntax = "proto3";
import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message M {
  google.protobuf.Value v = 1; optional google.protobuf.NullValue n = 2; google.protobuf.NullValue plain = 3;
  oneof c { google.protobuf.Value w = 4; google.protobuf.NullValue x = 5; string s = 6; }
  google.protobuf.Timestamp at = 7; optional string note = 8; google.protobuf.Any any = 9;
}
message Own { int64 id = 1; }
"""


@pytest.mark.parametrize(
    "text", ["{}", *(f'{{"{n}":null}}' for n in ("v", "n", "plain", "w", "x", "at", "note"))]
)
def test_null_where_null_is_a_value_is_shown_only_where_it_is_set(text: str):
    codec = ProtobufCodec(parse(_GOOGLES, (), is_new=True))
    data = codec.encode_text(text)
    assert codec.encode_text(json.dumps(codec.decode(data))) == data


def test_an_any_is_read_by_its_schema_and_not_written():
    codec = ProtobufCodec(parse(_GOOGLES, (), is_new=True))
    for name, data, shown in (
        ("Own", b"\x08\x07", {"id": "7"}),
        ("google.protobuf.Timestamp", b"\x08\x07", {"value": "1970-01-01T00:00:07Z"}),
    ):
        url = f"type.googleapis.com/{name}"
        inner = bytes([10, len(url), *url.encode(), 18, len(data), *data])
        found = codec.decode(b"\0" + bytes([9 << 3 | 2, len(inner)]) + inner)
        assert found["any"] == {"@type": url, **shown}
        with pytest.raises(NotOfItsSchema, match=r"the field any is a google\.protobuf\.Any"):
            codec.encode_text(json.dumps({"any": found["any"]}))


def test_spark_s_decimals_are_texts_in_protobuf():
    encode = _encoder(MESSAGE)
    row = '{"string":1.5000,"note":7,"double":1.5E300,"int32":7,"map":{"1":0.5},"fixed32":[1,2]}'
    found = MESSAGE.decode(encode(row))
    assert (found["string"], found["note"], found["double"]) == ("1.5000", "7", 1.5e300)
    assert (found["int32"], found["map"], found["fixed32"]) == (7, {"1": 0.5}, [1, 2])


def test_a_branch_of_a_union_is_the_one_that_was_named():
    codec = AvroCodec(json.dumps(["null", "float", "double", "int", "long"]))
    for name, size in (("float", 5), ("double", 9), ("int", 2), ("long", 2)):
        data = codec.encode_text(f'{{"{name}":1}}')
        assert (data[0] // 2, len(data)) == (
            ["null", "float", "double", "int", "long"].index(name),
            size,
        )
    assert codec.decode(codec.encode_text("0.1")) == 0.1  # and not a float's 0.10000000149011612


@pytest.mark.parametrize(
    "other",
    [
        {"type": "string", "logicalType": "uuid"},
        {"type": "int", "logicalType": "date"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    ],
)
def test_a_number_is_a_number_of_its_union_whatever_stands_before_it(other: dict[str, object]):
    codec = AvroCodec(json.dumps([other, "long"]))
    assert codec.encode_text("5") == b"\x02\x0a"  # the second branch
    assert codec.decode(b"\x02\x0a") == 5


def test_a_map_whose_one_key_is_a_type_s_name_is_that_map_or_refused():
    """`tail` shows values so, and `produce --by-schema` takes them back."""
    codec = AvroCodec(json.dumps(["null", "long", "string", {"type": "map", "values": "string"}]))
    assert codec.decode(codec.encode_text('{"long":"x"}')) == {"long": "x"}
    assert codec.decode(codec.encode_text('{"map":{"string":"x"}}')) == {"string": "x"}
    with pytest.raises(NotOfItsSchema, match="may be map or string: say which"):
        codec.encode_text('{"string":"x"}')


@pytest.mark.parametrize("own", [{}, {"$id": "http://h/d/root.json"}, {"$id": "d/root.json"}])
def test_a_json_value_is_checked_by_the_reference_that_was_meant(own: dict[str, str]):
    """By what was resolved when it was registered, and not by one of a similar name."""
    named = {
        "a.json": {"type": "string"},
        "x/a.json": {"$ref": "b.json"},
        "x/b.json": {"type": "integer"},
    }
    imported = [Imported(name, json.dumps(each)) for name, each in named.items()]
    for name, good, bad in (("a.json", '"text"', "1"), ("x/a.json", "1", '"text"')):
        codec = JsonCodec(json.dumps({**own, "$ref": name}), imported)
        assert codec.encode_text(good) == good.encode()
        with pytest.raises(NotOfItsSchema, match="is not of type"):
            codec.encode_text(bad)


def test_a_field_that_is_missing_has_its_default_as_avro_writes_it():
    fields = [
        {"name": "bytes", "type": "bytes", "default": "\u00ff"},
        {"name": "price", "type": logical("bytes", "decimal", precision=4, scale=2), "default": "\u0001"},
        {"name": "day", "type": logical("int", "date"), "default": 1},
        {"name": "maybe", "type": ["null", "string"], "default": None},
        {"name": "inner", "type": {"type": "record", "name": "I", "fields": [
            {"name": "x", "type": "int", "default": 7}]}, "default": {}},
    ]  # fmt: skip
    codec = AvroCodec(json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert codec.decode(codec.encode_text("{}")) == {
        "bytes": "/w==", "price": "0.01", "day": "1970-01-02", "maybe": None, "inner": {"x": 7},
    }  # fmt: skip


def test_a_reader_s_default_is_what_was_meant_by_it():
    def record(*fields: dict[str, object]) -> str:
        return json.dumps({"type": "record", "name": "R", "fields": list(fields)})

    inner = {
        "type": "record",
        "name": "I",
        "fields": [{"name": "day", "type": logical("int", "date")}],
    }
    reader = record(
        {"name": "id", "type": "int"},
        {"name": "bytes", "type": "bytes", "default": "\u00ff"},
        {
            "name": "price",
            "type": logical("bytes", "decimal", precision=4, scale=2),
            "default": "\u0001",
        },
        {"name": "at", "type": logical("long", "timestamp-millis"), "default": 1},
        {"name": "days", "type": {"type": "array", "items": inner}, "default": [{"day": 1}]},
        {"name": "maybe", "type": ["null", "I"], "default": None},
        {"name": "share", "type": "double", "default": 0},
    )
    written = AvroCodec(record({"name": "id", "type": "int"})).encode({"id": 7})
    codec = AvroCodec(record({"name": "id", "type": "int"}), (), (reader, ()))
    assert codec.read(written) == {
        "id": 7, "bytes": b"\xff", "price": Decimal("0.01"), "at": EPOCH + timedelta(milliseconds=1),
        "days": [{"day": date(1970, 1, 2)}], "maybe": None, "share": 0.0,
    }  # fmt: skip


def test_json_that_is_nested_very_deeply_is_refused():
    lists = {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}
    for codec in (AvroCodec(json.dumps(lists)), JsonCodec("true", ()), MESSAGE):
        with pytest.raises(NotOfItsSchema):
            codec.encode_text('{"n":' * 50_000 + "null" + "}" * 50_000)


_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    "kind",
    [
        _DECIMAL,
        {
            "type": "fixed",
            "name": "F",
            "size": 5,
            **{k: v for k, v in _DECIMAL.items() if k != "type"},
        },
        {"type": "record", "name": "R", "fields": [{"name": "d", "type": ["null", _DECIMAL]}]},
        {"type": "array", "items": {"type": "map", "values": _DECIMAL}},
    ],
    ids=["bytes", "fixed", "in a record", "inside"],
)
def test_a_decimal_of_more_digits_than_its_schema_says_is_shown_with_all_of_them(kind):
    """Others write such: nobody who shows them may round."""
    number = (123_456_789).to_bytes(5, "big", signed=True)
    sized = number if kind["type"] == "fixed" else b"\x0a" + number
    around = {"record": b"\2%b", "array": b"\2\2\2k%b\0\0"}.get(kind["type"], b"%b")
    for reader in (None, (json.dumps(kind), ())):
        codec = AvroCodec(json.dumps(kind), (), reader)
        assert "1234567.89" in json.dumps(codec.decode(around % sized))


def test_a_decimal_of_very_many_digits_is_refused_before_it_is_counted():
    data = b"\x80\x89\x7a" + b"\x7f" * 1_000_000
    with pytest.raises(NotOfItsSchema, match="a decimal of 1000000 bytes"):
        AvroCodec(json.dumps(_DECIMAL)).decode(data)


@pytest.mark.parametrize("scale", [0, 2, 2**31 - 1])
def test_a_decimal_of_any_precision_is_written_or_refused_at_once(scale: int):
    kind = logical("bytes", "decimal", precision=2**31 - 1, scale=scale)
    codec = AvroCodec(json.dumps(kind))
    try:
        data = codec.encode_text('"125"')
    except NotOfItsSchema:
        assert scale > 900
    else:
        assert Decimal(str(codec.decode(data))) == 125


@pytest.mark.parametrize("digits", [1, 38, 959, 960, 961, 1000])
def test_what_is_stored_as_a_decimal_is_read_again(digits: int):
    codec = AvroCodec(json.dumps(logical("bytes", "decimal", precision=5000, scale=0)))
    text = f"-{'9' * digits}"
    try:
        data = codec.encode_text(f'"{text}"')
    except NotOfItsSchema:
        assert digits > 960
    else:
        assert Decimal(str(codec.decode(data))) == Decimal(text)
