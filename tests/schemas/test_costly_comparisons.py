"""Schemas that take very long to compare: who reads values by them is told so, and does not wait."""

from __future__ import annotations

import json

import pytest

from headwater.schemas import kinds, reader
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import AVRO, JSON, PROTOBUF, Schema
from headwater.schemas.parser import Dated, Source
from headwater.schemas.sandbox import Sandbox
from headwater.schemas.values.codecs import Found


def enums(more: int) -> str:
    """Alternatives of which each has the thousands of values of one enum: all pairs are compared."""
    values = [f"v{n}" for n in range(3_000)]
    either = [{"$ref": "#/$defs/e", "maxLength": n + more} for n in range(120)]
    draft = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps({"$schema": draft, "$defs": {"e": {"enum": values}}, "anyOf": either})


def disjoint(more: int) -> str:
    """`oneOf` of alternatives of alternatives that have nothing in common."""
    numbers = iter(range(more, 10**6))
    inner = [{"anyOf": [{"const": next(numbers)} for _ in range(50)]} for _ in range(50)]
    either = [{"anyOf": inner}, {"type": "null"}]
    return json.dumps({"oneOf": either, "title": str(more)})


def fields(more: int) -> str:
    """Each with an alias, which might be of any other."""
    made = [
        {"name": f"f{n}", "aliases": [f"g{n + more}"], "type": "int", "default": 0}
        for n in range(10_000)
    ]
    return json.dumps({"type": "record", "name": "R", "fields": made})


def messages(more: int) -> str:
    parts = "".join(f"message M{n} {{ int32 a = {more}; }}" for n in range(200))
    return f'syntax = "proto3"; {parts}'


@pytest.mark.parametrize(
    ("kind", "was", "now", "cpu_s"),
    [
        (JSON, enums(1000), enums(999), 0.01),
        (JSON, disjoint(0), disjoint(10_000), 0.01),
        (AVRO, fields(0), fields(1), -1.0),
        (PROTOBUF, messages(1), messages(2), -1.0),
    ],
    ids=["enums", "alternatives", "fields", "messages"],
)
def test_a_comparison_ends_in_a_sentence(
    kind: str, was: str, now: str, cpu_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.schemas.effort.CPU_S", cpu_s)
    old, new = (kinds.parse(kind, each, is_new=False) for each in (was, now))
    with pytest.raises(InvalidSchema, match="too long to be compared"):
        new.unreadable(old)
    pinned, written = Found(1, Schema(was, kind)), Found(2, Schema(now, kind))
    (said,) = reader.unreadable(pinned, written)
    assert "too long to be compared" in said


def test_fields_with_aliases_are_compared_each_once() -> None:
    """And not each with each."""
    old, new = (kinds.parse(AVRO, fields(more), is_new=False) for more in (0, 1))
    assert new.unreadable(old) == []


def test_symbols_of_an_enum_are_looked_up_and_not_searched() -> None:
    """Within the seconds of CPU that a stranger's schema has."""
    names = [f"S{n}" for n in range(50_000)]
    old, new = (
        Source(AVRO, json.dumps({"type": "enum", "name": "E", "symbols": [*names, *more]}))
        for more in ([], ["X"])
    )
    sandbox = Sandbox()
    try:
        assert sandbox.complaints(new, [Dated(1, old)], "BACKWARD") == []
    finally:
        sandbox.close()
