"""Spark's numbers in Python: their limits, their arithmetic and their casts, by the names of its types.

    tinyint … bigint   int             date, timestamp, timestamp_ntz   int, µs
    decimal(p,s)       Decimal         interval day … to second         int, µs
    float, double      float, and NAN for what is no number

Called by `evaluator` and `memory`. What has no result raises an ArithmeticError where Spark is in ANSI mode;
where it is not, decimals become null and whole numbers wrap around.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ctypes import c_float
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

Binary = Callable[[Any, Any], Any]
Unary = Callable[[Any], Any]

# Products of decimals have up to 76 digits; a quotient is exact to so many that rounding it again is safe.
EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
# Scala's, with which Spark turns the sign of a decimal, and rounds what has more digits than that.
_SCALA = Context(prec=34, rounding=ROUND_HALF_EVEN)
DIGITS_MAX = 38
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DAY_TIME = re.compile(r"interval (?:(?:day|hour|minute) to )?(day|hour|minute|second)")
# All of them microseconds. That the last one is so too holds in UTC; elsewhere `analysis` asks Spark.
_TIMES = ("date", "timestamp_ntz", "timestamp")
_FIELDS = ("day", "hour", "minute", "second")


class NotANumber(float):
    """Spark's NaN: it equals itself, and is greater than any other number."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NotANumber)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, NotANumber)

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return isinstance(other, NotANumber)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, NotANumber)

    def __ge__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("NaN")

    def __reduce__(self) -> str:
        return "NAN"


NAN = NotANumber("nan")
"""The only one: every NaN that rows bring or that is computed must be replaced by it."""


def is_whole(type: str) -> bool:
    return type in _BITS


def is_fraction(type: str) -> bool:
    return type in ("float", "double")


def is_decimal(type: str) -> bool:
    return _DECIMAL.fullmatch(type) is not None


def is_number(type: str) -> bool:
    return is_whole(type) or is_fraction(type) or is_decimal(type)


def is_day_time(type: str) -> bool:
    """Whether it is an interval of days to seconds: a length of time that is always the same."""
    return _DAY_TIME.fullmatch(type) is not None


def single(value: float) -> float:
    """The nearest float of 32 bits."""
    return c_float(value).value


# ---- limits ---------------------------------------------------------------------------------------------


def limits(type: str, ansi: bool) -> Unary:
    """What makes a computed value one of the type: rounds, finds that it is too large, knows NaN."""
    if is_whole(type):
        return _whole(_BITS[type], ansi)
    if is_decimal(type):
        return _decimal(type, ansi)
    if is_day_time(type):
        return _whole(64, True)
    if type == "float":
        return lambda value: NAN if value != value else single(value)
    assert type == "double", type
    return lambda value: NAN if value != value else value


def _whole(bits: int, ansi: bool) -> Unary:
    most = (1 << bits - 1) - 1

    def whole(value: int) -> int:
        if -most - 1 <= value <= most:
            return value
        if ansi:
            raise OverflowError(f"{value} is too large for {bits} bits")
        return (value + most + 1) % (1 << bits) - most - 1

    return whole


def _decimal(type: str, ansi: bool) -> Unary:
    precision, scale = digits(type)
    unit, bound = Decimal(1).scaleb(-scale), Decimal(1).scaleb(precision - scale)
    zero = Decimal(0).scaleb(-scale)

    def fit(value: Decimal) -> Decimal | None:
        found = EXACT.quantize(value, unit)
        if -bound < found < bound:
            return found or zero  # Python has a decimal -0
        if ansi:
            raise OverflowError(f"{value:.{DIGITS_MAX}g} does not fit {type}")
        return None

    return fit


def digits(type: str) -> tuple[int, int]:
    """Precision and scale of a decimal."""
    found = _DECIMAL.fullmatch(type)
    assert found is not None, type
    return int(found[1]), int(found[2])


# ---- arithmetic -----------------------------------------------------------------------------------------


def binary(name: str, type: str, ansi: bool) -> Binary | None:
    """Add, Subtract, Multiply, Divide, Remainder with a result of the type; None where there is none."""
    if is_day_time(type):
        compute = _PLAIN.get(name) if name in ("Add", "Subtract") else None
    elif is_decimal(type):
        compute = _DECIMALS.get(name)
    elif is_fraction(type):
        compute = _FRACTIONS.get(name)
    else:
        compute = _WHOLE.get(name) if is_whole(type) else None
    if compute is None:
        return None
    limited = _limited(compute, limits(type, ansi))
    return _but_zero(limited, ansi) if name in ("Divide", "Remainder") else limited


def unary(name: str, type: str, ansi: bool) -> Unary | None:
    """UnaryMinus, Abs."""
    if not is_number(type) and not is_day_time(type):
        return None
    if is_decimal(type):
        # What comes to more digits than its type has, by rounding, is an error of Spark's in any mode.
        minus, limit = _SCALA.minus, limits(type, ansi=True)
    else:
        minus, limit = _minus, limits(type, ansi)
    if name == "UnaryMinus":
        return lambda value: limit(minus(value))
    if is_fraction(type):
        return lambda value: limit(abs(value))
    return lambda value: limit(minus(value)) if value < 0 else value


def _minus(value: Any) -> Any:
    return -value


def _limited(compute: Binary, limit: Unary) -> Binary:
    return lambda left, right: limit(compute(left, right))


def _but_zero(compute: Binary, ansi: bool) -> Binary:
    def call(left: Any, right: Any) -> Any:
        if right:
            return compute(left, right)
        if ansi:
            raise ZeroDivisionError("a division by zero")
        return None

    return call


def _whole_remainder(left: int, right: int) -> int:
    found = abs(left) % abs(right)
    return -found if left < 0 else found


def _remainder(left: float, right: float) -> float:
    return math.nan if math.isinf(left) else math.fmod(left, right)


_PLAIN: dict[str, Binary] = {
    "Add": lambda left, right: left + right,
    "Subtract": lambda left, right: left - right,
    "Multiply": lambda left, right: left * right,
}
_WHOLE = {**_PLAIN, "Remainder": _whole_remainder}
_FRACTIONS = {**_PLAIN, "Divide": lambda left, right: left / right, "Remainder": _remainder}
_DECIMALS: dict[str, Binary] = {
    "Add": EXACT.add,
    "Subtract": EXACT.subtract,
    "Multiply": EXACT.multiply,
    "Divide": EXACT.divide,
    "Remainder": EXACT.remainder,
}


# ---- casts ----------------------------------------------------------------------------------------------


def cast(given: str, wanted: str, ansi: bool) -> Unary | None:
    """How a value of one type becomes one of another; None where that is not for the machine."""
    if given == wanted or (given in _TIMES and wanted in _TIMES[_TIMES.index(given) :]):
        return _same
    if is_day_time(given) and is_day_time(wanted):
        return _same if _finest(given) <= _finest(wanted) else None
    if is_decimal(wanted) and (is_whole(given) or is_decimal(given)):
        fit = limits(wanted, ansi)
        return lambda value: fit(Decimal(value))
    if is_whole(given) and is_whole(wanted) and _BITS[given] < _BITS[wanted]:
        return _same
    if is_whole(given) and wanted == "float":
        return lambda value: float(np.int64(value).astype(np.float32))
    if wanted == "double" and is_number(given):
        return _same if given == "float" else float
    return None


def _finest(type: str) -> int:
    found = _DAY_TIME.fullmatch(type)
    assert found is not None, type
    return _FIELDS.index(found[1])


def _same(value: Any) -> Any:
    return value
