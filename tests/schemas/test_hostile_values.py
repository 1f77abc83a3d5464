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
from headwater.schemas import cache, kinds
from headwater.schemas.bounds import CLOSURE_BYTES_MAX
from headwater.schemas.errors import InvalidSchema, RegistryError, store_failed
from headwater.schemas.model import PROTOBUF, Imported, Schema
from headwater.schemas.protobuf import compiler
from headwater.schemas.protobuf.document import parse
from headwater.schemas.values import codecs
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.codecs import Found
from headwater.schemas.values.errors import NotOfItsSchema, SchemaNotFound
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


# ---- loops whose length a schema decides ------------------------------------------------------------


MANY_BRANCHES = [*({"type": "fixed", "name": f"f{n}", "size": 1} for n in range(15_000)), "int"]
MANY_SYMBOLS = {"type": "enum", "name": "e", "symbols": [f"s{n}" for n in range(60_000)]}
MANY_FIELDS = "".join(f"int32 f{n} = {n + 1};" for n in range(3_000))
WIDE = f'syntax = "proto3"; message T {{ repeated M m = 1; }} message M {{ {MANY_FIELDS} }}'


@pytest.mark.parametrize(
    ("items", "part"),
    [
        (MANY_BRANCHES, 1),
        (MANY_BRANCHES, {"f14999": "AA=="}),
        (MANY_SYMBOLS, "s59999"),
        ([MANY_SYMBOLS, "string"], "no symbol"),
    ],
    ids=["the last branch", "a branch by its name", "a symbol", "no symbol"],
)
def test_who_writes_avro_looks_at_no_more_branches_and_symbols_than_a_value_may_take(
    items: object, part: object
):
    """Each of a hundred thousand values took 60 ms: hours in all."""
    codec = AvroCodec(json.dumps({"type": "array", "items": items}))
    assert codec.encode([part])
    with pytest.raises(NotOfItsSchema, match="too many steps"):
        codec.encode_text(json.dumps([part] * 100_000))


def test_what_people_write_may_be_long():
    branches = ["null", "boolean", "string", "double", {"type": "array", "items": "int"}]
    symbols = [f"s{n}" for n in range(250)]
    items = [*branches, {"type": "enum", "name": "e", "symbols": symbols}]
    codec = AvroCodec(json.dumps({"type": "array", "items": items}))
    value = [None, True, "text", 1.5, [1]] * 60_000
    assert codec.decode(codec.encode(value)) == value


def test_who_reads_as_another_union_finds_each_branch_at_once():
    text = json.dumps(MANY_BRANCHES)
    assert AvroCodec(text, (), (text, ())).decode(b"\2x") == "eA=="


def test_defaults_of_many_symbols_are_no_more_than_others():
    field = {
        "name": "a",
        "type": {"type": "array", "items": MANY_SYMBOLS},
        "default": ["s59999"] * 2_000,
    }
    codec = AvroCodec(json.dumps({"type": "record", "name": "R", "fields": [field]}))
    with pytest.raises(NotOfItsSchema, match="defaults of its fields"):
        codec.encode({})


def test_names_around_a_byte_count_as_values_do():
    """Sixty records in each other around a byte, each with a long name: 10 kB were 448 MB."""
    kind: object = "boolean"
    for n in range(60):
        kind = {"type": "record", "name": f"r{n}", "fields": [{"name": "x" * 255, "type": kind}]}
    codec = AvroCodec(json.dumps({"type": "array", "items": kind}))
    assert len(codec.decode(b"\x14" + b"\1" * 10 + b"\0")) == 10
    with pytest.raises(NotOfItsSchema, match="without a byte"):
        codec.decode(b"\xa0\x9c\1" + b"\1" * 10_000 + b"\0")


def test_who_writes_protobuf_lists_no_more_fields_than_a_value_may_take():
    codec = ProtobufCodec(parse(WIDE, (), is_new=True))
    assert codec.encode({"m": [{"f1": 1}] * 100})
    with pytest.raises(NotOfItsSchema, match="too many steps"):
        codec.encode({"m": [{}] * 100_000})


_IN_A_GIGABYTE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from headwater.schemas.protobuf.document import parse
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.protobuf import ProtobufCodec

codec = ProtobufCodec(parse(sys.argv[1], (), is_new=True))
body = bytes.fromhex(sys.argv[2]) * int(sys.argv[3])
if sys.argv[4] == "any":
    url = b"\\n\\x05x.y/T"
    packed = b"\\x12" + bytes([len(body) & 127 | 128, len(body) >> 7 & 127 | 128, len(body) >> 14]) + body
    one, two = (url, packed) if len(sys.argv) == 5 else (packed, url)
    size = len(one) + len(two)
    body = b"\\n" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + one + two
    body = b"\\x02\\x04" + body
