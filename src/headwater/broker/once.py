"""Each thing that a request asks for, once, however often it asks.

For the handlers whose answer says much about each: two bytes that name the same topic again would
become as many rows as it has partitions, and a small request more than there is memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def once(items: Iterable[T] | None, key: Callable[[T], Hashable] = lambda item: item) -> list[T]:
    """Those that are not about the same as an earlier one, in their order."""
    found: dict[Hashable, T] = {}
    for item in items or ():
        found.setdefault(key(item), item)
    return list(found.values())
