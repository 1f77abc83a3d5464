"""Room for columns, used again when Spark is done with them.

Fresh memory costs more than filling it: the kernel hands it out in zeroed pages of 4 KB, one fault each.
A decoder fills the same few arrays over and over, so their memory is kept, as bytearrays. One is free when
nobody looks at it: an array over it, or an Arrow buffer over that, however far it was handed on, is an export
of it, and Python refuses to change the length of a bytearray that has exports. (Counting references instead
is no promise of Python's: 3.14 counts otherwise, and memory in use was taken for free.) At most
`HELD_BYTES_MAX` are kept; what is larger or comes on top is given back.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELD_BYTES_MAX = 256 * 1024 * 1024
STEP_BYTES = 64 * 1024
_SMALL_BYTES = 64 * 1024


class Pool:
    """For all threads of a process."""

    def __init__(self) -> None:
        self._held: list[bytearray] = []
        self._lock = threading.Lock()

    def take(self, count: int, kind: Any) -> NDArray[Any]:
        """An array of that many items, of any content."""
        size = count * np.dtype(kind).itemsize
        if size < _SMALL_BYTES:
            return np.empty(count, kind)
        with self._lock:  # until it is looked at, it would be free for another thread too
            return np.frombuffer(self._bytes(size), kind, count)

    def _bytes(self, size: int) -> bytearray:
        for each in self._held:
            if size <= len(each) <= 2 * size + STEP_BYTES and _is_free(each):
                return each
        made = bytearray(-(-size // STEP_BYTES) * STEP_BYTES)
        self._held.append(made)
        self._let_go()
        return made

    def _let_go(self) -> None:
        """The oldest first, whether free or not: whoever still uses one keeps it alive."""
        while sum(map(len, self._held)) > HELD_BYTES_MAX and len(self._held) > 1:
            del self._held[0]


def _is_free(memory: bytearray) -> bool:
    """Nobody looks at it. One byte less and one more moves nothing: there is room for it."""
    try:
        memory.pop()
    except BufferError:
        return False
    memory.append(0)
    return True


pool = Pool()
"""The process's own."""
