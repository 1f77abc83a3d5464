"""The real file system with faults on demand: what a test's broker writes to (`kafka.faults.disk`).

    kafka.faults.disk.fail("write", errno.ENOSPC, topic="orders")   # the next one; also after=, times=
    kafka.faults.disk.fail("sync")                                  # EIO
    with kafka.faults.disk.hold("sync", topic="orders") as sync:    # syncs wait
        sync.until_struck()

Operations are `open`, `create`, `read`, `write`, `write_atomic`, `sync`, `truncate`, `rename`, `remove` and
`sync_dir`. For what a power cut leaves behind there is `FaultyDisk`, which is in memory.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from headwater.log.files import File, Files
from headwater.testing.faults import Fault, error_of

Hook = Callable[[Path], None]
Operation = Literal[
    "open",
    "create",
    "read",
    "write",
    "write_atomic",
    "sync",
    "truncate",
    "rename",
    "remove",
    "sync_dir",
]


class DiskFaults(Files):
    """The real file system; before each operation the hooks for it are called.

    Hooks run in whatever thread does the work: one may wait, raise an OSError, or take a note.
    """

    def __init__(self, open_max: int | None = None) -> None:
        super().__init__(open_max)
        self.hooks: dict[str, list[tuple[str, Hook]]] = {}
        self._planned: list[Fault] = []

    def fail(
        self,
        operation: Operation,
        error: int = errno.EIO,
        *,
        topic: str | None = None,
        name: str = "*",
        after: int = 0,
        times: float = 1,
    ) -> Fault:
        """Let the next operation of that kind fail, on files of that topic whose name matches.

        `after` of them succeed first, then `times` fail (`math.inf`: until the fault's `end`). Of a
        write that fails, the first half is written.
        """
        fault = Fault(f"{operation} fails", after, times)

        def strike(path: Path) -> None:
            if _is_of(path, topic) and fault.due():
                raise error_of(error, path)

        return self._plan(fault, operation, strike, name)

    def hold(
        self, operation: Operation, *, topic: str | None = None, name: str = "*", times: float = 1
    ) -> Fault:
        """Let the next operation of that kind wait until the fault's `release`."""
        fault = Fault(f"{operation} waits", 0, times)

        def wait(path: Path) -> None:
            if _is_of(path, topic) and fault.due():
                released = threading.Event()
                fault.hold(released.set)
                released.wait()

        return self._plan(fault, operation, wait, name)

    def heal(self) -> None:
        """Nothing planned goes wrong any more, and whoever waits goes on."""
        for fault in self._planned:
            fault.end()
        self._planned.clear()

    def _plan(self, fault: Fault, operation: Operation, hook: Hook, name: str) -> Fault:
        fault.hold(self.on(operation, hook, name))
        self._planned.append(fault)
        return fault

    def on(self, operation: str, hook: Hook, name: str = "*") -> Callable[[], None]:
        """Call `hook` before every `operation` on paths that match; returns how to end that."""
        entry = (name, hook)
        self.hooks.setdefault(operation, []).append(entry)
        return lambda: self.hooks[operation].remove(entry)

    def before(self, operation: str, path: Path) -> None:
        for pattern, hook in tuple(self.hooks.get(operation, ())):
            if matches(path, pattern):
                hook(path)

    # ---- the seam ------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> File:
        self.before("create" if create and not path.exists() else "open", path)
        return FaultyRealFile(self, path, super().open(path, create=create))

    def read_bytes(self, path: Path) -> bytes | None:
        self.before("open", path)
        self.before("read", path)
        return super().read_bytes(path)

    def write_atomic(self, path: Path, data: bytes) -> None:
        self.before("write_atomic", path)
        super().write_atomic(path, data)

    def write(self, path: Path, data: bytes) -> None:
        self.before("write", path)
        super().write(path, data)

    def make_dir(self, directory: Path) -> None:
        self.before("create", directory)
        super().make_dir(directory)

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename", old)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self.before("remove", path)
        super().remove(path)

    def sync_dir(self, directory: Path) -> None:
        self.before("sync_dir", directory)
        super().sync_dir(directory)


class FaultyRealFile:
    """An open file of a disk with faults."""

    def __init__(self, disk: DiskFaults, path: Path, file: File) -> None:
        self._disk, self._path, self._file = disk, path, file

    def write(self, position: int, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        try:
            self._disk.before("write", self._path)
        except OSError:
            whole = b"".join(buffers)
            self._file.write(position, [whole[: len(whole) // 2]])
            raise
        self._file.write(position, buffers)
        self._disk.before("written", self._path)

    def read(self, position: int, size: int) -> bytes:
        self._disk.before("read", self._path)
        return self._file.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        self._disk.before("read", self._path)
        return self._file.read_cached(position, size)

    def sync(self) -> None:
        self._disk.before("sync", self._path)
        self._file.sync()
        self._disk.before("synced", self._path)

    def is_in_place(self) -> bool:
        return self._file.is_in_place()

    def truncate(self, size: int) -> None:
        self._disk.before("truncate", self._path)
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


def matches(path: Path, pattern: str) -> bool:
    """By `folder/name`, where either may have wildcards."""
    return fnmatch(f"{path.parent.name}/{path.name}", f"*{pattern}")


def _is_of(path: Path, topic: str | None) -> bool:
    """Whether a file is one of a topic's: its folder is the topic's name and a partition's number."""
    if topic is None:
        return True
    folders = (path.name, path.parent.name)
    return any(each.rpartition("-")[0] == topic for each in folders)
