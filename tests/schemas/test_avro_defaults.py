"""Defaults of Avro's fields: one that is no value of its type is refused when the schema is registered."""

from __future__ import annotations

import json

import pytest

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import AVRO

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
