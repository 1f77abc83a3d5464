"""The rows of a DataFrame as an Avro schema, to be registered for the topic that they are written to.

Every column may be null and has null for its default, so that a column can be added, or taken away, at any
level of compatibility. Called when a view is built; the sink encodes by the id.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from pyspark.sql.types import DataType, StructType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: dict[str, object] = {
    "string": "string", "long": "long", "integer": "int", "short": "int", "byte": "int",
    "double": "double", "float": "float", "boolean": "boolean", "binary": "bytes",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
}  # fmt: skip


def avro_schema(row: StructType, name: str, without: Container[str] = ()) -> dict[str, object]:
    """But for the columns `without`. Raises ValueError for one that Avro has no type or no name for."""
    fields = []
    for each in row.fields:
        if each.name in without:
            continue
        if not _NAME.fullmatch(each.name):
            raise ValueError(f"Avro has no name {each.name!r}")
        kind = _kind(each.dataType, f"{name}_{each.name}")
        fields.append({"name": each.name, "type": ["null", kind], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def _kind(kind: DataType, name: str) -> object:
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return avro_schema(kind, name)
    if isinstance(kind, t.ArrayType):
        return {"type": "array", "items": ["null", _kind(kind.elementType, name)]}
    if isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
        return {"type": "map", "values": ["null", _kind(kind.valueType, name)]}
    if isinstance(kind, t.DecimalType):
        size = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **size}
    found = _PLAIN.get(kind.typeName())
    if found is None:
        raise ValueError(f"Avro has no type for {kind.simpleString()}")
    return found


def legal(topic: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", topic if not topic[:1].isdigit() else f"_{topic}")
