"""Avro is read as its reader's schema has it: logical types are the reader's, by columns in compiled code and
one by one; whatever is called compatible becomes no dead letter.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.schemas.model import Schema
from headwater.schemas.reader import unreadable
from headwater.schemas.values.avro import AvroCodec, parsed
from headwater.schemas.values.codecs import Found, codec
from headwater.schemas.values.header import prefix
from headwater.schemas.values.logical_types import reinterpreted
from headwater.spark.source.values.avro_columns import plan as avro_plan

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MILLIS = int(NOON.timestamp()) * 1000


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


STAMP = logical("long", "timestamp-millis")
MONEY = logical("bytes", "decimal", precision=9, scale=2)
FIXED = {"type": "fixed", "name": "F", "size": 4}
MONEY_FIXED = {**FIXED, "logicalType": "decimal", "precision": 9, "scale": 2}


def schema(identity: int, *fields: dict[str, Any]) -> Found:
    return Found(identity, Schema(json.dumps({"type": "record", "name": "R", "fields": fields})))


def one(identity: int, kind: Any, **more: Any) -> Found:
    return schema(identity, {"name": "a", "type": kind, **more})


def read(written: Found, pinned: Found, value: Any) -> Any:
    """One by one, as columns want it."""
    body = codec(written).encode(value)
    assert unreadable(pinned, written) == []
    reader = codec(written, pinned, for_columns=True)
    assert isinstance(reader, AvroCodec)
    return reader.read(body)


def by_columns(written: Found, pinned: Found, value: Any, kind: pa.DataType) -> Any:
    known = parsed(pinned.schema.text)
    plan = avro_plan.plan(
        reinterpreted(parsed(written.schema.text), known), pa.struct([("a", kind)]), known
    )
    assert plan is not None
    made = plan.convert(pa.array([prefix(2) + codec(written).encode(value)], pa.binary()))
    assert made is not None and not made[1].any()
    return made[0].to_pylist()[0]["a"]


@pytest.mark.parametrize(
    ("was", "value", "now", "found", "column"),
    [
        ("long", MILLIS, STAMP, NOON, pa.timestamp("us", "UTC")),
        (STAMP, MILLIS, "long", MILLIS, pa.int64()),
        (STAMP, MILLIS, "double", float(MILLIS), pa.float64()),
        ("int", 1000, STAMP, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), pa.timestamp("us", "UTC")),
        ("int", 1, logical("int", "date"), date(1970, 1, 2), pa.date32()),
        (logical("int", "date"), 1, ["null", "int"], 1, pa.int32()),
        (["null", "long"], MILLIS, ["null", STAMP], NOON, pa.timestamp("us", "UTC")),
        ("bytes", "AQI=", MONEY, Decimal("2.58"), pa.decimal128(9, 2)),
        (MONEY, "2.58", "bytes", b"\1\2", pa.binary()),
        (FIXED, "AAABAg==", MONEY_FIXED, Decimal("2.58"), pa.decimal128(9, 2)),
        (MONEY_FIXED, "2.58", FIXED, b"\0\0\1\2", pa.binary()),
        ("string", "no uuid", logical("string", "uuid"), "no uuid", pa.string()),
    ],
)
def test_a_logical_type_is_the_reader_s(was, value, now, found, column):
    written, pinned = one(2, was), one(1, now)
    assert read(written, pinned, {"a": value}) == {"a": found}
    assert by_columns(written, pinned, {"a": value}, column) == found


def test_so_it_is_in_lists_maps_and_types_that_are_only_named():
    def table(stamp: Any) -> Found:
        inner = {"type": "record", "name": "I", "fields": [{"name": "t", "type": stamp}]}
        return schema(
            1 if stamp == STAMP else 2,
            {"name": "i", "type": inner},
            {"name": "again", "type": ["null", "I"]},
            {"name": "l", "type": {"type": "array", "items": stamp}},
            {"name": "m", "type": {"type": "map", "values": ["null", "I"]}},
        )

    value = {"i": {"t": MILLIS}, "again": {"t": 0}, "l": [MILLIS], "m": {"x": {"t": MILLIS}}}
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    meant = {"i": {"t": NOON}, "again": {"t": begin}, "l": [NOON], "m": {"x": {"t": NOON}}}
    assert read(table("long"), table(STAMP), value) == meant
    assert read(table(STAMP), table("long"), value) == value


def test_a_record_that_holds_itself_has_its_reader_s_types():
    def node(stamp: Any) -> Found:
        return schema(
            1 if stamp == STAMP else 2,
            {"name": "t", "type": stamp},
            {"name": "next", "type": ["null", "R"]},
        )

    value = {"t": MILLIS, "next": {"t": MILLIS, "next": None}}
    meant = {"t": NOON, "next": {"t": NOON, "next": None}}
    assert read(node("long"), node(STAMP), value) == meant


@pytest.mark.parametrize(("kind", "name"), [("int", "time-millis"), ("long", "time-micros")])
def test_a_default_time_of_a_day_is_a_number_where_columns_have_one(kind, name):
    new = {"name": "b", "type": logical(kind, name), "default": 7}
    written, pinned = one(2, "int"), schema(1, {"name": "a", "type": "int"}, new)
    assert read(written, pinned, {"a": 1}) == {"a": 1, "b": 7}
