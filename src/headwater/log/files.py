"""The file-system seam: everything that the log does to a disk goes through here.

`Files` is the real thing; `headwater.testing.FaultyDisk` has the same methods and can tear, drop and
corrupt writes. What a caller may rely on, and no more:

- bytes passed to `File.write` must be taken as lost or torn by a crash until `File.sync` returned;
- a created, renamed or removed name must be taken as undone by a crash until `sync_dir` returned;
- `write_atomic` leaves either the old or the new content, durably, whatever happens.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from headwater import atomic_file
from headwater.log import folder_lock
from headwater.log.descriptors import Descriptor, Descriptors
from headwater.record.varint import Buffer

IOV_MAX = 1024


class File(Protocol):
    """An open file: positioned reads and writes, no cursor."""

    def write(self, position: int, buffers: Sequence[Buffer]) -> None: ...
    def read(self, position: int, size: int) -> bytes: ...
    def read_cached(self, position: int, size: int) -> bytes | None: ...
    def sync(self) -> None: ...
    def is_in_place(self) -> bool: ...
    def truncate(self, size: int) -> None: ...
    def size(self) -> int: ...
    def close(self) -> None: ...


class Space(NamedTuple):
    """What a file system has room for, in bytes."""

    free: int
    """For us: what is reserved for the system's administrator does not count."""
    total: int


class FileSystem(Protocol):
    """What `Files` and its fakes have in common."""

    def open(self, path: Path, *, create: bool = False) -> File: ...
    def read_bytes(self, path: Path) -> bytes | None: ...
    def write_atomic(self, path: Path, data: bytes) -> None: ...
    def write(self, path: Path, data: bytes) -> None: ...
    def list(self, directory: Path) -> list[str]: ...
    def size(self, path: Path) -> int: ...
    def make_dir(self, directory: Path) -> None: ...
    def sync_dir(self, directory: Path) -> None: ...
    def rename(self, old: Path, new: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def remove_tree(self, directory: Path) -> None: ...
    def lock(self, path: Path) -> Callable[[], None]: ...
    def space(self, path: Path) -> Space: ...


class RealFile:
    """One file, with a descriptor while it is in use; see `descriptors`."""

    __slots__ = (
        "__weakref__",
        "_among",
        "_descriptor",
        "_identity",
        "_path",
        "is_unsynced",
        "is_used",
    )

    def __init__(self, path: Path, create: bool, among: Descriptors) -> None:
        self._path, self._among = path, among
        self.is_used, self.is_unsynced = True, False
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        self._descriptor: Descriptor | None = among.take(path, flags)
        self._identity = _identity(os.fstat(self._descriptor.number))
        among.hold(self)

    def _held(self) -> Descriptor:
        self.is_used = True
        descriptor = self._descriptor
        return self._opened_again() if descriptor is None else descriptor

    def _opened_again(self) -> Descriptor:
        found = self._among.take(self._path, os.O_RDWR)
        if _identity(os.fstat(found.number)) != self._identity:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self._path))
        self._descriptor = found
        self._among.hold(self)
        return found

    def give_back(self) -> bool:
        had, self._descriptor = self._descriptor is not None, None
        return had

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        held = self._held()
        self.is_unsynced = True
        if len(buffers) <= IOV_MAX:
            done = os.pwritev(held.number, buffers, position)
            if done == sum(map(len, buffers)):
                return
            position += done
            views = _after([memoryview(buffer) for buffer in buffers], done)
        else:
            views = [memoryview(buffer) for buffer in buffers]
        while views:
            batch = views[:IOV_MAX]
            wanted = sum(map(len, batch))
            done = os.pwritev(held.number, batch, position)
            position += done
            if done == wanted:
                del views[: len(batch)]
            else:
                views = _after(views, done)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        held = self._held()
        data = os.pread(held.number, size, position)
        if len(data) == size or not data:
            return data
        pieces = [data]
        got = len(data)
        while got < size and (more := os.pread(held.number, size - got, position + got)):
            pieces.append(more)
            got += len(more)
        return b"".join(pieces)

    def read_cached(self, position: int, size: int) -> bytes | None:
        """Like `read`, but None where that would wait for the disk (asked at both ends)."""
        held = self._held()
        try:
            for probe in (position, position + size - 1):
                os.preadv(held.number, [bytearray(1)], probe, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        return self.read(position, size)

    def sync(self) -> None:
        held = self._held()
        self.is_unsynced = False  # before, because somebody may write meanwhile
        try:
            os.fdatasync(held.number)
        except OSError:
            self.is_unsynced = True
            raise

    def is_in_place(self) -> bool:
        """Whether its name still means this file: else no start would find what was synced."""
        try:
            return _identity(os.stat(self._path)) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            return False

    def truncate(self, size: int) -> None:
        held = self._held()
        os.ftruncate(held.number, size)

    def size(self) -> int:
        held = self._held()
        return os.fstat(held.number).st_size

    def close(self) -> None:
        """Give the descriptor back. Somebody who reads in another thread goes on, and so does one
        who is about to: the file is opened once more."""
        self._descriptor = None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _after(views: list[memoryview], done: int) -> list[memoryview]:
    """What is left of the buffers once `done` bytes of them are written."""
    for index, view in enumerate(views):
        if done < len(view):
            return [view[done:], *views[index + 1 :]]
        done -= len(view)
    return []


class Files:
    """The real file system."""

    descriptors = Descriptors()

    def __init__(self, open_max: int | None = None) -> None:
        """`open_max`: so many files have a descriptor at once; None: as many as are open."""
        self.descriptors = Descriptors(open_max)

    def open(self, path: Path, *, create: bool = False) -> File:
        return RealFile(path, create, self.descriptors)

    def read_bytes(self, path: Path) -> bytes | None:
        try:
            return self.descriptors.with_room(path, lambda: atomic_file.read(path))
        except FileNotFoundError:
            return None

    def write_atomic(self, path: Path, data: bytes) -> None:
        self.descriptors.with_room(path, lambda: atomic_file.write(path, data))

    def write(self, path: Path, data: bytes) -> None:
        """Whole content, without waiting for the disk: for what can be rebuilt."""
        self.descriptors.with_room(path, lambda: path.write_bytes(data))

    def list(self, directory: Path) -> list[str]:
        try:
            return sorted(self.descriptors.with_room(directory, lambda: os.listdir(directory)))
        except FileNotFoundError:
            return []

    def size(self, path: Path) -> int:
        return os.stat(path).st_size

    def make_dir(self, directory: Path) -> None:
        os.makedirs(directory, exist_ok=True)
        self.sync_dir(directory.parent)

    def sync_dir(self, directory: Path) -> None:
        self.descriptors.with_room(directory, lambda: atomic_file.sync_folder(directory))

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)

    def lock(self, path: Path) -> Callable[[], None]:
        """Hold a lock file, and its folder, until the returned function is called. Raises BlockingIOError."""
        return folder_lock.hold(path)

    def space(self, path: Path) -> Space:
        found = os.statvfs(path)
        return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
