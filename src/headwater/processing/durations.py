"""Lengths of time as people write them: `"10 minutes"`, as Spark does, or a `timedelta`.

Used by every operator, and by the test kit. Only fixed lengths: a month is none.
"""

from __future__ import annotations

import re
from datetime import timedelta

from headwater.errors import HeadwaterError

Duration = str | timedelta

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_UNITS_US = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
    "w": 604_800_000_000,
}


class BadDuration(HeadwaterError):
    """A text that says no length of time."""


def micros(duration: Duration) -> int:
    """The length in microseconds, Spark's own unit of time; never negative."""
    if isinstance(duration, timedelta):
        found = duration // timedelta(microseconds=1)
        if found < 0:
            raise BadDuration(f"a length of time cannot be negative: {duration}")
        return found
    text = duration.lower().strip()
    parts = [(number, unit) for number, unit in _PART.findall(text)]
    if not parts or _PART.sub("", text):
        raise BadDuration(_complaint(duration), hint='write it as "90 seconds" or "1 hour"')
    return round(sum(float(number) * _unit(unit, duration) for number, unit in parts))


def millis(duration: Duration) -> int:
    return micros(duration) // 1000


def interval(duration: Duration) -> str:
    """As Spark's functions take it."""
    return f"{micros(duration)} microseconds"


def _unit(unit: str, said: Duration) -> int:
    found = _UNITS_US.get(unit) or _UNITS_US.get(unit.removesuffix("s"))
    if found is None:
        known = ", ".join(name for name in _UNITS_US if len(name) > 3)
        raise BadDuration(_complaint(said), hint=f"its unit may be {known}")
    return found


def _complaint(said: Duration) -> str:
    return f"{said!r} is no length of time"
