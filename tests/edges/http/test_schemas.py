"""What a topic's JSON Schema says of values, one and many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.edges.schemas import Schema, Schemas, check
from headwater.project.mistakes import BadProject

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "when": {"type": "string", "format": "date-time"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    },
    "$defs": {"item": {"type": "object", "required": ["sku"]}},
}


def test_a_complaint_names_the_place():
    schema = Schema(ORDER)
    assert schema.complaint({"id": 1, "items": [{"sku": "a"}]}) is None
    said = schema.complaint({"id": "x", "items": [{"sku": "a"}, {}]})
    assert said is not None
    assert "/id" in said and "/items/1" in said and "sku" in said
    assert "date-time" in (schema.complaint({"id": 1, "when": "yesterday"}) or "")


def test_many_values_are_told_apart():
    schema = Schema(ORDER)
    good, bad = {"id": 1, "items": [{"sku": "a"}]}, {"id": 1, "items": [{}]}
    assert schema.complaints([good] * 100) == {}
    assert list(schema.complaints([good, bad, good, 17])) == [1, 3]


def test_a_schema_may_be_a_boolean_and_may_name_itself():
    assert Schema(True).complaints([1, "x"]) == {}
    assert list(Schema(False).complaints([1])) == [0]
    own = {
        "$id": "https://shop.example/order.json",
        "$ref": "#/$defs/n",
        "$defs": {"n": {"type": "null"}},
    }
    assert list(Schema(own).complaints([None, 1])) == [1]


def test_numbers_beyond_a_float_are_no_crash():
    Schema({"type": "integer"}).complaint(10**400)
    Schema({"type": "number", "maximum": 5}).complaint(float("inf"))


def test_a_long_value_makes_no_long_complaint():
    said = Schema({"type": "integer"}).complaint("x" * 100_000)
    assert said is not None and len(said) < 1000


def test_files_are_found_below_the_project_and_values_checked(tmp_path: Path):
    (tmp_path / "order.json").write_text(json.dumps(ORDER))
    schemas = Schemas({"orders": {"schema": "order.json"}}, tmp_path)
    assert schemas.complaint("orders", b'{"id":1}') is None
    assert schemas.complaint("orders", None) is None
    assert schemas.complaint("others", b"anything") is None
    assert "no JSON" in (schemas.complaint("orders", b"{") or "")
    assert "id" in (schemas.complaint("orders", b"{}") or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "no JSON Schema"),
        ('{"type": "ordr"}', "no JSON Schema"),
        ('{"$ref": "https://elsewhere.example/s.json"}', "nothing is fetched"),
    ],
)
def test_a_schema_that_cannot_be_used_stops_the_start(tmp_path: Path, text: str | None, said: str):
    if text is not None:
        (tmp_path / "s.json").write_text(text)
    with pytest.raises(BadProject, match=said):
        Schemas({"orders": {"schema": "s.json"}}, tmp_path)


def test_the_section_is_checked():
    assert check("orders", {"schema": "s.json"}) == []
    assert len(check("orders", {"schemas": "s.json"})) == 2
    assert len(check("orders", {"schema": 17})) == 1
