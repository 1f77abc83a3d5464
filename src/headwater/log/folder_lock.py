"""The lock on a data folder: one process at a time works in it.

`Files.lock` takes it for a broker or a repair, alone; `check` together with others who only look. It is on
the lock file, by which earlier versions know it, and on the folder itself: somebody who takes the file for
a stale one may remove it, and whoever came next would make another and work beside the first.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path


def hold(path: Path, *, shared: bool = False) -> Callable[[], None]:
    """Until the returned function is called; `path` is the lock file. Raises BlockingIOError if another
    process has it. OSError if the file cannot be made or locked; `shared` does without it then."""
    kind = fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    file_flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    # Some file systems lock no folders (NFS).
    places = ((path.parent, os.O_RDONLY, True), (path, file_flags, shared))
    held = ExitStack()
    for place, flags, may_fail in places:
        try:
            descriptor = os.open(place, flags | os.O_CLOEXEC, 0o644)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, kind)
        except OSError as error:
            if may_fail and not isinstance(error, BlockingIOError):
                continue
            held.close()
            raise
    return held.close
