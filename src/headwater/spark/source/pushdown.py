"""Filters that Spark hands to the source: on topic, partition, offset and timestamp they need not be
looked at again; all others go back.

`batch` owns a `Pushed`. Spark does it for batch queries and only where the session has
`spark.sql.python.filterPushdown.enabled`; where it has not, Spark refuses any reader that has a
`pushFilters` of its own, even if there is nothing to filter. `Pushing` is called like one and says, when
Spark looks, that it is the one that every reader has.

The trap, and why the option `pushFilters` is off by default: Spark 4.3 keeps what a reader planned for
one query of a DataFrame and uses it again for the next one, if that has no filter to push. So after
`df.filter("offset < 5").count()` an unfiltered `df.count()` would count five. (With any Python data
source; a test says when Spark has mended it.)
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

NEVER_NULL = ("topic", "partition", "offset", "timestamp")
_COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, choices: value in choices,
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass
class Pushed:
    """What is left to read: offsets [first, end), microseconds [since, until], some partitions."""

    first: int = 0
    end: int | None = None
    since: int | None = None
    until: int | None = None
    places: list[Filter] = field(default_factory=list)

    def takes(self, topic: str, partition: int) -> bool:
        """Whether the filters on topic and partition let this one through."""
        values = {"topic": topic, "partition": partition}
        return all(
            _COMPARED[type(each)](values[each.attribute[0]], each.value)  # type: ignore[attr-defined]
            for each in self.places
        )

    def push(self, each: Filter) -> bool:
        """Take this filter over, wholly; False: Spark must look at it."""
        name = _column(each)
        if name is None:
            return False
        if isinstance(each, IsNotNull):
            return name in NEVER_NULL
        value = getattr(each, "value", None)
        if type(each) not in _COMPARED or value is None:
            return False
        if name in ("topic", "partition"):
            self.places.append(each)
            return True
        if isinstance(each, In):
            return False
        if name == "offset" and isinstance(value, int):
            return self._offsets(each, value)
        if name == "timestamp" and isinstance(value, datetime.datetime):
            return self._times(each, _micros(value))
        return False

    def _offsets(self, each: Filter, value: int) -> bool:
        low, high = _between(each, value)
        if low is not None:
            self.first = max(self.first, low)
        if high is not None:
            self.end = high + 1 if self.end is None else min(self.end, high + 1)
        return True

    def _times(self, each: Filter, value: int) -> bool:
        low, high = _between(each, value)
        if low is not None:
            self.since = low if self.since is None else max(self.since, low)
        if high is not None:
            self.until = high if self.until is None else min(self.until, high)
        return True


class Pushing:
    """A reader's `pushFilters`."""

    def __init__(self, pushed: Pushed, enabled: bool) -> None:
        self._pushed = pushed
        self._enabled = enabled
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return [each for each in filters if not (self._enabled and self._pushed.push(each))]


def _column(each: Filter) -> str | None:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else None


def _between(each: Filter, value: int) -> tuple[int | None, int | None]:
    """The whole numbers that a comparison leaves, both ends included."""
    if isinstance(each, EqualTo | EqualNullSafe):
        return value, value
    if isinstance(each, GreaterThan):
        return value + 1, None
    if isinstance(each, GreaterThanOrEqual):
        return value, None
    if isinstance(each, LessThan):
        return None, value - 1
    assert isinstance(each, LessThanOrEqual)
    return None, value


def _micros(value: datetime.datetime) -> int:
    aware = value if value.tzinfo is not None else value.astimezone()
    return (aware - _EPOCH) // datetime.timedelta(microseconds=1)
