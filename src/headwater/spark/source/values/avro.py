"""Avro values to a column of structs, with fastavro: compiled, but value by value.

The schema is the writer's; a value must end where its record ends. `confluent-avro` is the same behind
five bytes, a zero and the number of a schema in a registry, which is not asked: all values must have been
written with the schema that is given.

An Avro schema as the type of a column, as Spark's SQL spells it. `schema` asks.

A name may stand for what was defined before it in the schema (records, enums, fixed), by itself within
its namespace or in full: Debezium's `after` names the record that `before` defines. A record that names
itself has no type in Spark and is refused.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.client.errors import BadOption
from headwater.schemas.values.moments import logical_of
from headwater.spark.source.values import python
from headwater.spark.source.values.schema import Bad
from headwater.spark.source.values.struct_type import struct

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
        from headwater.schemas.values.avro_types import reader_of

        self._read = reader_of(self._schema, for_columns=True)
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
        return plain(found)


def plain(value: Any) -> Any:
    """What fastavro makes of logical types, as Spark's columns have it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, uuid.UUID) else value


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
_NAMED = ("record", "enum", "fixed")


def ddl(text: str, imported: Sequence[str] = ()) -> str:
    """The type of a value whose Avro schema, a record, is `text`; what it refers to stands before it."""
    types = _Types()
    try:
        for each in imported:
            types.of(json.loads(each), "")
        found = json.loads(text)
    except ValueError as error:
        raise BadOption(f"schema is no Avro schema: {error}.") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise BadOption("The Avro schema of values must be a record.")
    return types.of(found, "")


class _Types:
    """What the schema has defined so far: full name → type; None while it is being defined."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def of(self, kind: Any, space: str) -> str:
        if isinstance(kind, list):
            return self._union(kind, space)
        if isinstance(kind, str):
            return _PLAIN[kind] if kind in _PLAIN else self._by_name(kind, space)
        if not isinstance(kind, dict) or "type" not in kind:
            raise BadOption(f"The Avro schema has {kind!r} in place of a type.")
        if kind["type"] in _NAMED and "name" in kind:
            return self._define(kind, space)
        return self._plain(kind, space)

    def _union(self, kind: list[Any], space: str) -> str:
        others = [each for each in kind if each != "null"]
        if len(others) != 1:
            raise BadOption(
                f"The Avro schema has a union of {others}, for which Spark has no column type.",
                hint="Only a type, or a type and null, can be read here.",
            )
        return self.of(others[0], space)

    def _by_name(self, name: str, space: str) -> str:
        full = name if "." in name or not space else f"{space}.{name}"
        found = self._known.get(full, self._known.get(name, ""))
        if found is None:
            raise BadOption(
                f"The Avro schema's record {name!r} holds itself, for which Spark has no type."
            )
        if not found:
            raise BadOption(f"The Avro schema names type {name!r} without saying what it is.")
        return found

    def _define(self, kind: dict[str, Any], space: str) -> str:
        name = kind["name"]
        if "." in name:
            space = name.rpartition(".")[0]
        else:
            space = kind.get("namespace", space)
            name = f"{space}.{name}" if space else name
        self._known[name] = None
        found = self._known[name] = self._plain(kind, space)
        return found

    def _plain(self, kind: dict[str, Any], space: str) -> str:
        logical = logical_of(kind)
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if logical == "decimal":
            return f"DECIMAL({kind['precision']}, {kind.get('scale', 0)})"
        if kind["type"] == "record":
            return struct(
                (f"`{each['name']}`", self.of(each["type"], space)) for each in kind["fields"]
            )
        if kind["type"] == "array":
            return f"ARRAY<{self.of(kind['items'], space)}>"
        if kind["type"] == "map":
            return f"MAP<STRING, {self.of(kind['values'], space)}>"
        return self.of(kind["type"], space)
