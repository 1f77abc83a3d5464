"""A short pause that a repair asks of a running query, so that the view stands still while it is mended.

`headwater verify --repair` holds; the query's driver waits right before each commit. What keeps the view
right is not this, but that a correction is refused once the view has moved (`Target.correct`): a hold
only lets a repair get its turn on a stream that never rests. It is a file in the query's checkpoint
folder that says until when it counts and for whom, so that a repair that dies holds nobody up:

    {"until": 1794757955.58, "host": "laptop", "pid": 4711}
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE = "hold"
LONGEST_S = 300.0
"""The log may have to be read once more meanwhile, to know what the rows must be."""


@contextmanager
def held(folder: Path, seconds: float = LONGEST_S) -> Iterator[None]:
    """Ask the query of this checkpoint folder to commit nothing for a while."""
    until = time.time() + min(seconds, LONGEST_S)
    note = folder / FILE
    fresh = folder / f".{FILE}.{os.getpid()}"
    said = {"until": until, "host": platform.node(), "pid": os.getpid()}
    fresh.write_text(json.dumps(said) + "\n", encoding="utf-8")
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
    """The end of the hold; the past, where there is none or its holder is gone."""
    try:
        said: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if said["host"] == platform.node() and not is_alive(said["pid"]):
            return 0.0
        return float(said["until"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def is_alive(pid: int) -> bool:
    """Whether there is such a process on this machine, whoever it belongs to."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
