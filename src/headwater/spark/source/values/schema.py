"""The `schema` option: the type of the column `value`, as Spark's SQL spells it, and who decodes it.

A schema is given as SQL ("id BIGINT, total DOUBLE"), as Spark's JSON (`df.schema.json()`) or, for Avro, as
an Avro schema. The column is a struct, so that a field may be called `key` or `offset` like a column of
the source; `select("value.*")` spreads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headwater.client.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructField, StructType

    from headwater.spark.source.options import SourceOptions


class Bad(NamedTuple):
    """A value that does not fit: its row, and why."""

    row: int
    reason: str


class Values(Protocol):
    """Turns a column of bytes into a column of structs, without the rows that do not fit."""

    def convert(self, column: pa.Array) -> tuple[pa.Array, Sequence[Bad]]: ...


def values(options: SourceOptions, topic: str, kind: pa.StructType) -> Values:
    """The decoder for these options; `kind` is the column's type."""
    assert options.schema is not None
    if options.registry is not None:
        from headwater.spark.source.values.registry import RegistryValues

        return RegistryValues(options, topic, kind)
    if options.schema_format == "json":
        from headwater.spark.source.values.json import JsonValues

        return JsonValues(kind)
    from headwater.spark.source.values.avro import AvroValues

    return AvroValues(options.schema, kind, framed=options.schema_format == "confluent-avro")


def value_ddl(schema: str, schema_format: str) -> str:
    """The type of the column `value`."""
    text = schema.strip()
    if schema_format != "json":
        from headwater.spark.source.values.avro import ddl

        return ddl(text)
    if not text.startswith("{"):
        return text if text.upper().startswith("STRUCT<") else f"STRUCT<{text}>"
    from pyspark.sql.types import StructType

    try:
        return sql_type(StructType.fromJson(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadOption(
            f"schema is no schema of Spark's: {error}.",
            hint='Write it as SQL ("id BIGINT, total DOUBLE") or as df.schema.json().',
        ) from None


def sql_type(kind: DataType) -> str:
    """As SQL reads it back, whatever letters names have, at any depth: `simpleString` is for people."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return f"struct<{', '.join(map(_sql_field, kind.fields))}>"
    if isinstance(kind, t.ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, t.MapType):
        return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return str(kind.simpleString())


def sql_columns(row: StructType) -> str:
    """The same of the fields of a row, without what is around them."""
    return sql_type(row).removeprefix("struct<")[:-1]


def _sql_field(field: StructField) -> str:
    name = field.name.replace("`", "``")
    return f"`{name}`: {sql_type(field.dataType)}"
