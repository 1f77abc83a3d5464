"""Real files with a hand on them: `HandDisk` can hold, slow down, refuse and count what reaches a disk.

It is `headwater.testing`'s disk with faults, and does not sync: what a power cut leaves is rehearsed in
`tests/simulation`, and here the machine has no time to wait for its disk. A killed process loses nothing
either way.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.log.files import File, Files, Space
from headwater.testing.disk_faults import DiskFaults, FaultyRealFile, matches

WAIT_SECONDS = 60.0


class HandDisk(DiskFaults):
    """A disk with faults that need not be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.free_bytes: int | None = None
        """What is free, as `space` tells it; None: what really is."""
        self.cold: str = ""
        """No read of files that match this is answered from memory."""

    @contextmanager
    def failing(self, *operations: str, code: int = errno.EIO, name: str = "*") -> Iterator[None]:
        """Within the block, these operations fail."""

        def fail(path: Path) -> None:
            raise OSError(code, os.strerror(code), str(path))

        ends = [self.on(operation, fail, name) for operation in operations]
        try:
            yield
        finally:
            for end in ends:
                end()

    @contextmanager
    def full(self) -> Iterator[None]:
        """Within the block there is no space left: whatever takes some fails."""
        with self.failing("write", "write_atomic", "create", code=errno.ENOSPC):
            yield

    @contextmanager
    def held(self, operation: str, name: str = "*") -> Iterator[Held]:
        """Within the block, these operations wait until `release` (or the block's end)."""
        held = Held()
        end = self.on(operation, held.wait, name)
        try:
            yield held
        finally:
            held.release()
            end()

    # ---- the seam ------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> File:
        self.before("create" if create and not path.exists() else "open", path)
        return HandFile(self, path, Files.open(self, path, create=create))

    def space(self, path: Path) -> Space:
        found = super().space(path)
        return found if self.free_bytes is None else found._replace(free=self.free_bytes)

    def write_atomic(self, path: Path, data: bytes) -> None:
        self.before("write_atomic", path)
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_bytes(data)
        temporary.replace(path)

    def make_dir(self, directory: Path) -> None:
        self.before("create", directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.sync_dir(directory.parent)

    def sync_dir(self, directory: Path) -> None:
        self.before("sync_dir", directory)


class HandFile(FaultyRealFile):
    """An open file of a HandDisk."""

    def __init__(self, disk: HandDisk, path: Path, file: File) -> None:
        super().__init__(disk, path, file)
        self._hand = disk

    def read_cached(self, position: int, size: int) -> bytes | None:
        if self._hand.cold and matches(self._path, self._hand.cold):
            return None
        return super().read_cached(position, size)

    def sync(self) -> None:
        self._disk.before("sync", self._path)
        self._disk.before("synced", self._path)


class Held:
    """Operations that wait; `reached` is set once the first one does."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._go = threading.Event()

    def wait(self, path: Path) -> None:
        self.reached.set()
        assert self._go.wait(WAIT_SECONDS), f"{path} was never released"

    def until_reached(self) -> None:
        assert self.reached.wait(WAIT_SECONDS), "nothing came to wait"

    def release(self) -> None:
        self._go.set()
