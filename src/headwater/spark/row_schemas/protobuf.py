"""The rows of a DataFrame as a Protobuf schema (proto3): one message, and one for each struct in it.

Every column may be missing. Decimals, dates and times without a zone are texts; a list that is null is empty,
and Protobuf has no null in a list, no list in a list and none in a map. Fields have the numbers of
`field_numbers`. Called when a view is built; the sink encodes by the id.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from headwater.schemas.protobuf import printer
from headwater.schemas.protobuf.field_numbers import Known, known_numbers, number

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIMESTAMP = "google/protobuf/timestamp.proto"
_F = FieldDescriptorProto
_PLAIN = {
    "string": _F.TYPE_STRING, "long": _F.TYPE_INT64, "double": _F.TYPE_DOUBLE, "float": _F.TYPE_FLOAT,
    "integer": _F.TYPE_INT32, "short": _F.TYPE_INT32, "byte": _F.TYPE_INT32,
    "boolean": _F.TYPE_BOOL, "binary": _F.TYPE_BYTES, "date": _F.TYPE_STRING,
    "timestamp_ntz": _F.TYPE_STRING, "decimal": _F.TYPE_STRING,
}  # fmt: skip


def protobuf_schema(
    row: StructType, name: str, before: Sequence[str], without: Container[str] = ()
) -> str:
    """But for the columns `without`; `before`: the texts of all versions. Raises ValueError for a column that
    Protobuf has no type or no name for."""
    file = FileDescriptorProto(name="schema.proto", syntax="proto3")
    _File(file, known_numbers(before)).add(row, name, without)
    return printer.text_of(file)


class _File:
    def __init__(self, file: FileDescriptorProto, known: Known) -> None:
        self._file, self._known = file, known

    def add(self, row: StructType, name: str, without: Container[str] = ()) -> str:
        message = self._file.message_type.add(name=name)
        numbers = dict(self._known.get(name, {}))
        for each in row.fields:
            if each.name not in without:
                if not _NAME.fullmatch(each.name):
                    raise ValueError(f"Protobuf has no name {each.name!r}")
                self._field(message, each.name, each.dataType, number(each.name, numbers))
        return name

    def _field(self, message: DescriptorProto, name: str, kind: DataType, at: int) -> None:
        from pyspark.sql import types as t

        made = message.field.add(name=name, number=at, label=_F.LABEL_OPTIONAL)
        if isinstance(kind, t.ArrayType):
            made.label = _F.LABEL_REPEATED
            self._type(made, kind.elementType, f"{message.name}_{name}")
        elif isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
            self._map(message, made, kind)
        else:
            self._type(made, kind, f"{message.name}_{name}")
            if made.type != _F.TYPE_MESSAGE:
                made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{name}")

    def _type(self, made: FieldDescriptorProto, kind: DataType, name: str) -> None:
        from pyspark.sql import types as t

        if isinstance(kind, t.StructType):
            made.type, made.type_name = _F.TYPE_MESSAGE, f".{self.add(kind, name)}"
        elif isinstance(kind, t.TimestampType):
            if _TIMESTAMP not in self._file.dependency:
                self._file.dependency.append(_TIMESTAMP)
            made.type, made.type_name = _F.TYPE_MESSAGE, ".google.protobuf.Timestamp"
        elif (found := _PLAIN.get(kind.typeName())) is not None:
            made.type = found
        else:
            raise ValueError(f"Protobuf has no type for {kind.simpleString()} in {made.name}")

    def _map(self, message: DescriptorProto, made: FieldDescriptorProto, kind: DataType) -> None:
        parts = made.name.split("_")
        entry = message.nested_type.add(name="".join(map(_capital, parts)) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL, type=_F.TYPE_STRING)
        value = entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL)
        self._type(value, getattr(kind, "valueType"), f"{message.name}_{made.name}")  # noqa: B009
        made.label, made.type = _F.LABEL_REPEATED, _F.TYPE_MESSAGE
        made.type_name = f".{message.name}.{entry.name}"


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]
