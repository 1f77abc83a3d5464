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
        return StructType.fromJson(json.loads(text)).simpleString()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadOption(
            f"schema is no schema of Spark's: {error}.",
            hint='Write it as SQL ("id BIGINT, total DOUBLE") or as df.schema.json().',
        ) from None
