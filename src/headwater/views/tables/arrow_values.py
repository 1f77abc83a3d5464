"""JSON values to what Arrow takes for a column, where Spark's parser certainly gives the same.

`envelopes` asks for one function per column. It takes a value as orjson gives it and returns it for Arrow, or
raises `Unfit`: then Spark's own parser, which is the reference, reads the record and says what it is. So only
what is beyond doubt is taken here, and a wrong `Unfit` costs time and changes nothing. Maps are left to
Spark, since it keeps both values of a key that is there twice.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Fit = Callable[[Any], Any]
_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(  # without the 24:00 of newer Pythons
    r"\d{4}-\d\d-\d\d[T ](?:[01]\d|2[0-3]):\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-4]):[0-5]\d)?",
    re.ASCII,
)
_DECIMAL = re.compile(r"-?(\d{1,38})(?:\.(\d{1,38}))?", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)


class Unfit(Exception):
    """Not surely what Spark's parser would say: let that say it."""


def fit_of(kind: DataType, *, utc: bool) -> Fit | None:
    """For values of a type; None for a type that is left to Spark. `utc`: a time without a zone is in UTC."""
    from pyspark.sql.types import ArrayType, DecimalType, StructType

    name = kind.simpleString()
    if name in _INTEGERS:
        return _integer(_INTEGERS[name])
    if isinstance(kind, DecimalType):
        return _decimal(kind.precision, kind.scale)
    if isinstance(kind, ArrayType):
        inner = fit_of(kind.elementType, utc=utc)
        return None if inner is None else _list(inner)
    if isinstance(kind, StructType):
        return _struct(kind, utc=utc)
    if name == "timestamp":
        return _timestamp(utc)
    return {"string": _string, "boolean": _boolean, "double": _double, "date": _date}.get(name)


def key_text_of(kind: DataType) -> Fit:
    """For a record's key that is plain text: what Spark's `try_cast` makes of it."""
    name = kind.simpleString()
    if name in _INTEGERS:
        fit = _integer(_INTEGERS[name])
        return lambda text: fit(int(text)) if _INTEGER.fullmatch(text) else _unfit()
    return _string if name == "string" else lambda _: _unfit()


def _unfit() -> Any:
    raise Unfit


def _integer(bits: int) -> Fit:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def fit(value: Any) -> Any:
        if value is None or (type(value) is int and least <= value <= most):
            return value
        raise Unfit

    return fit


def _string(value: Any) -> Any:
    if value is None or type(value) is str:
        return value
    raise Unfit


def _boolean(value: Any) -> Any:
    if value is None or type(value) is bool:
        return value
    raise Unfit


def _double(value: Any) -> Any:
    kind = type(value)
    if value is None or (kind is float and math.isfinite(value)):
        return value
    if kind is int and value:
        return float(value)
    raise Unfit  # a zero may have a sign that is lost here


def _date(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is str and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    raise Unfit


def _timestamp(utc: bool) -> Fit:
    def fit(value: Any) -> Any:
        if value is None:
            return None
        found = _TIME.fullmatch(value) if type(value) is str else None
        if found is None or not (utc or found[2]):
            raise Unfit
        try:
            time = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise Unfit from None
        # Where clocks were not yet set by offsets of whole minutes, Java and Python may count otherwise.
        if time.year < 1900:
            raise Unfit
        return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)

    return fit


def _decimal(precision: int, scale: int) -> Fit:
    def fit(value: Any) -> Any:
        if value is None:
            return None
        text = str(value) if type(value) is int else value
        found = _DECIMAL.fullmatch(text) if type(text) is str else None
        if found is None:
            raise Unfit
        if len(found[1]) > precision - scale or len(found[2] or "") > scale:
            raise Unfit
        return decimal.Decimal(text)

    return fit


def _list(inner: Fit) -> Fit:
    def fit(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is list:
            return [inner(each) for each in value]
        raise Unfit

    return fit


def _struct(kind: StructType, *, utc: bool) -> Fit | None:
    inner = [(field.name, fit_of(field.dataType, utc=utc)) for field in kind.fields]
    known = [(name, fit) for name, fit in inner if fit is not None]
    if len(known) < len(inner) or len({name for name, _ in known}) < len(known):
        return None

    def fit(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is dict:
            return {name: each(value.get(name)) for name, each in known}
        raise Unfit

    return fit
