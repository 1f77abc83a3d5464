"""Reading the small files beside the segments, each of which can be made anew: one that cannot be read
counts as a damaged one.

`recovery` and `store` read snapshots, checkpoints and topic ids through `SmallFiles` at start, and `Segment`
its indexes, so that one bad sector costs a longer start and not the partition. A directory in such a file's
place is set aside (`NAME.HEX32-stray`), or nothing could be written there again. What is not about the file
itself (no descriptor left, no memory) is raised.
"""

from __future__ import annotations

import errno
import logging
import uuid
from pathlib import Path

from headwater.log.files import FileSystem

logger = logging.getLogger("headwater.log")

_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_about_the_file(error: OSError) -> bool:
    """Else the machine lacks something, and the file may be as good as any."""
    return error.errno not in _MACHINE


class SmallFiles:
    """Reads for one partition, and remembers what could not be read."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self.unreadable: dict[Path, str] = {}
        """Why, in the system's words."""

    def read_bytes(self, path: Path) -> bytes | None:
        """None if it is not there or cannot be read."""
        try:
            return self._files.read_bytes(path)
        except OSError as error:
            if not is_about_the_file(error):
                raise
            if path not in self.unreadable:
                logger.error("%s cannot be read, and is made anew: %s", path, error)
            self.unreadable[path] = error.strerror or str(error)
            if isinstance(error, IsADirectoryError):
                self._set_aside(path)
            return None

    def _set_aside(self, path: Path) -> None:
        try:
            self._files.rename(path, path.with_name(f"{path.name}.{uuid.uuid4().hex}-stray"))
        except OSError as error:  # whoever writes there meets it again
            logger.error("%s is in the way, and could not be set aside: %s", path, error)
