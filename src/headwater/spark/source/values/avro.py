"""Avro values to a column of structs, with fastavro: compiled, but value by value.

The schema is the writer's; a value must end where its record ends. `confluent-avro` is the same behind
five bytes, a zero and the number of a schema in a registry, which is not asked: all values must have been
written with the schema that is given.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.spark.errors import BadOption
from headwater.spark.source.values import python
from headwater.spark.source.values.typed import Bad

PREFIX_BYTES = 5


class AvroValues:
    """For one schema."""

    def __init__(self, schema: str, kind: pa.StructType, framed: bool) -> None:
        try:
            import fastavro
        except ImportError:
            raise BadOption(
                "Avro values need the package fastavro.", hint="pip install headwater[spark]"
            ) from None
        try:
            self._schema = fastavro.parse_schema(json.loads(schema))
        except Exception as error:  # fastavro has no common class for what may be wrong
            raise BadOption(f"schema is no Avro schema: {error}.") from None
        self._read = fastavro.schemaless_reader
        self._kind = kind
        self._framed = framed

    def convert(self, column: pa.Array) -> tuple[pa.Array, Sequence[Bad]]:
        return python.convert(column, self._kind, self._parse)

    def _parse(self, value: bytes) -> Any:
        start = 0
        if self._framed:
            if len(value) < PREFIX_BYTES or value[0]:
                raise python.Misfit("the value does not begin with a zero and a schema's number")
            start = PREFIX_BYTES
        data = io.BytesIO(value)
        data.seek(start)
        try:
            found = self._read(data, self._schema, None)
        except Exception as error:  # whatever its reader met: IndexError, EOFError, UnicodeError
            raise python.Misfit(f"no Avro of this schema: {type(error).__name__} {error}") from None
        if data.tell() != len(value):
            raise python.Misfit(f"{len(value) - data.tell()} bytes follow the Avro record")
        return _plain(found)


def _plain(value: Any) -> Any:
    """What fastavro makes of logical types, as Spark's columns have it."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, uuid.UUID) else value
