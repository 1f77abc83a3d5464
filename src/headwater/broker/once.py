"""Each thing that a request asks for, once, however often it asks.

For the handlers whose answer says much about each: two bytes that name the same topic again would
become as many rows as it has partitions, and a small request more than there is memory.

Also rows that are the same for many things that a request asks for: they are there once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from headwater.broker.registry import Context

T = TypeVar("T")
Row = dict[str, object]
ROW_BYTES = 150
"""What one config takes in an answer, about, with its synonyms and documentation."""
OBJECT_BYTES = 700
"""The same as objects."""


def once(items: Iterable[T] | None, key: Callable[[T], Hashable] = lambda item: item) -> list[T]:
    """Those that are not about the same as an earlier one, in their order."""
    found: dict[Hashable, T] = {}
    for item in items or ():
        found.setdefault(key(item), item)
    return list(found.values())


class SharedRows:
    """Those of one answer, whatever slices it is made in."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows: dict[Hashable, list[Row]] = {}
        self.freely_named = 0
        """Of things that are described whether or not they are there."""

    def rows(self, key: Hashable, made: Callable[[], list[Row]], freely_named: bool) -> list[Row]:
        """Those of this key; counted as objects once, and as what is written each time."""
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = made()
            self._context.reads(len(rows) * OBJECT_BYTES)
        self._context.reads(len(rows) * ROW_BYTES)
        self.freely_named += len(rows) * freely_named
        return rows
