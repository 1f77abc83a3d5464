"""Reading a file from front to back without the right to write it: `check` works on a read-only disk.

`scan` reads segments with it. Memory is bounded: a piece at a time, a batch of many megabytes only once
its checksum has been found right.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

PIECE_BYTES = 1024 * 1024
BLOCK_BYTES = 4096
"""A disk that has lost something has lost at least this much."""


class Reader:
    """One open file; `read` tells how many bytes were read from the disk."""

    def __init__(
        self,
        path: Path,
        read: Callable[[int], None] = lambda _: None,
        *,
        passes_over: bool = False,
    ) -> None:
        """`passes_over`: what the disk cannot give counts as zeros. Not for whoever writes it again."""
        self.path = path
        self._passes_over = passes_over
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size
        self._read = read
        self._piece, self._start = memoryview(b""), 0
        self._told = 0
        self.failed: dict[int, OSError] = {}
        """Places that the disk would not give, in steps of BLOCK_BYTES, and why."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
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
        while size > 0 and (data := self._get(position, size)):
            pieces.append(data)
            position += len(data)
            size -= len(data)
        if position > self._told:  # what is read twice counts once
            self._read(position - self._told)
            self._told = position
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _get(self, position: int, size: int) -> bytes:
        """What the disk gives; a block that it does not give counts as zeros and is noted in `failed`."""
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            if error.errno != errno.EIO or not self._passes_over:
                raise
            end = position - position % BLOCK_BYTES + BLOCK_BYTES
            if size > end - position:
                return self._get(position, end - position)
            self.failed[position - position % BLOCK_BYTES] = error
            return bytes(min(size, self.size - position))

    def failure(self, position: int, end: int) -> OSError | None:
        """Why some of these bytes could not be read; None if all could."""
        first = position - position % BLOCK_BYTES
        return next((e for at, e in self.failed.items() if first <= at < end), None)
