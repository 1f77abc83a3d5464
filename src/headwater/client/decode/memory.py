"""Room for columns, used again when Spark is done with them.

Fresh memory costs more than filling it: the kernel hands it out in zeroed pages of 4 KB, one fault each.
A decoder fills the same few arrays over and over, so they are kept. An array is free when nobody but the
pool refers to it; an Arrow buffer over it, however far it was handed on, is such a reference. At most
`HELD_BYTES_MAX` are kept; what is larger or comes on top is given back.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELD_BYTES_MAX = 256 * 1024 * 1024
STEP_BYTES = 64 * 1024
_SMALL_BYTES = 64 * 1024
_FREE = 3  # the list, the loop's variable, and the question itself


class Pool:
    """Not for several threads: a worker has one that decodes."""

    def __init__(self) -> None:
        self._held: list[NDArray[np.uint8]] = []

    def take(self, count: int, kind: Any) -> NDArray[Any]:
        """An array of that many items, of any content."""
        size = count * np.dtype(kind).itemsize
        if size < _SMALL_BYTES:
            return np.empty(count, kind)
        return self._bytes(size)[:size].view(kind)

    def _bytes(self, size: int) -> NDArray[np.uint8]:
        for each in self._held:
            if size <= len(each) <= 2 * size + STEP_BYTES and sys.getrefcount(each) == _FREE:
                return each
        made = np.empty(-(-size // STEP_BYTES) * STEP_BYTES, np.uint8)
        self._held.append(made)
        self._let_go()
        return made

    def _let_go(self) -> None:
        """The oldest first, whether free or not: whoever still uses one keeps it alive."""
        while sum(map(len, self._held)) > HELD_BYTES_MAX and len(self._held) > 1:
            del self._held[0]


pool = Pool()
"""The worker's own."""
