"""Times and decimals of Avro's logical types: from JSON to the number or the bytes that Avro has; pure.

| logical type      | in JSON                                       | and not                                |
|-------------------|-----------------------------------------------|----------------------------------------|
| decimal           | a number, or a text that is one               | of more digits or a finer scale        |
| date              | `2026-01-02`, or the days since 1970          | a day that no calendar has             |
| time-…            | `03:04:05.678`, or the units since midnight   | with a zone, or finer than its unit    |
| timestamp-…       | ISO 8601 with a zone, or the units since 1970 | without a zone, or finer than its unit |
| local-timestamp-… | ISO 8601 without a zone, or a number          | with a zone, or finer than its unit    |

Each raises ValueError, TypeError or ArithmeticError for what its type does not hold exactly.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from headwater.schemas.values.header import Json

_LOGICAL = frozenset((
    ("bytes", "decimal"), ("fixed", "decimal"), ("string", "uuid"), ("int", "date"),
    ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-millis"),
    ("long", "timestamp-micros"), ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
))  # fmt: skip
_NUMBER = re.compile(r"-?\d{1,1000}(\.\d{1,1000})?([eE][+-]?\d{1,4})?", re.ASCII)
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)
"""A part of a second that Python's `fromisoformat` would cut off."""
DIGITS_MAX = 960
"""Of a decimal: those of the 400 bytes that `avro_types` reads."""
_MICROS = {"millis": 1000, "micros": 1}
_MICROSECOND = timedelta(microseconds=1)
_DAY_MICROS = timedelta(days=1) // _MICROSECOND
_EPOCH = datetime(1970, 1, 1)


def logical_of(kind: Json) -> str | None:
    """What a type of a schema means. Where another type stands than one that may mean that, or a decimal has
    no size, the type itself counts, as Avro has it."""
    if not isinstance(kind, dict) or not isinstance(kind.get("type"), str):
        return None
    found = kind.get("logicalType")
    if not isinstance(found, str) or (kind["type"], found) not in _LOGICAL:
        return None
    return found if found != "decimal" or _has_size(kind) else None


def _has_size(kind: Json) -> bool:
    precision, scale = kind.get("precision"), kind.get("scale", 0)
    return type(precision) is int and type(scale) is int and precision > 0 <= scale <= precision


def decimal(value: Json, precision: int, scale: int) -> int:
    """Without its point."""
    text = str(value)
    if type(value) not in (int, float, str, Decimal) or not _NUMBER.fullmatch(text):
        raise TypeError
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    unscaled, shift = int("".join(map(str, digits))), exponent + scale
    # A schema may name any number as its precision: nothing is computed from it.
    if unscaled and shift > 0 and shift >= min(precision, DIGITS_MAX):
        raise ValueError
    unscaled, rest = (
        (unscaled * 10 ** min(shift, DIGITS_MAX), 0)
        if shift >= 0
        else divmod(unscaled, 10 ** min(-shift, 3000))
    )
    if rest or unscaled >= 10 ** min(precision, DIGITS_MAX):
        raise ValueError
    return -unscaled if sign else unscaled


def days(value: Json) -> int:
    """Since 1970."""
    if type(value) is int:
        date.fromordinal(_EPOCH.toordinal() + value)
        return value
    found = date.fromisoformat(value)
    if found.isoformat() != value:
        raise ValueError
    return found.toordinal() - _EPOCH.toordinal()


def since_midnight(value: Json, unit: str) -> int:
    if type(value) is int:
        if not 0 <= value < _DAY_MICROS // _MICROS[unit]:
            raise ValueError
        return value
    found = time.fromisoformat(value)
    if found.tzinfo is not None:
        raise ValueError
    return _units(datetime.combine(_EPOCH, found) - _EPOCH, unit, value)


def since_epoch(value: Json, unit: str, *, is_local: bool) -> int:
    if type(value) is int:
        _EPOCH + value * _MICROS[unit] * _MICROSECOND
        return value
    found = datetime.fromisoformat(value)
    if (found.tzinfo is None) != is_local or ("T" not in value.upper() and " " not in value):
        raise ValueError
    if not is_local:
        found = found.astimezone(UTC).replace(tzinfo=None)
    return _units(found - _EPOCH, unit, value)


def _units(since: timedelta, unit: str, text: str) -> int:
    count, rest = divmod(since // _MICROSECOND, _MICROS[unit])
    if rest or _FINER.search(text):
        raise ValueError
    return count
