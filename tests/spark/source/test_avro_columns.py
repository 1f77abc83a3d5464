"""Avro to columns in compiled code says what fastavro says, whatever the schema; or that it cannot."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.model import Schema
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.codecs import Codecs, Found
from headwater.spark.source.values import avro, registry
from headwater.spark.source.values.avro_columns import plan as avro_plan

PREFIX = b"\0\0\0\0\7"
TYPES: dict[str, tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = {
    "int": ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": ("double", pa.float64(), st.floats(allow_nan=False)),
    "boolean": ("boolean", pa.bool_(), st.booleans()),
    "string": ("string", pa.string(), st.text(max_size=20)),
    "bytes": ("bytes", pa.binary(), st.binary(max_size=20)),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4},
        pa.decimal128(30, 4),
        st.decimals(-(10**25), 10**25, places=4),
    ),
    "date": (
        {"type": "int", "logicalType": "date"},
        pa.date32(),
        st.dates(),
    ),
}
ENUM = {"type": "enum", "name": "Size", "symbols": ["small", "large"]}


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Any], pa.StructType, list[dict[str, Any]]]:
    """A schema, the type of its columns, and rows."""
    fields, columns, rows = [], [], {}
    for n, name in enumerate(draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=6))):
        kind, arrow, values = TYPES[name]
        form = draw(st.sampled_from(["plain", "null first", "null last", "passed over"]))
        field: dict[str, Any] = {"name": f"f{n}", "type": kind}
        if form.startswith("null"):
            field["type"] = ["null", kind] if form == "null first" else [kind, "null"]
            values = st.none() | values
        fields.append(field)
        rows[f"f{n}"] = values
        if form != "passed over":
            columns.append(pa.field(f"f{n}", arrow))
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "size", "type": ENUM}]}
    fields.append({"name": "inner", "type": ["null", inner]})
    columns.append(pa.field("inner", pa.struct([("size", pa.string())])))
    rows["inner"] = st.none() | st.fixed_dictionaries({"size": st.sampled_from(ENUM["symbols"])})
    columns.append(pa.field("new", pa.int64()))
    schema = {"type": "record", "name": "Row", "fields": fields}
    return schema, pa.struct(columns), draw(st.lists(st.fixed_dictionaries(rows), max_size=12))


def written(schema: Any, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return PREFIX + out.getvalue()


@given(tables(), st.data())
def test_columns_are_what_fastavro_reads(
    table: tuple[dict[str, Any], pa.StructType, list[dict[str, Any]]], data: st.DataObject
):
    schema, kind, rows = table
    parsed = fastavro.parse_schema(schema)
    plan = avro_plan.plan(parsed, kind)
    assert plan is not None
    values = [written(parsed, row) for row in rows]
    column = pa.array([None, *values], pa.binary()).slice(data.draw(st.integers(0, 1)))
    made = plan.convert(column)
    assert made is not None
    structs, verdicts = made
    assert not verdicts.any()
    wanted = [{each.name: row.get(each.name) for each in kind} for row in rows]
    found = structs.to_pylist()
    assert found[len(found) - len(wanted) :] == wanted
    for value in values:
        cut = data.draw(st.integers(5, len(value)))
        (structs, verdicts), whole = (
            plan.convert(pa.array([value[:cut], value + b"\0"])),
            cut == len(value),
        )
        # A value that breaks off is none, and one with more behind it is none either.
        assert verdicts[1] == 1 and structs[1].as_py() is None
        assert (verdicts[0] == 0) == whole


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_any_bytes_are_read_or_refused(values: list[bytes]):
    fields = [
        {"name": name, "type": ["null", kind]} for name, (kind, _, _) in sorted(TYPES.items())
    ]
    parsed = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
    kind = pa.struct([(name, TYPES[name][1]) for name in sorted(TYPES)])
    plan = avro_plan.plan(parsed, kind)
    assert plan is not None
    made = plan.convert(pa.array([PREFIX + each for each in values], pa.binary()))
    for n, value in enumerate(values):
        data = io.BytesIO(value)
        try:
            fastavro.schemaless_reader(data, parsed, None)
            good = data.tell() == len(value)
        except Exception:
            good = False
        if made is not None and not good:
            assert made[1][n] == 1


def test_the_query_s_schema_gives_aliases_defaults_and_wider_types():
    old = fastavro.parse_schema({"type": "record", "name": "R", "fields": [
        {"name": "count", "type": "int"}, {"name": "was", "type": "float"}]})  # fmt: skip
    pinned = fastavro.parse_schema({"type": "record", "name": "R", "fields": [
        {"name": "count", "type": "double"},
        {"name": "now", "type": "double", "aliases": ["was"]},
        {"name": "note", "type": "string", "default": "none"}]})  # fmt: skip
    kind = pa.struct([("count", pa.float64()), ("now", pa.float64()), ("note", pa.string())])
    plan = avro_plan.plan(old, kind, pinned)
    assert plan is not None
    structs, _ = plan.convert(pa.array([written(old, {"count": 3, "was": 0.5})]))  # type: ignore[misc]
    assert structs.to_pylist() == [{"count": 3.0, "now": 0.5, "note": "none"}]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("long", pa.int32()),
        ("string", pa.int64()),
        (["int", "string"], pa.string()),
        ({"type": "array", "items": "int"}, pa.list_(pa.int32())),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            pa.decimal128(9, 3),
        ),
    ],
)
def test_what_cannot_be_read_by_columns_is_left_to_others(kind: Any, column: pa.DataType):
    parsed = fastavro.parse_schema(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    )
    assert avro_plan.plan(parsed, pa.struct([("a", column)])) is None


def test_a_text_that_is_no_utf8_and_a_decimal_without_room_are_left_to_others():
    parsed = fastavro.parse_schema({"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "string"},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}}]})  # fmt: skip
    plan = avro_plan.plan(parsed, pa.struct([("a", pa.string()), ("d", pa.decimal128(4, 0))]))
    assert plan is not None
    assert plan.convert(pa.array([PREFIX + b"\2\xff\2\1"])) is None
    assert plan.convert(pa.array([PREFIX + b"\2a\6\1\0\0"])) is None
    structs, _ = plan.convert(pa.array([PREFIX + b"\2a\2\xff"]))  # type: ignore[misc]
    assert structs.to_pylist() == [{"a": "a", "d": Decimal(-1)}]


def test_a_moment_that_no_column_holds_is_not_read_as_another():
    kind = {"type": "long", "logicalType": "timestamp-millis"}
    columns = avro_plan.plan(_row(kind), pa.struct([("a", pa.timestamp("us", "UTC"))]))
    assert columns is not None
    for number in (-(2**63), 2**63 - 1, 2**62):
        assert columns.convert(_values("long", number)) is None
    made = columns.convert(_values("long", -(2**50)))
    assert made is not None and made[0].field(0).cast(pa.int64()).to_pylist() == [-(2**50) * 1000]


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ({"type": "string", "logicalType": "decimal", "precision": 4, "scale": 2}, "STRING"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 4}, "BINARY"),
        ({"type": "string", "logicalType": "timestamp-millis"}, "STRING"),
        ({"type": "int", "logicalType": "timestamp-millis"}, "INT"),
        ({"type": "long", "logicalType": "date"}, "BIGINT"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, "BINARY"),
        ({"type": "int", "logicalType": "time-millis"}, "INT"),
    ],
)
def test_a_type_that_may_not_mean_what_it_says_is_what_it_is(kind, sql):
    """As the specification has it: such a logical type is passed over."""
    assert avro.ddl(json.dumps(_row(kind))) == f"STRUCT<`a`: {sql}>"


def test_a_text_is_not_read_as_the_bytes_of_a_decimal():
    kind = {"type": "string", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert avro_plan.plan(_row(kind), pa.struct([("a", pa.decimal128(4, 2))])) is None


def test_times_of_a_day_are_the_numbers_of_their_columns_beside_lists_too():
    kinds = [{"type": "int", "logicalType": "time-millis"}, {"type": "array", "items": "int"}]
    schema = {"type": "record", "name": "R",
              "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(kinds)]}  # fmt: skip
    text = json.dumps(schema)
    data = AvroCodec(text).encode({"f0": "01:02:03", "f1": [1]})
    assert AvroCodec(text, for_columns=True).read(data) == {"f0": 3_723_000, "f1": [1]}
    assert AvroCodec(text).decode(data) == {"f0": "01:02:03", "f1": [1]}


def _row(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}


def _values(kind: str, number: int) -> pa.Array:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _row(kind), {"a": number})
    return pa.array([PREFIX + out.getvalue()], pa.binary())


def test_what_the_query_knows_of_a_type_counts_wherever_it_is_named():
    """As in a change of a row, whose `after` only names the record that `before` defines."""
    row = {"type": "record", "name": "Row", "fields": [{"name": "was", "type": "int"}]}
    now = {"type": "record", "name": "Row", "fields": [
        {"name": "now", "type": "int", "aliases": ["was"]},
        {"name": "note", "type": "string", "default": "none"}]}  # fmt: skip
    old, pinned = (
        fastavro.parse_schema({"type": "record", "name": "R", "fields": [
            {"name": "before", "type": kind}, {"name": "after", "type": ["null", "Row"]}]})
        for kind in (row, ["null", now])
    )  # fmt: skip
    kind = pa.struct([("now", pa.int32()), ("note", pa.string())])
    plan = avro_plan.plan(old, pa.struct([("before", kind), ("after", kind)]), pinned)
    assert plan is not None
    value = {"before": {"was": 1}, "after": {"was": 2}}
    structs, _ = plan.convert(pa.array([written(old, value)]))  # type: ignore[misc]
    assert structs.to_pylist() == [
        {"before": {"now": 1, "note": "none"}, "after": {"now": 2, "note": "none"}}
    ]


def test_a_symbol_that_the_query_does_not_know_is_its_default():
    """As Avro reads it, and fastavro where values are read one by one."""
    old, pinned = (
        fastavro.parse_schema(_row({"type": "enum", "name": "E", "symbols": each, "default": "A"}))
        for each in (["A", "B", "C"], ["B", "A"])
    )
    plan = avro_plan.plan(old, pa.struct([("a", pa.string())]), pinned)
    assert plan is not None
    values = [written(old, {"a": each}) for each in "ABC"]
    structs, _ = plan.convert(pa.array(values))  # type: ignore[misc]
    assert structs.field(0).to_pylist() == ["A", "B", "A"]


def test_what_json_has_no_number_for_is_a_text_there():
    """For tables, which read JSON: as a capture in JSON writes NaN."""
    row = _row({"type": "array", "items": "double"})
    found = Found(7, Schema(json.dumps(row)))

    class Known:
        def by_id(self, _: int) -> Found:
            return found

        latest = by_id

    value = written(row, {"a": [float("nan"), float("inf"), float("-inf"), 0.5]})
    texts = registry._texts(pa.array([value], pa.binary()), Codecs(Known()))
    assert texts.to_pylist() == [b'{"a":["NaN","Infinity","-Infinity",0.5]}']
