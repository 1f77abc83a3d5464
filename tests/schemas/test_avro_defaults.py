"""Defaults of Avro's fields: one that is no value of its type is refused when the schema is registered."""

from __future__ import annotations

import json

import pytest

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import AVRO, Imported, Schema
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.codecs import Found, codec
from headwater.schemas.values.errors import NotOfItsSchema, SchemaNotFound

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INNER = {"type": "record", "name": "I", "fields": [
    {"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 7}]}  # fmt: skip
RECURSIVE = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "N", "default": {}}]}
DAY = {"type": "int", "logicalType": "date"}


def schema(kind: object, default: object) -> str:
    field = {"name": "f", "type": kind, "default": default}
    return json.dumps({"type": "record", "name": "R", "fields": [field]})


@pytest.mark.parametrize(
    ("kind", "default"),
    [("int", 7), ("long", -(2**63)), ("double", 7), ("float", 1.5), ("string", ""), ("bytes", "\u00ff"),
     ("boolean", False), ("null", None), (ENUM, "B"), (FIXED, "\u0000\u00ff"), (DAY, 1),
     (["null", "string"], None), (["null", "string"], "a"), ({"type": "array", "items": "int"}, [1]),
     ({"type": "map", "values": "int"}, {"a": 1}), (INNER, {"x": 1}), (INNER, {"x": 1, "y": 2})],
)  # fmt: skip
def test_a_default_of_its_type_is_taken(kind: object, default: object):
    text = schema(kind, default)
    assert json.loads(kinds.parse(AVRO, text).canonical)["fields"][0]["default"] == default


@pytest.mark.parametrize(
    ("kind", "default"),
    [("int", "7"), ("int", 2**31), ("long", 1.5), ("int", True), ("double", "NaN"), ("string", None),
     ("string", 1), ("bytes", "\u0100"), ("boolean", 0), ("null", 0), (ENUM, "C"), (FIXED, "\u0000"),
     (DAY, "2026-01-02"), (["null", "string"], 7), ({"type": "array", "items": "int"}, {}),
     ({"type": "array", "items": "int"}, ["a"]), ({"type": "map", "values": "int"}, []), (INNER, {}),
     (INNER, {"x": "a"}), (INNER, None), (RECURSIVE, {})],
)  # fmt: skip
def test_a_default_of_another_type_is_refused(kind: object, default: object):
    text = schema(kind, default)
    with pytest.raises(InvalidSchema, match="Invalid default for field"):
        kinds.parse(AVRO, text)
    kinds.parse(AVRO, text, is_new=False)  # what is there already stays readable


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_a_number_that_json_has_not_is_refused(kind: str, number: str):
    text = f'{{"type":"string","x":{number}}}'
    with pytest.raises(InvalidSchema, match="it is no JSON"):
        kinds.parse(kind, text)


def doubling(levels: int) -> dict[str, object]:
    """Each of two that are each of two …, all by their defaults: no byte of a value says it."""
    made: dict[str, object] = {"type": "record", "name": "r0", "fields": []}
    for n in range(1, levels + 1):
        both = [("x", made), ("y", f"r{n - 1}")]
        fields = [{"name": name, "type": kind, "default": {}} for name, kind in both]
        made = {"type": "record", "name": f"r{n}", "fields": fields}
    return made


def test_defaults_of_very_many_parts_are_refused_when_they_are_registered():
    kinds.parse(AVRO, json.dumps(doubling(10)))
    with pytest.raises(InvalidSchema, match="more than 100,000 values"):
        kinds.parse(AVRO, json.dumps(doubling(17)))


@pytest.mark.parametrize("schema", [doubling(40), RECURSIVE], ids=["doubling", "of itself"])
def test_defaults_of_very_many_parts_stop_nobody_who_has_the_schema_already(schema: object):
    """Of another registry's topic."""
    text = json.dumps(schema)
    with pytest.raises(NotOfItsSchema, match=r"more than 100,000 values|recursion"):
        AvroCodec(text).encode({})
    written = Found(1, Schema(json.dumps({"type": "record", "name": "r40", "fields": []})))
    with pytest.raises(SchemaNotFound, match="more than 100,000 values"):
        codec(written, Found(2, Schema(text)))


def test_a_default_of_a_record_has_the_defaults_of_its_fields_where_that_is_a_reference():
    day = {"type": "record", "name": "Day", "fields": [{"name": "on", "type": DAY, "default": 1}]}
    field = {"name": "day", "type": "Day", "default": {}}
    order = json.dumps({"type": "record", "name": "Order", "fields": [field]})
    written = Found(1, Schema(json.dumps({"type": "record", "name": "Order", "fields": []})))
    pinned = Found(2, Schema(order), (Imported("Day", json.dumps(day)),))
    assert codec(written, pinned).decode(b"") == {"day": {"on": "1970-01-02"}}
