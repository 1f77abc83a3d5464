"""A short pause that a repair asks of a running query, so that the view stands still while it is mended.

`headwater verify --repair` holds; the query's driver waits right before each commit. What keeps the view
right is not this, but that a correction is refused once the view has moved (`Target.correct`): a hold
only lets a repair get its turn on a stream that never rests. It is a file in the query's checkpoint
folder that says until when it counts, so that a repair that dies holds nobody up for long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = "hold"
LONGEST_S = 60.0


@contextmanager
def held(folder: Path, seconds: float = LONGEST_S) -> Iterator[None]:
    """Ask the query of this checkpoint folder to commit nothing for a while."""
    until = time.time() + min(seconds, LONGEST_S)
    note = folder / FILE
    fresh = folder / f".{FILE}.{os.getpid()}"
    fresh.write_text(f"{until:.3f}\n", encoding="utf-8")
    fresh.rename(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def wait_while_held(
    folder: Path, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time
) -> float:
    """Return as soon as nobody holds the query; how long that took."""
    began = now()
    while now() < min(_until(folder), began + LONGEST_S):
        sleep(0.02)
    return now() - began


def _until(folder: Path) -> float:
    try:
        return float((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0
