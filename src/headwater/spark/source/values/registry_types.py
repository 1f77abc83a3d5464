"""The columns that a schema of a registry says, as Spark's SQL spells them.

Asked once for a query, by `pipelines.registry`. What Spark has no type for (a union of several types, a
record that holds itself, JSON of any form) is refused: a query that gives `schema=` can leave it out.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from headwater.client.errors import BadOption
from headwater.schemas.model import AVRO, PROTOBUF
from headwater.schemas.values.codecs import Found
from headwater.schemas.values.header import Json
from headwater.spark.source.values.struct_type import struct

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_PROTOBUF = {
    1: "DOUBLE", 2: "FLOAT", 3: "BIGINT", 4: "DECIMAL(20, 0)", 5: "INT", 6: "DECIMAL(20, 0)",
    7: "BIGINT", 8: "BOOLEAN", 9: "STRING", 12: "BINARY", 13: "BIGINT", 14: "STRING", 15: "INT",
    16: "BIGINT", 17: "INT", 18: "BIGINT",
}  # fmt: skip
_WELL_KNOWN = {
    "Timestamp": "TIMESTAMP", "Duration": "STRING", "StringValue": "STRING", "BytesValue": "BINARY",
    "BoolValue": "BOOLEAN", "DoubleValue": "DOUBLE", "FloatValue": "FLOAT", "Int32Value": "INT",
    "Int64Value": "BIGINT", "UInt32Value": "BIGINT", "UInt64Value": "DECIMAL(20, 0)",
}  # fmt: skip
_JSON = {"integer": "BIGINT", "number": "DOUBLE", "string": "STRING", "boolean": "BOOLEAN"}
_FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
_DEEPEST = 32
_PART = re.compile(r"`(?:[^`]|``)*`|[<>(),]")
"""A name, in which any letter may stand, or what divides."""
_NAME = re.compile(r"\s*`((?:[^`]|``)*)`: ")
ENVELOPE = ("before", "after", "op")
"""Fields of every change of a row."""


def ddl(found: Found) -> str:
    """STRUCT<…>. Raises BadOption."""
    if found.schema.kind == AVRO:
        from headwater.spark.source.values import avro

        return avro.ddl(found.schema.text, [each.text for each in found.imported])
    if found.schema.kind == PROTOBUF:
        return _of_protobuf(found)
    return _of_json(found)


def row_columns(found: Found) -> dict[str, str]:
    """The columns of a row with their types: of an envelope, those of the row after a change."""
    fields = _fields(ddl(found))
    if all(name in fields for name in ENVELOPE) and fields["after"].startswith("STRUCT<"):
        return _fields(fields["after"])
    return fields


def row_paths(found: Found) -> list[tuple[str, ...]]:
    """The names of all columns of a row, and of what is in them, each with those around it."""
    return [path for name, kind in row_columns(found).items() for path in _paths(kind, (name,))]


def _paths(kind: str, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    while kind.startswith(("ARRAY<", "MAP<STRING, ")):
        kind = kind.removeprefix("ARRAY<").removeprefix("MAP<STRING, ")[:-1]
    inner = _fields(kind) if kind.startswith("STRUCT<") else {}
    inside = [each for name, own in inner.items() for each in _paths(own, (*path, name))]
    return [path, *inside]


def _fields(struct: str) -> dict[str, str]:
    """Of a STRUCT<…> as it is spelt here. Spark's own parser is in Java, which a task has not."""
    found, depth, begin = {}, 0, len("STRUCT<")
    for part in _PART.finditer(struct):
        letter, place = part[0], part.start()
        depth += (letter in "<(") - (letter in ">)")
        if (letter == "," and depth == 1) or (letter == ">" and depth == 0):
            name = _NAME.match(struct, begin)
            assert name is not None
            found[name[1].replace("``", "`")] = struct[name.end() : place]
            begin = place + 1
    return found


