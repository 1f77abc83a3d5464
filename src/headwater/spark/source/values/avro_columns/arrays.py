"""Avro values to Arrow's columns in compiled code, by the steps that `plan` has made of a schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.schemas.values.header import PREFIX_BYTES
from headwater.spark.source.values.avro_columns import program
from headwater.spark.source.values.found import Found, struct

Avro: TypeAlias = Any
"""A schema, or a type in it, as fastavro has parsed it; None where there is none."""
STAMPS = {"timestamp-millis": 1000, "timestamp-micros": 1}
LOCAL = {"local-timestamp-millis": 1000, "local-timestamp-micros": 1}


class Unfit(Exception):
    """This cannot be read column by column."""


@dataclass
class Leaf:
    """A column that a slot has the values of."""

    kind: pa.DataType
    slot: int
    written: Avro
    """The writer's type."""


@dataclass
class Constant:
    kind: pa.DataType
    value: object


@dataclass
class Struct:
    kind: pa.StructType
    slot: int
    """-1: it is always there."""
    inside: list[Leaf | Constant | Struct] = field(default_factory=list)


class AvroColumns:
    """Of one writer's schema into one type of columns."""

    def __init__(
        self, steps: Sequence[tuple[int, int, int, int]], slots: int, root: Struct
    ) -> None:
        self._steps = np.array(steps, np.int64).reshape(-1, 4)
        self._slots, self._root = max(slots, 1), root

    def convert(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.uint8]] | None:
        """Structs, null where a value is null or none; and which are none. None: ask somebody else."""
        made = _Made.of(column, self._slots)
        place = (made.data, made.ends, made.wanted, PREFIX_BYTES, self._steps)
        program.run(*place, made.found, made.lengths, made.there, made.verdicts)
        try:
            inside = [made.one(each) for each in self._root.inside]
            structs = struct(self._root.kind, inside, made.wanted & (1 - made.verdicts))
            structs.validate(full=True)  # texts are UTF-8, decimals have room
        except (pa.ArrowException, Unfit, OverflowError):
            return None
        return structs, made.verdicts


class _Made(Found):
    """By the writer's types."""

    def one(self, what: Leaf | Constant | Struct) -> pa.Array:
        if isinstance(what, Struct):
            there = np.ones(self.rows, np.uint8) if what.slot < 0 else self.there[what.slot]
            return struct(what.kind, [self.one(each) for each in what.inside], there)
        if isinstance(what, Constant):
            return pa.repeat(pa.scalar(what.value, what.kind), self.rows)
        return self.leaf(what)

    def leaf(self, what: Leaf) -> pa.Array:
        kind, written = what.kind, what.written
        values, there = self.found[what.slot], self.there[what.slot]
        name = type_name(written)
        if name == "enum":
            symbols = pa.array(written["symbols"], pa.string())
            return symbols.take(pa.array(values, pa.int64(), mask=there == 0))
        if pa.types.is_decimal(kind):
            return self._decimals(what, there)
        if name in ("string", "bytes", "fixed"):
            return self.texts(kind, what.slot, there)
        if name == "boolean":
            values = program.bits(values.astype(np.uint8))
        elif name == "float":
            values = values.astype(np.uint32).view(np.float32)
        elif name == "double":
            values = values.view(np.float64)
        elif pa.types.is_timestamp(kind):
            factor = {**STAMPS, **LOCAL}[written["logicalType"]]
            most = (1 << 63) // factor - 1
            if values.max(initial=0) > most or values.min(initial=0) < -most:  # -2⁶³ has no abs()
                raise Unfit
            values = values * factor
        if not pa.types.is_boolean(kind) and not pa.types.is_temporal(kind):
            values = values.astype(kind.to_pandas_dtype(), copy=False)
        elif pa.types.is_date32(kind):
            values = values.astype(np.int32)
        return self.numbers(kind, values, there)

    def _decimals(self, what: Leaf, there: NDArray[np.uint8]) -> pa.Array:
        out = np.zeros((self.rows, 2), np.uint64)
        slot = what.slot
        if program.decimals(self.data, self.found[slot], self.lengths[slot], there, out) >= 0:
            raise Unfit
        written = pa.decimal128(what.written["precision"], what.written.get("scale", 0))
        made = self.numbers(written, out, there)
        return made if written == what.kind else made.cast(what.kind)


def type_name(kind: Avro) -> str:
    found = kind.get("type") if isinstance(kind, dict) else kind
    return found if isinstance(found, str) else ""
