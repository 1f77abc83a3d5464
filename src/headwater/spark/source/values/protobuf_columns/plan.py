"""A message's descriptor as the table of `program`, for the columns that a query wants.

`registry` asks for each schema that values name. Columns are found by the numbers that the query's own schema
has for them, or by the fields' names where it has none. Not everything can be read so (lists, maps, a `oneof`
of several fields, proto2's enums, durations): `plan` then says None, and the values are read one by one.
"""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headwater.schemas.values.messages import enum_names, pairs
from headwater.spark.source.values.protobuf_columns import program as p
from headwater.spark.source.values.protobuf_columns.arrays import (
    Leaf,
    Made,
    Missing,
    ProtobufColumns,
    Stamp,
    Struct,
)

NUMBER_MAX = 4096
_F = FieldDescriptor
_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
_KINDS = {
    _F.TYPE_INT64: (p.LONG, _VARINT, pa.int64()), _F.TYPE_INT32: (p.INT, _VARINT, pa.int32()),
    _F.TYPE_UINT64: (p.LONG, _VARINT, pa.decimal128(20, 0)),
    _F.TYPE_UINT32: (p.UNSIGNED, _VARINT, pa.int64()), _F.TYPE_BOOL: (p.TRUTH, _VARINT, pa.bool_()),
    _F.TYPE_SINT64: (p.ZIGZAG, _VARINT, pa.int64()),
    _F.TYPE_FIXED64: (p.FIXED, _EIGHT, pa.decimal128(20, 0)),
    _F.TYPE_SFIXED64: (p.FIXED, _EIGHT, pa.int64()), _F.TYPE_DOUBLE: (p.FIXED, _EIGHT, pa.float64()),
    _F.TYPE_FIXED32: (p.FIXED, _FOUR, pa.int64()), _F.TYPE_SFIXED32: (p.FIXED, _FOUR, pa.int32()),
    _F.TYPE_FLOAT: (p.FIXED, _FOUR, pa.float32()), _F.TYPE_STRING: (p.TEXT, _SIZED, pa.string()),
    _F.TYPE_BYTES: (p.TEXT, _SIZED, pa.binary()), _F.TYPE_ENUM: (p.INT, _VARINT, pa.string()),
}  # fmt: skip
_TIMESTAMP = "google.protobuf.Timestamp"


class Unfit(Exception):
    """This cannot be read column by column."""


def plan(
    message: Descriptor, kind: pa.StructType, read_as: Descriptor | None = None
) -> ProtobufColumns | None:
    """None where values must be read one by one."""
    planner = _Planner()
    try:
        root = Struct(kind, -1, planner.inside(message, read_as, kind, 0))
    except Unfit:
        return None
    return ProtobufColumns(planner.messages, planner.fields, root)


class _Planner:
    def __init__(self) -> None:
        self.fields: list[p.Field] = []
        self.messages: list[dict[int, int]] = [{}]

    def inside(
        self, message: Descriptor, read_as: Descriptor | None, kind: pa.StructType, number: int
    ) -> list[Made]:
        if message.GetOptions().message_set_wire_format:
            raise Unfit
        fields = {name: (own, known) for name, own, known in pairs(message, read_as)}
        return [
            Missing(each.type)
            if each.name not in fields
            else self.one(*fields[each.name], each.type, number)
            for each in kind
        ]

    def one(
        self,
        field: FieldDescriptor,
        known: FieldDescriptor | None,
        kind: pa.DataType,
        message: int,
    ) -> Made:
        oneof = field.containing_oneof
        if field.is_repeated or (oneof is not None and len(oneof.fields) > 1):
            raise Unfit
        if field.type == _F.TYPE_MESSAGE:
            return self._message(field, known, kind, message)
        if field.type == _F.TYPE_SINT32:
            step, wire, own = p.ZIGZAG_INT, _VARINT, pa.int32()
        elif field.type in _KINDS:
            step, wire, own = _KINDS[field.type]
        else:
            raise Unfit
        if own != kind or (field.enum_type is not None and field.enum_type.is_closed):
            raise Unfit
        read_as = None if known is None else known.enum_type
        if field.enum_type is not None and known is not None and read_as is None:
            raise Unfit  # the reader has the number
        names = {} if field.enum_type is None else enum_names(field.enum_type, read_as)
        return Leaf(kind, self.add(message, field.number, step, wire), field, names)

    def _message(
        self,
        field: FieldDescriptor,
        known: FieldDescriptor | None,
        kind: pa.DataType,
        message: int,
    ) -> Made:
        inner = field.message_type
        self.messages.append({})
        number = len(self.messages) - 1
        slot = self.add(message, field.number, p.MESSAGE, _SIZED, number)
        if inner.full_name == _TIMESTAMP:
            if kind != pa.timestamp("us", "UTC"):
                raise Unfit
            parts = [self.add(number, 1, p.LONG, _VARINT), self.add(number, 2, p.INT, _VARINT)]
            return Stamp(kind, slot, *parts)
        if not pa.types.is_struct(kind) or inner.full_name.startswith("google.protobuf."):
            raise Unfit
        read_as = None if known is None else known.message_type
        return Struct(kind, slot, self.inside(inner, read_as, kind, number))

    def add(self, message: int, number: int, kind: int, wire: int, inner: int = -1) -> int:
        if number >= NUMBER_MAX or len(self.messages) > NUMBER_MAX:
            raise Unfit
        self.messages[message][number] = len(self.fields)
        self.fields.append((kind, len(self.fields), inner, wire))
        return len(self.fields) - 1
