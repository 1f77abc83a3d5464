"""Reading a file from front to back without the right to write it: `check` works on a read-only disk.

`scan` reads segments with it. Memory is bounded: a piece at a time, a batch of many megabytes only once
its checksum has been found right.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from crc32c import crc32c

PIECE_BYTES = 1024 * 1024


class Reader:
    """One open file; `read` tells how many bytes were read from the disk."""

    def __init__(self, path: Path, read: Callable[[int], None] = lambda _: None) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size
        self._read = read
        self._piece, self._start = memoryview(b""), 0
        self._told = 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def get(self, position: int, size: int) -> memoryview:
        """These bytes; fewer only where the file ends."""
        at = position - self._start
        if at < 0 or at + size > len(self._piece):
            wanted = min(max(PIECE_BYTES, size), max(self.size - position, 0))
            self._piece, self._start = memoryview(self._pread(position, wanted)), position
            at = 0
        return self._piece[at : at + size]

    def crc(self, position: int, end: int) -> int:
        """CRC-32C of [position, end), in pieces."""
        value = 0
        while position < end:
            data = self._pread(position, min(PIECE_BYTES, end - position))
            if not data:
                break
            value = crc32c(data, value)
            position += len(data)
        return value

    def _pread(self, position: int, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and (data := os.pread(self._descriptor, size, position)):
            pieces.append(data)
            position += len(data)
            size -= len(data)
        if position > self._told:  # what is read twice counts once
            self._read(position - self._told)
            self._told = position
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
