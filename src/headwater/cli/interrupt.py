"""Ctrl-C as a question that a loop asks, rather than an exception at any line.

Python raises KeyboardInterrupt wherever it is, and where that is the end of an object or a callback of a
library, it is printed and forgotten: the command would go on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """Whether somebody has pressed it meanwhile. Pressed again, it is the exception after all."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals are the main thread's
        return
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def heard(_number: int, _frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, heard)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
