"""The `schema` option: the type of the column `value`, as Spark's SQL spells it, and who decodes it.

A schema is given as SQL ("id BIGINT, total DOUBLE"), as Spark's JSON (`df.schema.json()`) or, for Avro, as
an Avro schema. The column is a struct, so that a field may be called `key` or `offset` like a column of
the source; `select("value.*")` spreads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headwater.spark.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.spark.source.options import SourceOptions

_PLAIN = {
    "string": "STRING",
    "bytes": "BINARY",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "enum": "STRING",
    "fixed": "BINARY",
}
_LOGICAL = {
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "date": "DATE",
    "uuid": "STRING",
}


class Bad(NamedTuple):
    """A value that does not fit: its row, and why."""

    row: int
    reason: str


class Values(Protocol):
    """Turns a column of bytes into a column of structs, without the rows that do not fit."""

    def convert(self, column: pa.Array) -> tuple[pa.Array, Sequence[Bad]]: ...


def values(options: SourceOptions, kind: pa.StructType) -> Values:
    """The decoder for these options; `kind` is the column's type."""
    assert options.schema is not None
    if options.schema_format == "json":
        from headwater.spark.source.values.json import JsonValues

        return JsonValues(kind)
    from headwater.spark.source.values.avro import AvroValues

    return AvroValues(options.schema, kind, framed=options.schema_format == "confluent-avro")


def value_ddl(schema: str, schema_format: str) -> str:
    """The type of the column `value`."""
    text = schema.strip()
    if schema_format != "json":
        return _avro_ddl(_avro_record(text))
    if not text.startswith("{"):
        return text if text.upper().startswith("STRUCT<") else f"STRUCT<{text}>"
    from pyspark.sql.types import StructType

    try:
        return StructType.fromJson(json.loads(text)).simpleString()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadOption(
            f"schema is no schema of Spark's: {error}.",
            hint='Write it as SQL ("id BIGINT, total DOUBLE") or as df.schema.json().',
        ) from None


def _avro_record(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadOption(f"schema is no Avro schema: {error}.") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise BadOption("The Avro schema of values must be a record.")
    return found


def _avro_ddl(kind: Any) -> str:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) != 1:
            raise BadOption(
                f"The Avro schema has a union of {others}, for which Spark has no column type.",
                hint="Only a type, or a type and null, can be read here.",
            )
        return _avro_ddl(others[0])
    if isinstance(kind, str):
        if kind not in _PLAIN:
            raise BadOption(f"The Avro schema names type {kind!r} without saying what it is.")
        return _PLAIN[kind]
    if not isinstance(kind, dict) or "type" not in kind:
        raise BadOption(f"The Avro schema has {kind!r} in place of a type.")
    logical = kind.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical == "decimal":
        return f"DECIMAL({kind['precision']}, {kind.get('scale', 0)})"
    if kind["type"] == "record":
        fields = ", ".join(
            f"`{each['name']}`: {_avro_ddl(each['type'])}" for each in kind["fields"]
        )
        return f"STRUCT<{fields}>"
    if kind["type"] == "array":
        return f"ARRAY<{_avro_ddl(kind['items'])}>"
    if kind["type"] == "map":
        return f"MAP<STRING, {_avro_ddl(kind['values'])}>"
    return _avro_ddl(kind["type"])
