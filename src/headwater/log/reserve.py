"""A megabyte that is kept for the day on which the disk has none left: what makes room needs a little first.

Retention and DeleteRecords write down where a log begins before they remove a file, and a start writes as
well. `progress` gives the reserve back where that finds no room, the broker's `disk_space` lays it by again
as soon as there is some.
"""

from __future__ import annotations

import contextlib
import errno
import random
from collections.abc import Callable
from pathlib import Path

from headwater.log.files import FileSystem, Space

NAME = ".reserve"
SIZE = 1024**2
FULL = (errno.ENOSPC, errno.EDQUOT)
_ROOM = 2 * SIZE
"""With less than this nothing is laid by."""


def lay_by(files: FileSystem, root: Path, space: Space) -> None:
    """Where it is missing and there is room."""
    path = root / NAME
    with contextlib.suppress(OSError):  # tried again a second later
        if space.free >= _ROOM and (NAME not in files.list(root) or files.size(path) != SIZE):
            # A file system may compress zeros away.
            files.write_atomic(path, random.Random(0).randbytes(SIZE))


def spend(files: FileSystem, root: Path, step: Callable[[], None]) -> None:
    """Do this; if there is no room, once more with the reserve. Raises OSError."""
    try:
        step()
    except OSError as error:
        if error.errno not in FULL or not give_back(files, root):
            raise
        step()


def give_back(files: FileSystem, root: Path) -> bool:
    """Whether there was one."""
    is_there = NAME in files.list(root)
    if is_there:
        files.remove(root / NAME)
    return is_there


def at_start(files: FileSystem, root: Path) -> None:
    """The next start needs a little, too."""
    if files.space(root).free < SIZE:
        give_back(files, root)
