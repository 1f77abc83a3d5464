"""Waits until somebody writes to the database file, without asking it all the time.

Used by `source` between two looks. Linux: inotify, so an idle database costs nothing. Elsewhere: the
sizes and times of the files, every few milliseconds. Neither is trusted alone: a look is taken every
`LOOK_S` in any case, so that an event that was missed costs a moment, not a change.

In WAL mode a commit is written to the -wal file first, and seen by readers only when the shared index names
it, which no watch is told of: who is woken may look too early. So after a write the next looks follow quickly
on each other, each after twice the time of the one before.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import select
import sys
import time
from pathlib import Path

LOOK_S = 0.25
SOON_S = 0.001
POLL_S = 0.003
_MODIFY, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x80, 0x100, 0x200


class Watch:
    """The files of one database: itself, its -wal, its -journal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = [path.name, f"{path.name}-wal", f"{path.name}-journal"]
        self._inotify = _inotify(path.parent) if sys.platform == "linux" else None
        self._poll = select.poll()
        if self._inotify is not None:
            self._poll.register(self._inotify, select.POLLIN)
        self._inode = path.stat().st_ino
        self._next_look_s = LOOK_S
        self._seen = self._stamps()

    def wait(self, timeout_s: float) -> bool:
        """Until something was written, or the time is over; whether something was."""
        timeout_s = min(timeout_s, self._next_look_s, LOOK_S)
        wait = self._wait_polling if self._inotify is None else self._wait_for_event
        written = wait(timeout_s)
        self._next_look_s = SOON_S if written else min(2 * self._next_look_s, LOOK_S)
        return written

    def was_replaced(self) -> bool:
        """Whether another file has the name now (or none): the open connection is to the old one."""
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def close(self) -> None:
        if self._inotify is not None:
            os.close(self._inotify)
            self._inotify = None

    def _wait_for_event(self, timeout_s: float) -> bool:
        assert self._inotify is not None
        if not self._poll.poll(timeout_s * 1000):
            return False
        os.read(self._inotify, 65536)
        return True

    def _wait_polling(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while (stamps := self._stamps()) == self._seen:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        self._seen = stamps
        return True

    def _stamps(self) -> list[tuple[int, int]]:
        stamps = []
        for name in self._names:
            try:
                found = (self._path.parent / name).stat()
                stamps.append((found.st_mtime_ns, found.st_size))
            except FileNotFoundError:
                stamps.append((0, 0))
        return stamps


def _inotify(folder: Path) -> int | None:
    """A descriptor that is readable when a file in the folder is written; None: not to be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        return None
    mask = _MODIFY | _MOVED_TO | _CREATE | _DELETE
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), mask) < 0:
        os.close(descriptor)
        return None
    return descriptor
