"""Real files with a hand on them: `HandDisk` can hold, slow down, refuse and count what reaches a disk.

It does not sync: what a power cut leaves is rehearsed in `tests/simulation`, and here the machine has no
time to wait for its disk. A killed process loses nothing either way.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.log.files import File, Files, Space
from headwater.record.varint import Buffer

Hook = Callable[[Path], None]
WAIT_SECONDS = 60.0


class HandDisk(Files):
    """The real file system; before each operation the test's hooks for it are called.

    Hooks run in whatever thread does the work: one may wait, raise an OSError, or take a note.
    """

    def __init__(self) -> None:
        super().__init__()
        self.free_bytes: int | None = None
        """What is free, as `space` tells it; None: what really is."""
        self.hooks: dict[str, list[tuple[str, Hook]]] = {}
        self.cold: str = ""
        """No read of files that match this is answered from memory."""

    def on(self, operation: str, hook: Hook, name: str = "*") -> Callable[[], None]:
        """Call `hook` before every `operation` on paths that match; returns how to end that."""
        entry = (name, hook)
        self.hooks.setdefault(operation, []).append(entry)
        return lambda: self.hooks[operation].remove(entry)

    def before(self, operation: str, path: Path) -> None:
        for pattern, hook in tuple(self.hooks.get(operation, ())):
            if matches(path, pattern):
                hook(path)

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
        if create and not path.exists():
            self.before("create", path)
        else:
            self.before("open", path)
        return HandFile(self, path, super().open(path, create=create))

    def read_bytes(self, path: Path) -> bytes | None:
        self.before("open", path)
        self.before("read", path)
        return super().read_bytes(path)

    def space(self, path: Path) -> Space:
        found = super().space(path)
        return found if self.free_bytes is None else found._replace(free=self.free_bytes)

    def write_atomic(self, path: Path, data: bytes) -> None:
        self.before("write_atomic", path)
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_bytes(data)
        temporary.replace(path)

    def write(self, path: Path, data: bytes) -> None:
        self.before("write", path)
        super().write(path, data)

    def make_dir(self, directory: Path) -> None:
        self.before("create", directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.sync_dir(directory.parent)

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename", old)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self.before("remove", path)
        super().remove(path)

    def sync_dir(self, directory: Path) -> None:
        self.before("sync_dir", directory)


class HandFile:
    """An open file of a HandDisk."""

    def __init__(self, disk: HandDisk, path: Path, file: File) -> None:
        self._disk, self._path, self._file = disk, path, file

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._disk.before("write", self._path)
        self._file.write(position, buffers)
        self._disk.before("written", self._path)

    def read(self, position: int, size: int) -> bytes:
        self._disk.before("read", self._path)
        return self._file.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        if self._disk.cold and matches(self._path, self._disk.cold):
            return None
        self._disk.before("read", self._path)
        return self._file.read_cached(position, size)

    def sync(self) -> None:
        self._disk.before("sync", self._path)
        self._disk.before("synced", self._path)

    def truncate(self, size: int) -> None:
        self._disk.before("truncate", self._path)
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


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


def matches(path: Path, pattern: str) -> bool:
    """By `folder/name`, where either may have wildcards."""
    return fnmatch.fnmatch(f"{path.parent.name}/{path.name}", f"*{pattern}")
