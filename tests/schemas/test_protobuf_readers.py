"""Protobuf is read by the numbers of fields: what was renamed, moved or is another type of the same wire form
is what its writer meant, by columns in compiled code and one by one; or it is said why it is not read.
"""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

from headwater.schemas.model import PROTOBUF, Schema
from headwater.schemas.values.codecs import Found, codec
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.header import prefix
from headwater.schemas.values.protobuf import ProtobufCodec
from headwater.spark.source.values.protobuf_columns import plan as protobuf_plan


def schema(identity: int, text: str) -> Found:
    return Found(identity, Schema(f'syntax = "proto3"; {text}', PROTOBUF))


def read(written: str, value: dict[str, Any], known: str) -> Any:
    """What a query that was started with `known` makes of a value of another schema."""
    pinned, other = schema(1, known), schema(2, written)
    body = codec(other).encode(value)
    found = codec(other, pinned).decode(body)
    _check_columns(pinned, other, body, found)
    return found


def _check_columns(pinned: Found, other: Found, body: bytes, found: dict[str, Any]) -> None:
    """By columns it is the same, or it is not read so."""
    reader = codec(other, pinned)
    assert isinstance(reader, ProtobufCodec)
    if "bytes" in pinned.schema.text:
        found = {name: base64.b64decode(each) for name, each in found.items()}
    kind = pa.struct([(name, pa.array([each]).type) for name, each in found.items() if each])
    plan = protobuf_plan.plan(reader.message(), kind, reader.reader) if kind.names else None
    made = None if plan is None else plan.convert(pa.array([prefix(2) + body], pa.binary()))
    if made is not None and not made[1].any():
        assert made[0].to_pylist() == [{name: found[name] for name in kind.names}]


def test_a_field_that_was_renamed_is_the_same_one():
    assert read("message M { int64 id = 1; string new = 2; }", {"id": 7, "new": "x"},
                "message M { int64 id = 1; string old = 2; }") == {"id": 7, "old": "x"}  # fmt: skip


def test_a_name_with_another_number_is_another_field():
    found = read("message M { int64 id = 1; string a = 3; }", {"id": 7, "a": "x"},
                 "message M { int64 id = 1; string a = 2; }")  # fmt: skip
    assert found == {"id": 7}


def test_fields_inside_are_known_by_their_numbers_too():
    written = (
        "message M { I i = 1; repeated I l = 2; map<string, I> m = 3; } message I { int32 b = 1; }"
    )
    known = (
        "message M { I j = 1; repeated I k = 2; map<string, I> n = 3; } message I { int32 a = 1; }"
    )
    value = {"i": {"b": 1}, "l": [{"b": 2}], "m": {"x": {"b": 3}}}
    assert read(written, value, known) == {"j": {"a": 1}, "k": [{"a": 2}], "n": {"x": {"a": 3}}}


@pytest.mark.parametrize(
    ("was", "value", "now", "found"),
    [
        ("string a = 1;", "abcd", "bytes a = 1;", "YWJjZA=="),
        ("bytes a = 1;", "YWJjZA==", "string a = 1;", "abcd"),
        ("bool a = 1;", True, "int32 a = 1;", 1),
        ("int32 a = 1;", 5, "bool a = 1;", True),
        ("int64 a = 1;", 1 << 40, "int32 a = 1;", 1 << 40),  # a column of 32 bits does not take it
        (
            "E a = 1; enum E { Z = 0; NEW = 1; }",
            "NEW",
            "E a = 1; enum E { Z = 0; OLD = 1; }",
            "OLD",
        ),
        ("E a = 1; enum E { Z = 0; MORE = 2; }", "MORE", "E a = 1; enum E { Z = 0; }", "MORE"),
        ("E a = 1; enum E { Z = 0; A = 2; }", "A", "E a = 1; enum E { Z = 0; A = 1; }", 2),
        ("E a = 1; enum E { Z = 0; A = 1; }", "A", "int32 a = 1;", 1),
        ("int32 a = 1;", 1, "E a = 1; enum E { Z = 0; A = 1; }", "A"),
    ],
)
def test_another_type_of_the_same_wire_form_is_what_its_writer_meant(was, value, now, found):
    assert read(f"message M {{ {was} }}", {"a": value}, f"message M {{ {now} }}") == {"a": found}


@pytest.mark.parametrize(
    ("was", "value", "now", "found"),
    [
        ("repeated string a = 1;", ["x", "y"], "string a = 1;", "y"),
        ("repeated string a = 1;", [], "string a = 1;", ""),
        ("repeated string a = 1;", [], "optional string a = 1;", None),
        ("string a = 1;", "x", "repeated string a = 1;", ["x"]),
        ("string a = 1;", "", "repeated string a = 1;", []),
        ("optional string a = 1;", "", "repeated string a = 1;", [""]),
        ("repeated I a = 1;", [{"b": 1}, {"c": 2}], "I a = 1;", {"b": 1, "c": 2}),
        ("I a = 1;", {"b": 1}, "repeated I a = 1;", [{"b": 1, "c": 0}]),
        ("I a = 1;", None, "repeated I a = 1;", []),
    ],
)
def test_a_list_is_read_as_one_and_one_as_a_list(was, value, now, found):
    inner = "message I { int32 b = 1; int32 c = 2; }"
    written, known = (f"message M {{ {each} }} {inner}" for each in (was, now))
    assert read(written, {} if value is None else {"a": value}, known) == {"a": found}


@pytest.mark.parametrize("kind", ["Int64Value", "UInt64Value", "Int32Value"])
def test_a_number_of_google_s_is_a_number(kind: str):
    text = f'import "google/protobuf/wrappers.proto"; message M {{ google.protobuf.{kind} a = 1; }}'
    for number in (0, (1 << 31) - 1 if kind == "Int32Value" else (1 << 63) - 1):
        assert read(text, {"a": number}, text) == {"a": number}


def test_bytes_that_are_no_text_are_not_read_as_one():
    with pytest.raises(NotOfItsSchema, match="is no text"):
        read("message M { bytes a = 1; }", {"a": "/w=="}, "message M { string a = 1; }")


def test_a_message_is_found_wherever_it_stands_in_its_file():
    written = schema(2, "message Other { int32 z = 1; } message M { int64 id = 1; }")
    reader = codec(written, schema(1, "message M { int64 id = 1; }"))
    assert reader.decode(b"\2\2\x08\x07") == {"id": 7}  # the second of its file


def test_another_message_of_the_file_is_not_read_as_the_columns_message():
    both = schema(1, "message M { int64 id = 1; } message Refund { int64 id = 1; }")
    with pytest.raises(NotOfItsSchema, match="it is a Refund, and no M"):
        codec(both, both).decode(b"\2\2\x08\x07")
    assert codec(both).decode(b"\2\2\x08\x07") == {"id": 7}  # who has no columns shows it
