"""Values by schemas of strangers: whoever decodes them goes on, and is not misled."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass

import orjson
import pytest
from google.protobuf import any_pb2

from headwater.client.records import Record
from headwater.edges.feeds import bodies
from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf import compiler
from headwater.schemas.protobuf.document import parse
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.protobuf import ProtobufCodec

LIST = {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}
TEN_MILLION = b"\x80\xda\xc4\x09"
"""As Avro counts the items of a list."""
EMPTY = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}
_DEEP = """
import json, sys
from headwater.schemas.protobuf import compiler
from headwater.schemas.protobuf.document import parse
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.errors import NotOfItsSchema

codec = AvroCodec(sys.argv[1])
for levels in (2, 900, 2_000, 100_000):
    try:
        codec.decode(b"\\2" * levels + b"\\0")
        print("read")
    except NotOfItsSchema:
        print("refused")
"""


def test_a_value_of_very_many_levels_is_refused_and_ends_no_process():
    command = [sys.executable, "-c", _DEEP, json.dumps(LIST)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert (said[0], said[2:]) == ("read", ["refused", "refused"])


@pytest.mark.parametrize(
    "items",
    ["null", EMPTY, {"type": "fixed", "name": "F", "size": 0}],
    ids=["null", "record", "fixed"],
)
def test_a_list_of_items_without_a_byte_is_not_read(items: object):
    codec = AvroCodec(json.dumps({"type": "array", "items": items}))
    with pytest.raises(NotOfItsSchema, match="without a byte"):
        codec.decode(TEN_MILLION + b"\0")


@pytest.mark.parametrize("more", [[], [{"name": "n", "type": "int"}]], ids=["alone", "beside one"])
@pytest.mark.parametrize("is_branch", [False, True], ids=["in a record", "in a union"])
def test_records_without_a_byte_that_double_at_each_level_are_not_read(
    more: list[object], is_branch: bool
):
    kind: object = {"type": "record", "name": "R0", "fields": []}
    for n in range(1, 41):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{n - 1}"}]
        kind = {"type": "record", "name": f"R{n}", "fields": fields}
    kind = ["null", kind] if is_branch else kind
    fields = [*more, {"name": "all", "type": kind}]
    codec = AvroCodec(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    with pytest.raises(NotOfItsSchema, match="without a byte"):
        codec.decode(b"\2\2")


def test_values_without_a_byte_are_read_as_long_as_all_of_them_are_few():
    free = [{"name": f"f{n}", "type": "null"} for n in range(90)]
    record = {"type": "record", "name": "R", "fields": [*free, {"name": "b", "type": "boolean"}]}
    codec = AvroCodec(json.dumps({"type": "array", "items": record}))
    assert len(codec.decode(b"\x14" + b"\1" * 10 + b"\0")) == 10
    with pytest.raises(NotOfItsSchema, match="without a byte"):
        codec.decode(b"\xc0\xb8\x02" + b"\1" * 20_000 + b"\0")


def test_wide_messages_of_no_byte_are_read_as_long_as_all_their_fields_are_few():
    """Twenty thousand of two thousand fields each would be a gigabyte, and half a minute."""
    fields = "".join(f"int32 f{n} = {n + 1};" for n in range(2_000))
    text = f'syntax = "proto3"; message T {{ repeated M m = 1; }} message M {{ {fields} }}'
    codec = ProtobufCodec(parse(text, (), is_new=True))
    few = codec.decode(b"\0" + b"\n\0" * 10)
    assert len(few["m"]) == 10 and few["m"][9]["f1999"] == 0
    with pytest.raises(NotOfItsSchema, match="very many fields"):
        codec.decode(b"\0" + b"\n\0" * 20_000)


_LONG = "A" * 300
_ENUM = f"enum E {{ {_LONG} = 0; }} repeated E e = 1;"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", json.dumps({"type": "enum", "name": "E", "symbols": [_LONG]})),
        ("AVRO", json.dumps({"type": "record", "name": "R",
                             "fields": [{"name": _LONG, "type": "int"}]})),
        ("PROTOBUF", f'syntax = "proto3"; message M {{ message N {{ {_ENUM} }} }}'),
        ("PROTOBUF", f'syntax = "proto3"; message M {{ int32 {_LONG} = 1; }}'),
    ],
    ids=["symbol", "field", "value", "number"],
)  # fmt: skip
def test_a_name_that_each_byte_of_a_value_would_be_shown_as_is_short(kind: str, text: str):
    """Eight kilobytes of symbols of 300,000 letters would be shown as two gigabytes."""
    with pytest.raises(InvalidSchema, match="255 letters"):
        kinds.parse(kind, text)
    assert kinds.parse(kind, text.replace(_LONG, _LONG[:255]))


def test_a_few_values_without_a_byte_are_read():
    fields = [{"name": f"f{n}", "type": "null"} for n in range(90)]
    codec = AvroCodec(json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert codec.decode(b"") == dict.fromkeys([each["name"] for each in fields])


def test_an_any_of_what_nobody_knows_is_told_and_no_error_of_ours():
    text = 'syntax = "proto3"; import "google/protobuf/any.proto"; message M { google.protobuf.Any a = 1; }'
    codec = ProtobufCodec(parse(text, (), is_new=True))
    url = b"type.googleapis.com/x.Y"
    inner = b"\n" + bytes([len(url)]) + url
    with pytest.raises(NotOfItsSchema, match="Any"):
        codec.decode(b"\0" + b"\n" + bytes([len(inner)]) + inner)


@pytest.mark.parametrize(
    "name",
    ["Any", "Timestamp", "Struct", "Value", "ListValue", "Duration", "FieldMask", "OwnValue"],
)
def test_a_message_that_is_only_called_as_one_of_google_s_ends_nobody(name: str):
    text = f'syntax = "proto3"; package google.protobuf; message {name} {{ int32 a = 1; }}'
    for in_micros in (False, True):
        codec = ProtobufCodec(parse(text, (), is_new=True), in_micros=in_micros)
        with suppress(NotOfItsSchema):
            codec.decode(b"\0\x08\x01")
        for sent in ({}, {"a": 1}, 1, "1s", [1], None):
            with suppress(NotOfItsSchema):
                codec.encode(sent)


def test_any_in_any_in_any_is_told_too_deep():
    text = 'syntax = "proto3"; import "google/protobuf/any.proto"; message M { google.protobuf.Any a = 1; }'
    codec = ProtobufCodec(parse(text, (), is_new=True))
    data = b""
    for _ in range(3_000):
        made = any_pb2.Any(type_url="a/google.protobuf.Any", value=data)
        data = made.SerializeToString()
    made = any_pb2.Any(type_url="a/M", value=data)  # of field 1, as M has it
    with pytest.raises(NotOfItsSchema):
        codec.decode(b"\0" + made.SerializeToString())


@pytest.mark.parametrize("number", [1 << 31, (1 << 32) + 1, -(1 << 31) - 1])
def test_a_number_that_no_enum_has_room_for_is_refused(number: int):
    text = 'syntax = "proto3"; enum E { A = 0; B = 1; } message M { E e = 1; }'
    codec = ProtobufCodec(parse(text, (), is_new=True))
    assert codec.decode(codec.encode_text('{"e": 1}'))
    with pytest.raises(NotOfItsSchema, match="e"):
        codec.encode_text(f'{{"e": {number}}}')


def test_types_that_are_named_again_and_again_are_looked_at_once():
    kind: dict[str, object] = {"type": "record", "name": "R0", "fields": []}
    for n in range(1, 200):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{n - 1}"}]
        kind = {"type": "record", "name": f"R{n}", "fields": fields}
    AvroCodec(json.dumps(kind))


@dataclass(frozen=True)
class Shown:
    value: object
    kind: str = "avro"
    is_by_schema: bool = True
    text: str = ""


class Decoder:
    def __init__(self, value: object) -> None:
        self.value = value

    def decode(self, data: bytes, _: str) -> Shown:
        return Shown(self.value)


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [{"a": 10**23}, "\ud800", nested(300)], ids=["large", "half", "deep"]
)
def test_a_changefeed_has_every_value_that_json_has(value: object):
    record = Record("t", 0, 7, 0, None, b"\0\0\0\0\1x", ())
    said = json.loads(bodies.of_record(record, Decoder(value)))  # type: ignore[arg-type]
    assert (said["offset"], said["value"]) == (7, value)


def test_and_of_others_their_bytes():
    record = Record("t", 0, 7, 0, None, b"\0\0\0\0\1x", ())
    said = orjson.loads(bodies.of_record(record, Decoder(nested(100_000))))  # type: ignore[arg-type]
    assert said["value_hex"] == "000000000178"


@pytest.mark.parametrize("number", ["0.12345678901234567890123", "1E2", "100000000000000000000000"])
def test_a_changefeed_has_json_of_a_schema_to_the_letter(number: str):
    sent = f'{{"b":{number},\n"a":1}}'.encode()
    record = Record("t", 0, 7, 0, None, b"\0\0\0\0\1" + sent, ())

    class OfSchema(Decoder):
        def decode(self, data: bytes, _: str) -> Shown:
            return Shown(json.loads(data[5:]), "json-schema")

    said = bodies.of_record(record, OfSchema(None))  # type: ignore[arg-type]
    assert f'"value":{{"b":{number}, "a":1}}'.encode() in said


_NESTED = """syntax = "proto3";
message Env {
  message Order { string id = 1; int32 qty = 2; string note = 3; }
  map<string, int32> tags = 1;
  message Other { string id = 1; }
  map<string, string> more = 2;
}
"""


def test_messages_in_a_message_keep_their_numbers_beside_maps():
    made = compiler.compiled(_NESTED, ()).file[-1].message_type[0].nested_type
    canonical = parse(_NESTED, (), is_new=True).canonical
    again = compiler.compiled(canonical, ()).file[-1].message_type[0].nested_type
    assert [each.name for each in again] == [each.name for each in made]
    assert [each.name for each in made] == ["Order", "TagsEntry", "Other", "MoreEntry"]


def test_an_entry_of_a_map_is_no_message_of_its_own():
    codec = ProtobufCodec(parse(_NESTED, (), is_new=True))
    assert codec.decode(b"\4\0\0" + b"\n\2A1\x10\5") == {"id": "A1", "qty": 5, "note": ""}
    with pytest.raises(NotOfItsSchema, match="an entry of a map"):
        codec.decode(b"\4\0\2" + b"\n\2A1\x10\5")


def _alternatives() -> dict[str, object]:
    both = [
        "A",
        {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["null", "A", "B"]}]},
    ]
    return {"type": "record", "name": "A", "fields": [{"name": "n", "type": ["null", *both]}]}


def test_unions_inside_of_unions_are_tried_once():
    """Each of two at every level would be 2^60 tries."""
    value: object = {"n": 7}
    for _ in range(60):
        value = {"n": value}
    with pytest.raises(NotOfItsSchema):
        AvroCodec(json.dumps(_alternatives())).encode(value)


def test_a_value_of_which_two_branches_fit_has_to_say_which_it_is():
    kinds = [
        {"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]} for name in "AB"
    ]
    codec = AvroCodec(json.dumps(["null", *kinds]))
    with pytest.raises(NotOfItsSchema, match="may be A or B: say which"):
        codec.encode({"x": 1})
    assert codec.encode({"B": {"x": 1}}) == b"\4\2"


@pytest.mark.parametrize("branches", [["bytes", "string"], ["string", "bytes"]])
def test_a_text_is_a_text_before_it_is_bytes(branches: list[str]):
    codec = AvroCodec(json.dumps(branches))
    assert codec.encode("abcd") == bytes([2 * branches.index("string")]) + b"\x08abcd"
