"""What a store in files was last seen to say, as long as nobody has written to them since.

Used where a running application asks its stores again and again: to open a database takes a hundred times as
long as to see that its files are as they were, and may keep a writer waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

SETTLED_NS = 2_000_000_000
"""Two writes in one tick of the file system's clock leave one time: only an older one is trusted."""
Value = TypeVar("Value")
Stamp = tuple[tuple[int, int, int] | None, ...]


class LastSeen(Generic[Value]):
    """By what was asked for; there are as many as an application has views."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._seen: dict[Hashable, tuple[Stamp, Value]] = {}

    def get(self, what: Hashable, files: Sequence[Path], ask: Callable[[], Value]) -> Value:
        """What `ask` said when these files were as they are now, or says now."""
        stamp = tuple(_stamp(path) for path in files)
        known = self._seen.get(what)
        if known is not None and known[0] == stamp:
            return known[1]
        settled = self._clock_ns() - SETTLED_NS
        said = ask()
        if stamp[0] is not None and all(each is None or each[0] < settled for each in stamp):
            self._seen[what] = stamp, said
        return said


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
