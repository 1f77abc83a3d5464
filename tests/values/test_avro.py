"""Avro values of every type: read as they were written, or a dead letter; by both framings."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_type

from headwater.testing import values
from tests.spark.source.reading import produce, read
from tests.values import known
from tests.values.records import cells, letters_of, wrong

FRAMES = {"avro": b"", "confluent-avro": b"\x00\x00\x00\x00\x07"}
AVRO = [each for each in values.COLUMNS if each.name != "by_number"]
"""A map of Avro's has texts as its keys."""


def avro_type(kind: pa.DataType, name: str) -> Any:
    t = pa.types
    if t.is_decimal(kind):
        said = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **said}
    if t.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if t.is_timestamp(kind):
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-micros"}
    if t.is_struct(kind):
        fields = [{"name": f.name, "type": nullable(f.type, f"{name}_{f.name}")} for f in kind]
        return {"type": "record", "name": f"r_{name}", "fields": fields}
    if t.is_map(kind):
        return {"type": "map", "values": nullable(kind.item_type, f"{name}_v")}
    if t.is_list(kind):
        return {"type": "array", "items": nullable(kind.value_type, f"{name}_i")}
    plain = {"bool": "boolean", "int64": "long", "float": "float", "double": "double", "string": "string",
             "binary": "bytes"}  # fmt: skip
    return plain.get(str(kind), "int")


def nullable(kind: pa.DataType, name: str) -> Any:
    return ["null", avro_type(kind, name)]


def datum(value: pa.Scalar) -> Any:
    """As fastavro takes it: times as their numbers, for Python's own end at the year 9999."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_temporal(kind):
        return value.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).as_py()
    if pa.types.is_struct(kind):
        return {name: datum(each) for name, each in value.items()}
    if pa.types.is_map(kind):
        return {pair["key"].as_py(): datum(pair["value"]) for pair in value.values}
    if pa.types.is_list(kind):
        return [datum(each) for each in value.values]
    return value.as_py()


def _as_avro(schema: pa.Schema) -> list[pa.Field]:
    """Avro's smallest integer has 32 bits."""
    small = (pa.int8(), pa.int16())
    return [field.with_type(pa.int32()) if field.type in small else field for field in schema]


@pytest.mark.parametrize("form", FRAMES)
def test_avro_is_read_as_it_was_written(bootstrap: str, form: str) -> None:
    fields = [{"name": each.name, "type": nullable(each.kind, each.name)} for each in AVRO]
    schema = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}, *fields]}
    parsed, table = fastavro.parse_schema(schema), values.rows(AVRO)
    written = []
    for number in range(table.num_rows):
        out = io.BytesIO()
        row = {name: datum(table.column(name)[number]) for name in table.schema.names}
        fastavro.schemaless_writer(out, parsed, row)
        written.append({"value": FRAMES[form] + out.getvalue(), "key": str(number)})
    topic, text = f"avro-{uuid.uuid4().hex[:8]}", json.dumps(schema)
    produce(bootstrap, topic, written)
    kind = from_arrow_type(pa.struct(_as_avro(table.schema)), prefer_timestamp_ntz=True)
    found = read(bootstrap, kind, subscribe=topic, schema=text, schemaFormat=form)
    rows = pa.Table.from_struct_array(found.column("value").combine_chunks())
    refused = letters_of(bootstrap, f"{topic}.dead-letters")
    known.check(form, wrong(AVRO, rows, refused))
    owner = cells(AVRO)
    gone = {owner[n]: why for n, why in refused.items() if not known.is_out_of_years(owner[n])}
    known.check("avro refused", gone)
