"""An open file of a `FaultyDisk`: hands every operation on, so that the disk can count it and fail it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Buffer

from headwater.testing.faults import error_of
from headwater.testing.volatile import Change, Data

if TYPE_CHECKING:
    from headwater.testing.faulty_disk import FaultyDisk


class FaultyFile:
    """An open file of a FaultyDisk."""

    __slots__ = ("_data", "_disk", "_path")

    def __init__(self, disk: FaultyDisk, path: Path, data: Data) -> None:
        self._disk, self._path = disk, path
        self._data: Data | None = data

    def _opened(self) -> Data:
        if self._data is None:
            raise error_of(errno.EBADF, self._path)
        return self._data

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._disk._write(self._path, self._opened(), position, b"".join(buffers))

    def read(self, position: int, size: int) -> bytes:
        return self._disk._read(self._path, self._opened(), position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        return None if self._disk.cold else self.read(position, size)

    def sync(self) -> None:
        self._disk._sync(self._path, self._opened())

    def is_in_place(self) -> bool:
        try:
            return self._disk._data(self._path) is self._opened()
        except OSError:
            return False

    def truncate(self, size: int) -> None:
        data = self._opened()
        if size != len(data.now):
            self._disk._change("truncate", self._path, lambda: data.change(Change(size, None)))

    def size(self) -> int:
        return len(self._opened().now)

    def close(self) -> None:
        self._data = None
