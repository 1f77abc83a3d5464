"""The columns that a registry's schema says, whatever letters their names have."""

from __future__ import annotations

import json

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.client.errors import BadOption
from headwater.schemas.model import AVRO, JSON, PROTOBUF, Schema
from headwater.schemas.values.codecs import Found
from headwater.spark.source.values.avro_columns import plan as avro_plan
from headwater.spark.source.values.registry_types import ddl, row_columns
from headwater.spark.source.values.schema import sql_columns, value_ddl

ODD = ("a, b", "x<y", "a>b", "net (€)", "a`b", "a`: b", "``")


def found(properties: dict[str, object]) -> Found:
    return Found(1, Schema(json.dumps({"type": "object", "properties": properties}), JSON))


@pytest.mark.parametrize("name", ODD)
def test_a_column_may_have_any_name(name):
    inner = {"type": "object", "properties": {name: {"type": "integer"}}}
    schema = found({"id": {"type": "integer"}, name: {"type": "string"}, "in": inner})
    spelt = "`" + name.replace("`", "``") + "`"
    assert ddl(schema) == f"STRUCT<`id`: BIGINT, {spelt}: STRING, `in`: STRUCT<{spelt}: BIGINT>>"
    assert row_columns(schema) == {"id": "BIGINT", name: "STRING", "in": f"STRUCT<{spelt}: BIGINT>"}


@pytest.mark.parametrize("name", ODD)
def test_so_may_one_of_a_captured_row(name):
    row = {"type": "object", "properties": {name: {"type": "string"}, "n": {"type": "number"}}}
    change = {"before": row, "after": row, "op": {"type": "string"}}
    assert row_columns(found(change)) == {name: "STRING", "n": "DOUBLE"}


LEVELS = 40


def _avro(level: int) -> object:
    if level == 0:
        return "int"
    again = f"t{level - 1}" if level > 1 else "int"
    fields = [{"name": "x", "type": _avro(level - 1)}, {"name": "y", "type": again}]
    return {"type": "record", "name": f"t{level}", "fields": fields}


def _json() -> dict[str, object]:
    defs: dict[str, object] = {"t0": {"type": "integer"}}
    for level in range(1, 30):
        inner = {"$ref": f"#/$defs/t{level - 1}"}
        defs[f"t{level}"] = {"type": "object", "properties": {"x": inner, "y": inner}}
    return {"$defs": defs, "$ref": "#/$defs/t29"}


def _protobuf() -> str:
    levels = range(LEVELS, 0, -1)
    made = [f"message T{n} {{ T{n - 1} x = 1; T{n - 1} y = 2; }}" for n in levels]
    return "\n".join(['syntax = "proto3";', *made, "message T0 { int32 x = 1; }"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [(AVRO, json.dumps(_avro(LEVELS))), (JSON, json.dumps(_json())), (PROTOBUF, _protobuf())],
)
def test_a_schema_of_records_that_double_has_too_many_columns(kind, text):
    """Each of two that are each of two …: a few hundred bytes, and a million million columns."""
    with pytest.raises(BadOption, match="more than 1,000,000 letters"):
        ddl(Found(1, Schema(text, kind)))


def test_what_doubles_and_is_no_column_is_read_value_by_value():
    """The writer has it besides; steps for each of its fields would not end."""
    besides = {"name": "more", "type": ["null", _avro(LEVELS)], "default": None}
    fields = [{"name": "id", "type": "int"}, besides]
    written = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    assert avro_plan.plan(written, pa.struct({"id": pa.int32()})) is None


@pytest.mark.parametrize("name", [*ODD, "net-price", "order"])
def test_so_may_one_inside_of_another_for_spark_as_well(spark: SparkSession, name: str):
    inner = {"type": "object", "properties": {name: {"type": "integer"}}}
    several = {"type": "array", "items": inner}
    several_named = {"type": "object", "additionalProperties": inner}
    schema = found({name: {"type": "string"}, "in": inner, "l": several, "m": several_named})
    row = StructType.fromDDL(f"value {ddl(schema)}")["value"].dataType
    assert isinstance(row, StructType)
    assert row.names == [name, "in", "l", "m"]
    assert StructType.fromDDL(sql_columns(row)) == row
    assert StructType.fromDDL(f"value {value_ddl(row.json(), 'json')}")["value"].dataType == row
