"""The rows of a DataFrame as a JSON Schema (draft 7).

Closed, and no column is required: so that a column can be added. A number that is none (NaN) is no JSON and
is refused when it is written. Called when a view is built; the sink checks by the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from pyspark.sql.types import DataType, StructType

DRAFT = "http://json-schema.org/draft-07/schema#"
_PLAIN: dict[str, dict[str, object]] = {
    **{name: {"type": "integer"} for name in ("long", "integer", "short", "byte")},
    **{name: {"type": "number"} for name in ("double", "float")},
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string"},
    "date": {"type": "string", "format": "date"},
}


def json_schema(row: StructType, title: str, without: Container[str] = ()) -> dict[str, object]:
    """But for the columns `without`. Raises ValueError for one that JSON has no form for."""
    return {"$schema": DRAFT, "title": title, **_object(row, without)}


def _object(row: StructType, without: Container[str] = ()) -> dict[str, object]:
    fields = {each.name: _kind(each.dataType) for each in row.fields if each.name not in without}
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _kind(kind: DataType) -> dict[str, object]:
    return {"oneOf": [{"type": "null"}, _certain(kind)]}


def _certain(kind: DataType) -> dict[str, object]:
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return _object(kind)
    if isinstance(kind, t.ArrayType):
        return {"type": "array", "items": _kind(kind.elementType)}
    if isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
        return {"type": "object", "additionalProperties": _kind(kind.valueType)}
    if isinstance(kind, t.DecimalType):
        return {"type": "number"}
    found = _PLAIN.get(kind.typeName())
    if found is None:
        raise ValueError(f"JSON Schema has no type for {kind.simpleString()}")
    return found
