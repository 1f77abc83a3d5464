"""Values one by one, in Python: for what no compiled reader takes. `json` and `avro` come here.

`conform` is strict: a value has the type that the schema says, or it does not fit.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.spark.source.values.typed import Bad


class Misfit(Exception):
    """Why a value does not fit."""


def convert(
    column: pa.Array, kind: pa.StructType, parse: Callable[[bytes], Any]
) -> tuple[pa.Array, Sequence[Bad]]:
    """Structs for the rows that fit (null for null), and those that do not."""
    found: list[Any] = []
    bad: list[Bad] = []
    for row, value in enumerate(column.to_pylist()):
        if value is None:
            found.append(None)
            continue
        try:
            found.append(conform(parse(value), kind, ""))
        except Misfit as error:
            bad.append(Bad(row, str(error)))
    return pa.array(found, kind), bad


def with_nulls(structs: pa.Array, there: NDArray[np.uint8], bad: Sequence[Bad]) -> pa.Array:
    """The structs of the rows that have one, with null again where a row had no value."""
    if there.all():
        return structs
    left = np.delete(there, [each.row for each in bad]).astype(bool)
    places = np.cumsum(left) - 1
    return structs.take(pa.array(places, pa.int64(), mask=~left))


def conform(value: Any, kind: pa.DataType, where: str) -> Any:
    """The value as Arrow takes it; Misfit if it is of another type."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return _struct(value, kind, where)
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise _misfit(value, kind, where)
        return [conform(each, kind.value_type, f"{where}[]") for each in value]
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise _misfit(value, kind, where)
        return [
            (conform(key, kind.key_type, where), conform(each, kind.item_type, f"{where}.{key}"))
            for key, each in value.items()
        ]
    return _plain(value, kind, where)


def _struct(value: Any, kind: pa.StructType, where: str) -> Any:
    if not isinstance(value, dict):
        raise _misfit(value, kind, where)
    found = {}
    for each in kind:
        name = f"{where}.{each.name}" if where else each.name
        found[each.name] = conform(value.get(each.name), each.type, name)
        if found[each.name] is None and not each.nullable:
            raise Misfit(f"field {name} is missing")
    return found


def _plain(value: Any, kind: pa.DataType, where: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if pa.types.is_integer(kind) and is_number and isinstance(value, int):
        if -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1:
            return value
    elif pa.types.is_floating(kind) and is_number:
        return float(value)
    elif pa.types.is_string(kind) and isinstance(value, str):
        return value
    elif pa.types.is_binary(kind) and isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    elif pa.types.is_decimal(kind) and (is_number or isinstance(value, str | decimal.Decimal)):
        return _decimal(value, kind, where)
    elif pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return _time(value, kind, where)
    elif pa.types.is_null(kind):
        return None
    raise _misfit(value, kind, where)


def _decimal(value: Any, kind: pa.DataType, where: str) -> decimal.Decimal:
    try:
        found = decimal.Decimal(str(value) if isinstance(value, float) else value)
        fits = found == found.quantize(decimal.Decimal(1).scaleb(-kind.scale))
        if fits and found.adjusted() < kind.precision - kind.scale:
            return found
    except decimal.InvalidOperation:
        pass
    raise _misfit(value, kind, where)


def _time(value: Any, kind: pa.DataType, where: str) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise _misfit(value, kind, where) from None
    if pa.types.is_date32(kind):
        return value.date() if isinstance(value, datetime.datetime) else value
    if not isinstance(value, datetime.datetime):
        raise _misfit(value, kind, where)
    if kind.tz is not None and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


def _misfit(value: Any, kind: pa.DataType, where: str) -> Misfit:
    shown = "a fraction" if isinstance(value, float) and not math.isfinite(value) else repr(value)
    return Misfit(f"field {where or 'value'} is {shown[:80]}, which is no {kind}")
