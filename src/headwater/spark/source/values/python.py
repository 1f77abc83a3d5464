"""Values one by one, in Python: for what no compiled reader takes. `json` and `avro` come here.

`conform` is strict: a value has the type that the schema says, or it does not fit.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.spark.source.values.schema import Bad

NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""As Spark writes them into JSON, and reads them; as texts, since JSON has no such numbers."""
_EXACT = decimal.Context(prec=100)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(  # without the 24:00 of newer Pythons
    r"\d{4}-\d\d-\d\d([T ](?:[01]\d|2[0-3])(:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?",
    re.ASCII,
)


class Misfit(Exception):
    """Why a value does not fit."""


class Object(dict[str, object]):
    """A JSON object, which knows the names that it has twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs] if len(pairs) > len(self) else []
        self.twice = {name for name in names if names.count(name) > 1}


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
        return [_inside(each, kind.value_field, f"{where}[]") for each in value]
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise _misfit(value, kind, where)
        _check_once(value, value, where)
        return [
            (conform(key, kind.key_type, where), _inside(each, kind.item_field, f"{where}.{key}"))
            for key, each in value.items()
        ]
    return _plain(value, kind, where)


def _struct(value: Any, kind: pa.StructType, where: str) -> Any:
    if not isinstance(value, dict):
        raise _misfit(value, kind, where)
    _check_once(value, kind.names, where)
    found = {}
    for each in kind:
        name = f"{where}.{each.name}" if where else each.name
        found[each.name] = _inside(value.get(each.name), each, name)
    return found


def _inside(value: object, field: pa.Field, where: str) -> object:
    if value is None and not field.nullable:
        raise Misfit(f"field {where} is missing")
    return conform(value, field.type, where)


def _check_once(value: object, names: Iterable[str], where: str) -> None:
    """Of two values under one name nobody can tell which counts."""
    if isinstance(value, Object) and value.twice and (twice := value.twice.intersection(names)):
        raise Misfit(f"field {where or 'value'} has {min(twice)!r} twice")


def _plain(value: Any, kind: pa.DataType, where: str) -> Any:
    is_number = isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if pa.types.is_integer(kind) and is_number and isinstance(value, int):
        if -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1:
            return value
    elif pa.types.is_floating(kind) and is_number:
        return _float(value, kind, where)
    elif pa.types.is_floating(kind) and value in NO_NUMBERS:
        return float(value)
    elif pa.types.is_string(kind) and isinstance(value, str):
        if value.isascii() or not _HALF_CHARACTER.search(value):
            return value
    elif pa.types.is_binary(kind) and isinstance(value, str | bytes):
        return _bytes(value, kind, where) if isinstance(value, str) else value
    elif pa.types.is_decimal(kind) and (is_number or isinstance(value, str)):
        return _decimal(value, kind, where)
    elif pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return _time(value, kind, where)
    elif pa.types.is_null(kind):
        return None
    raise _misfit(value, kind, where)


def _float(value: Any, kind: pa.DataType, where: str) -> float:
    """The nearest one; a number beyond the largest has none."""
    try:
        found = float(value)
    except OverflowError:
        raise _misfit(value, kind, where) from None
    if not isinstance(value, float) and math.isinf(pa.scalar(found, kind).as_py()):
        raise _misfit(value, kind, where)
    return found


def _decimal(value: Any, kind: pa.DataType, where: str) -> decimal.Decimal:
    """The very number, where the type has room for it; a text must be written as a number in JSON is."""
    try:
        if not isinstance(value, str) or _NUMBER.fullmatch(value):
            found = decimal.Decimal(value)
            # First how large it is: to write 1e999999 out would take all memory.
            if not found or found.adjusted() < kind.precision - kind.scale:
                exact = _EXACT.quantize(found, decimal.Decimal(1).scaleb(-kind.scale))
                if exact == found:
                    return exact
    except decimal.InvalidOperation:
        pass
    raise _misfit(value, kind, where)


def _bytes(value: str, kind: pa.DataType, where: str) -> bytes:
    """JSON has bytes as base64 only, as Spark reads and writes them."""
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise _misfit(value, kind, where) from None


def _time(value: Any, kind: pa.DataType, where: str) -> Any:
    """A date has no time, and a local time no zone: to leave one away would change it."""
    is_date, found = pa.types.is_date32(kind), value
    if isinstance(value, str) and (_DATE if is_date else _TIME).fullmatch(value):
        try:
            found = datetime.datetime.fromisoformat(value)
            found = found.date() if is_date else found
        except ValueError:
            raise _misfit(value, kind, where) from None
    if is_date and isinstance(found, datetime.date) and not isinstance(found, datetime.datetime):
        return found
    if is_date or not isinstance(found, datetime.datetime):
        raise _misfit(value, kind, where)
    if kind.tz is None and found.tzinfo is not None:
        raise _misfit(value, kind, where)
    return found.replace(tzinfo=found.tzinfo or (kind.tz and datetime.UTC))


def _misfit(value: Any, kind: pa.DataType, where: str) -> Misfit:
    shown = str(value) if isinstance(value, decimal.Decimal) else repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        shown = "a fraction"
    return Misfit(f"field {where or 'value'} is {shown[:80]}, which is no {kind}")
