"""Where one transaction ends and the next begins, read from the write-ahead log.

Used by `drain` inside a look. No SQL function tells a trigger in which transaction it runs, and a look
may find several that were committed since the last one. But the -wal file has them one after the other
(sqlite.org/fileformat2.html, 4): each ends with a frame that bears the size of the database. For each
such frame, the highest seq in the change table is found by following the right-most branch of its tree:

    -wal       32 bytes (page size at 8, salts at 16), then frames: page number, size after commit
               (0: more to come), salts (8 bytes), checksum (8 bytes), the page
    tree page  type at 0 (5: inner, 13: leaf), cells at 3, right-most child at 8 (inner), cell places
               from 8 on (leaf); a cell begins with the varints payload size and seq

What is not certain is left out, which only joins two transactions: a page that is in the file but also
in a later frame may have been checkpointed since, and a log that was begun anew has lost its past.
Never does a mistake here lose a change: boundaries only say where BEGIN and END go.

The database file must be opened once per process and never closed: closing any descriptor of a file
drops the process's POSIX locks on it, SQLite's own among them (sqlite.org/howtocorrupt.html, 2.2).
There are no locks on the -wal file.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from pathlib import Path

FRAMES_MAX = 20_000
"""More new frames than that in one look: too much to read; their transactions are told as one."""
_HEADER, _FRAME_HEADER = 32, 24
_INNER, _LEAF = 5, 13
_databases: dict[tuple[int, int], int] = {}


class Commits:
    """The boundaries in the log of one database, as far as they can be known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: int | None = None
        self._database = -1
        self._page_size = 0
        self._salt = b""
        self._scanned = 0
        self._frames: dict[int, int] = {}
        self._ends: list[int] = []

    def first_after(self, seq: int, last: int, root: int) -> int:
        """The highest seq of the transaction that comes after `seq`; `last`, if that is not known.
        `root`: the first page of the change table's tree. Called while a read transaction is open."""
        self._forget(seq)
        if not self._ends and self._open():
            self._read(root, last)
            self._forget(seq)
        return min(self._ends[0], last) if self._ends else last

    def _forget(self, seq: int) -> None:
        del self._ends[: bisect_right(self._ends, seq)]

    def close(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _open(self) -> bool:
        """Whether the database has a write-ahead log; it stays while our connection is open."""
        if self._log is None:
            try:
                self._log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            found = self._path.stat()
            name = (found.st_dev, found.st_ino)
            if name not in _databases:
                _databases[name] = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._database = _databases[name]
        return True

    def _read(self, root: int, last: int) -> None:
        """Take in the transactions that are new in the log."""
        header = self._log_bytes(0, _HEADER)
        if len(header) < _HEADER:
            return
        if header[16:24] != self._salt:
            self._salt, self._scanned, self._frames = header[16:24], 0, {}
            self._page_size = int.from_bytes(header[8:12], "big")
        ends = self._follow(self._new_frames(), root, last)
        # The log may have been begun anew while we read it, if all of it was in the file already.
        if self._log_bytes(0, _HEADER) == header:
            self._ends += ends
        else:
            self._salt = b""

    def _new_frames(self) -> list[tuple[int, int]]:
        """Page and size after commit of each new frame, up to the last that ends a transaction:
        what comes after that one is not committed, or was left by a transaction rolled back."""
        found: list[tuple[int, int]] = []
        complete = 0
        while len(found) < FRAMES_MAX:
            place = self._place(self._scanned + len(found) + 1)
            data = self._log_bytes(place, _FRAME_HEADER)
            if len(data) < _FRAME_HEADER or data[8:16] != self._salt:
                break
            size = int.from_bytes(data[4:8], "big")
            found.append((int.from_bytes(data[:4], "big"), size))
            if size:
                complete = len(found)
        return found[:complete]

    def _follow(self, found: list[tuple[int, int]], root: int, last: int) -> list[int]:
        """Where the transactions in these frames end. Only what lies before an end that our own read
        transaction sees is certain: a writer that is killed between its last frame and the index
        leaves a transaction in the log that never was, and the next writer overwrites it."""
        later = Counter(page for page, _size in found)
        ends: list[int] = []
        known = self._ends[-1] if self._ends else 0
        fresh: dict[int, int] = {}
        for frame, (page, size) in enumerate(found, self._scanned + 1):
            fresh[page] = frame
            later[page] -= 1
            if not size:
                continue
            end = self._highest_seq(root, fresh, later)
            if end is not None and end > last:
                break
            if end is not None and end > known:
                known = end
                ends.append(end)
            elif frame - self._scanned < FRAMES_MAX // 2:
                continue  # nothing of ours in it, so not proven; but the log may be long
            self._frames.update(fresh)
            self._scanned, fresh = frame, {}
        return ends

    def _highest_seq(self, root: int, fresh: dict[int, int], later: Counter[int]) -> int | None:
        page = root
        for _level in range(20):
            data = self._page(page, fresh, later)
            if len(data) < self._page_size:
                return None
            if data[0] == _INNER:
                page = int.from_bytes(data[8:12], "big")
                continue
            cells = int.from_bytes(data[3:5], "big")
            if data[0] != _LEAF or not cells:
                return None
            place = 8 + 2 * (cells - 1)
            cell = int.from_bytes(data[place : place + 2], "big")
            _payload, cell = _varint(data, cell)
            return _varint(data, cell)[0]
        return None

    def _page(self, page: int, fresh: dict[int, int], later: Counter[int]) -> bytes:
        """The page as of the transaction that is looked at; nothing, if that is not certain."""
        frame = fresh.get(page) or self._frames.get(page)
        if frame is not None:
            return self._log_bytes(self._place(frame) + _FRAME_HEADER, self._page_size)
        if later[page] > 0:
            return b""
        return os.pread(self._database, self._page_size, (page - 1) * self._page_size)

    def _place(self, frame: int) -> int:
        return _HEADER + (frame - 1) * (_FRAME_HEADER + self._page_size)

    def _log_bytes(self, place: int, size: int) -> bytes:
        assert self._log is not None
        return os.pread(self._log, size, place)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for count in range(9):
        byte = data[place + count] if place + count < len(data) else 0
        if count == 8:
            return (value << 8) | byte, place + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, place + count + 1
    raise AssertionError("nine bytes at most")