else:
    body = b"\\0" + body
try:
    codec.decode(body)
except NotOfItsSchema as error:
    print(error.sentence)
"""
_GROUPS = f'syntax = "proto2"; message T {{ repeated group M = 1 {{ {"".join(f"repeated int32 f{n} = {n + 1};" for n in range(3_000))} }} }}'  # fmt: skip  # noqa: E501
_IN_ANY = WIDE.replace(";", '; import "google/protobuf/any.proto";', 1) + (
    " message A { google.protobuf.Any a = 1; }"
)


@pytest.mark.parametrize(
    ("text", "part", "times", "more"),
    [
        (WIDE, "0a00", "400000", ["plain"]),
        (_GROUPS, "0b0c", "400000", ["plain"]),
        (_IN_ANY, "0a00", "400000", ["any"]),
        (_IN_ANY, "0a00", "400000", ["any", "value first"]),
    ],
    ids=["messages", "groups", "in an Any", "in an Any whose type comes last"],
)
def test_messages_that_take_no_byte_are_counted_before_they_are_parsed(
    text: str, part: str, times: str, more: list[str]
):
    """In memory each has a place for each of its fields: 800 kB were five gigabytes."""
    command = [sys.executable, "-c", _IN_A_GIGABYTE, text, part, times, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "very many fields" in done.stdout, (done.stdout[-500:], done.stderr[-2000:])


def test_long_lists_of_messages_with_many_fields_are_read():
    fields = "".join(f"int32 f{n} = {n + 1};" for n in range(200))
    text = f'syntax = "proto3"; message T {{ repeated M m = 1; }} message M {{ {fields} }}'
    codec = ProtobufCodec(parse(text, (), is_new=True))
    value = {"m": [{f"f{n}": 7 for n in range(0, 200, 20)}] * 3_000}
    assert codec.decode(codec.encode(value))["m"][2_999]["f20"] == 7


# ---- schemas themselves -------------------------------------------------------------------------------


def test_protoc_runs_in_no_process_that_reads_values(monkeypatch: pytest.MonkeyPatch):
    """It holds the interpreter for seconds over a stranger's file."""
    monkeypatch.setattr(compiler, "_run", lambda folder: pytest.fail("protoc runs here"))
    text = 'syntax = "proto3"; import "m.proto"; message T { M m = 1; }'
    imported = (Imported("m.proto", 'syntax = "proto3"; message M { int32 unseen = 1; }'),)
    codec = codecs.codec(Found(7, Schema(text, PROTOBUF), imported))
    assert codec.decode(b"\0\n\2\x08\7") == {"m": {"unseen": 7}}
    with pytest.raises(SchemaNotFound, match="cannot be used"):
        codecs.codec(Found(8, Schema("nonsense", PROTOBUF)))


def test_a_compiler_that_somebody_ends_says_nothing_of_a_schema(monkeypatch: pytest.MonkeyPatch):
    def ended(*_: object, **__: object) -> str:
        raise store_failed("it was ended")

    monkeypatch.setattr("headwater.schemas.descriptors._sandbox.text", ended)
    with pytest.raises(RegistryError, match="it was ended"):
        codecs.codec(Found(7, Schema('syntax = "proto3"; message T {}', PROTOBUF)))


def test_a_schema_larger_than_any_registry_of_ours_takes_is_not_looked_at():
    with pytest.raises(SchemaNotFound, match="letters"):
        codecs.codec(Found(7, Schema('"int"' + " " * CLOSURE_BYTES_MAX)))


def test_what_was_made_of_schemas_is_kept_as_long_as_all_their_texts_are_short():
    made: cache.Cache[int, str] = cache.Cache()
    for n in range(100):
        assert made.put(n, f"made of {n}", 700_000) == f"made of {n}"
    known = [n for n in range(100) if made.get(n)]
    assert known and known[-1] == 99 and len(known) * 700_000 <= cache.LETTERS_MAX
    assert made.put(99, "another", 1) == "made of 99"
    made.drop(99)
    assert made.get(99) is None
    small: cache.Cache[int, str] = cache.Cache()
    for n in range(cache.KNOWN_MAX + 10):
        small.put(n, "x", 1)
    assert sum(1 for n in range(cache.KNOWN_MAX + 10) if small.get(n)) <= cache.KNOWN_MAX