def _spelt(name: str) -> str:
    """A name as SQL has it, whatever its letters."""
    return "`" + name.replace("`", "``") + "`"


# ---- Protobuf ----------------------------------------------------------------------------------------


def _of_protobuf(found: Found) -> str:
    from headwater.schemas import descriptors
    from headwater.schemas.values.protobuf import ProtobufCodec

    parsed = descriptors.of(found.schema.text, found.imported)
    return _message(ProtobufCodec(parsed).message(), ())


def _message(message: Descriptor, path: tuple[str, ...]) -> str:
    space, _, name = message.full_name.rpartition(".")
    if space == "google.protobuf" and name in _WELL_KNOWN:
        return _WELL_KNOWN[name]
    if message.full_name in path or space == "google.protobuf":
        raise BadOption(
            f"The schema's message {message.full_name} has no type in Spark.",
            hint="Give schema= with the columns that are wanted.",
        )
    inner = (*path, message.full_name)
    return struct((f"`{each.name}`", _field(each, inner)) for each in message.fields)


def _field(field: FieldDescriptor, path: tuple[str, ...]) -> str:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return f"MAP<STRING, {_one(entry.fields_by_name['value'], path)}>"
    own = _one(field, path)
    return f"ARRAY<{own}>" if field.is_repeated else own


def _one(field: FieldDescriptor, path: tuple[str, ...]) -> str:
    return _PROTOBUF.get(field.type) or _message(field.message_type, path)


# ---- JSON Schema -------------------------------------------------------------------------------------


def _of_json(found: Found) -> str:
    document = json.loads(found.schema.text)
    imported = {each.name: json.loads(each.text) for each in found.imported}
    made = _JsonTypes(document, imported).of(document, 0)
    if not made.startswith("STRUCT<"):
        raise BadOption("The JSON Schema of values must be an object with properties.")
    return made


class _JsonTypes:
    def __init__(self, document: Json, imported: dict[str, Json]) -> None:
        self._document, self._imported = document, imported

    def of(self, schema: Json, depth: int) -> str:
        schema = self._followed(schema)
        if not isinstance(schema, dict) or depth > _DEEPEST:
            raise _unclear(schema)
        if (union := schema.get("anyOf", schema.get("oneOf"))) is not None:
            others = [each for each in union if _object(each).get("type") != "null"]
            if len(others) != 1:
                raise _unclear(schema)
            return self.of(others[0], depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            others = [each for each in kind if each != "null"]
            kind = others[0] if len(others) == 1 else None
        if kind == "array" and isinstance(schema.get("items"), dict):
            return f"ARRAY<{self.of(schema['items'], depth + 1)}>"
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, depth)
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return "BINARY"
        if kind == "string":
            return _FORMATS.get(schema.get("format", ""), "STRING")
        if kind in _JSON:
            return _JSON[kind]
        values = schema.get("enum")
        if isinstance(values, list) and all(isinstance(each, str) for each in values):
            return "STRING"
        raise _unclear(schema)

    def _object(self, schema: dict[str, Json], depth: int) -> str:
        properties = schema.get("properties")
        if properties:
            return struct(
                (_spelt(name), self.of(each, depth + 1)) for name, each in properties.items()
            )
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            return f"MAP<STRING, {self.of(others, depth + 1)}>"
        raise _unclear(schema)

    def _followed(self, schema: Json) -> Json:
        for _ in range(_DEEPEST):
            reference = _object(schema).get("$ref")
            if not isinstance(reference, str):
                return schema
            place, _, pointer = reference.partition("#")
            schema = self._imported.get(place) if place else self._document
            for step in filter(None, pointer.split("/")):
                schema = _object(schema).get(step.replace("~1", "/").replace("~0", "~"))
        return None


def _object(value: object) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _unclear(schema: Json) -> BadOption:
    shown = json.dumps(schema)
    return BadOption(
        f"The JSON Schema has {shown[:120]}, for which Spark has no column type.",
        hint="Give schema= with the columns that are wanted.",
    )
