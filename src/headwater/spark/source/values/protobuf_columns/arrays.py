"""Protobuf values to Arrow's columns in compiled code, by the table that `plan` has made of a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from numpy.typing import NDArray

from headwater.schemas.values.header import PREFIX_BYTES
from headwater.spark.source.values.avro_columns.program import bits
from headwater.spark.source.values.found import Found, struct
from headwater.spark.source.values.protobuf_columns import program as p

_F = FieldDescriptor
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""The years 1 and 9999."""


@dataclass
class Leaf:
    kind: pa.DataType
    slot: int
    field: FieldDescriptor
    names: Mapping[int, str]
    """Of an enum's numbers."""

    @property
    def always(self) -> bool:
        """Whether what did not come is the type's zero, and not nothing."""
        return not self.field.has_presence


@dataclass
class Stamp:
    kind: pa.DataType
    slot: int
    seconds: int
    nanos: int


@dataclass
class Missing:
    kind: pa.DataType


@dataclass
class Struct:
    kind: pa.StructType
    slot: int
    """-1: it is always there."""
    inside: list[Made] = field(default_factory=list)


Made: TypeAlias = "Leaf | Stamp | Missing | Struct"


class ProtobufColumns:
    """Of one writer's message into one type of columns."""

    def __init__(
        self, messages: Sequence[Mapping[int, int]], fields: Sequence[p.Field], root: Struct
    ) -> None:
        """`messages`: of each, a field's number → its place among `fields`, which have a slot each."""
        most = max((number for each in messages for number in each), default=0)
        self._places = np.full((len(messages), most + 1), -1, np.int64)
        for message, numbers in enumerate(messages):
            for number, place in numbers.items():
                self._places[message, number] = place
        self._fields = np.array(fields, np.int64).reshape(-1, 4)
        self._slots, self._root = max(len(fields), 1), root

    def convert(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.uint8]] | None:
        """Structs, null where a value is null or not read; and which are not read. None: none are."""
        made = _Made.of(column, self._slots)
        place = (made.data, made.ends, made.wanted, PREFIX_BYTES, self._places, self._fields)
        p.run(*place, made.found, made.lengths, made.there, made.verdicts)
        if (bad := made.verdicts == 1).any():
            made.found[:, bad], made.lengths[:, bad], made.there[:, bad] = 0, 0, 0
        try:
            inside = [made.one(each) for each in self._root.inside]
            structs = struct(self._root.kind, inside, made.wanted & (1 - made.verdicts))
            structs.validate(full=True)  # texts are UTF-8
        except (pa.ArrowException, OverflowError):
            return None
        return structs, made.verdicts


class _Made(Found):
    """By the message's fields; `verdicts` also of what only shows now."""

    def one(self, what: Made) -> pa.Array:
        if isinstance(what, Struct):
            inside = [self.one(each) for each in what.inside]
            return struct(what.kind, inside, self.there[what.slot])
        if isinstance(what, Missing):
            return pa.nulls(self.rows, what.kind)
        if isinstance(what, Stamp):
            return self._stamps(what)
        return self._leaf(what)

    def _stamps(self, what: Stamp) -> pa.Array:
        """Cut off at the microsecond, as Spark's `from_protobuf` does it."""
        there, seconds, nanos = (
            self.there[what.slot],
            self.found[what.seconds],
            self.found[what.nanos],
        )
        odd = (nanos < 0) | (nanos >= 10**9)
        odd |= (seconds < _FIRST_S) | (seconds > _LAST_S)
        self.verdicts[odd & (there == 1)] = 1
        values = np.where(odd, 0, seconds) * 1_000_000 + np.where(odd, 0, nanos) // 1000
        return self.numbers(what.kind, values, there)

    def _leaf(self, what: Leaf) -> pa.Array:
        values = self.found[what.slot]
        there = np.ones(self.rows, np.uint8) if what.always else self.there[what.slot]
        if what.field.enum_type is not None:
            return self._enums(what, values, there)
        if what.field.type in (_F.TYPE_STRING, _F.TYPE_BYTES):
            return self.texts(what.kind, what.slot, there)
        if pa.types.is_decimal(what.kind):
            wide = np.zeros((self.rows, 2), np.uint64)
            wide[:, 0] = values.view(np.uint64)
            return self.numbers(what.kind, wide, there)
        return self.numbers(what.kind, _OF_BITS[what.field.type](values), there)

    def _enums(self, what: Leaf, values: NDArray[np.int64], there: NDArray[np.uint8]) -> pa.Array:
        numbers = np.array(sorted(what.names), np.int64)
        names = pa.array([what.names[int(n)] for n in numbers], pa.string())
        places = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
        self.verdicts[(numbers[places] != values) & (there == 1)] = 1
        return names.take(pa.array(places, pa.int64(), mask=there == 0))


_OfBits = Callable[[NDArray[np.int64]], np.ndarray]
_OF_BITS: dict[int, _OfBits] = {
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), lambda values: values),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), lambda values: values & 0xFFFFFFFF),
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32), lambda values: values.astype(np.int32)),
    _F.TYPE_SFIXED32: lambda values: values.astype(np.uint32).view(np.int32),
    _F.TYPE_DOUBLE: lambda values: values.view(np.float64),
    _F.TYPE_FLOAT: lambda values: values.astype(np.uint32).view(np.float32),
    _F.TYPE_BOOL: lambda values: bits(values.astype(np.uint8)),
}
