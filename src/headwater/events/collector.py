"""The cycle collector, put to rest while many events are made at once: none of them is garbage.

Without this it looks at all of them again and again: three quarters of the time of decoding.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_resting = 0
_was_enabled = False


@contextmanager
def resting() -> Iterator[None]:
    """For moments; several threads may rest it at once."""
    global _resting, _was_enabled
    with _lock:
        if _resting == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _resting += 1
    try:
        yield
    finally:
        with _lock:
            _resting -= 1
            if _resting == 0 and _was_enabled:
                gc.enable()
