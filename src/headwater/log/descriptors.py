"""Descriptors: how many files of the log are open at once, and who gives one back when they run out.

`files.Files` takes every descriptor from here. A file that has not been used for a while loses its
descriptor when there are too many, and opens itself again when it is next used; so ten thousand
partitions go on under a limit of a thousand, only slower. Two rules:

- A file that opens itself again must be the same file (device and inode): where another one has taken
  its name, or none, the use fails with ESTALE or ENOENT.
- A file with writes that are not synced keeps its descriptor as long as any other can be had: an error
  of writing back is told to those who have the file open.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")

SHARE = 2
"""The log may have one of so many of the process's descriptors; the rest is for connections."""
RESERVE = 64
_AT_LEAST = 16
RUN_OUT = (errno.EMFILE, errno.ENFILE)


class Holder(Protocol):
    """A file that can do without its descriptor for a while."""

    is_used: bool
    """Since somebody looked last."""
    is_unsynced: bool

    def give_back(self) -> bool:
        """Whether it had one."""


class Descriptor:
    """An open descriptor, closed when nobody holds it any more.

    A reader in another thread holds it as long as it reads: closed under its hands, the number might
    soon mean another file.
    """

    __slots__ = ("_among", "number")

    def __init__(self, number: int, among: Descriptors) -> None:
        self.number = number
        self._among = among

    def __del__(self) -> None:
        os.close(self.number)
        self._among.closed()


class Descriptors:
    """All descriptors of one `Files`. Used from many threads."""

    def __init__(self, count_max: int | None = None) -> None:
        self.count_max = count_max
        self.count = 0
        self._lock = threading.RLock()  # a descriptor may be closed by whoever drops the last hold
        self._holders: deque[weakref.ref[Holder]] = deque()

    def take(self, path: Path, flags: int) -> Descriptor:
        """A descriptor for a file that will be held. Raises OSError."""
        if self.count_max is not None and self.count >= self.count_max:
            self.release(self.count - self.count_max + 1)
        mode = flags | os.O_CLOEXEC
        found = Descriptor(self.with_room(path, lambda: os.open(path, mode, 0o644)), self)
        with self._lock:
            self.count += 1
        return found

    def with_room(self, path: Path, step: Callable[[], T]) -> T:
        """Do what takes a descriptor; if none is left, idle files give theirs back and it is done
        again, from its beginning."""
        try:
            return step()
        except OSError as error:
            if error.errno not in RUN_OUT:
                raise
            if not self.release(max(_AT_LEAST, self.count // 4)):
                raise _run_out(error, path) from error
        try:
            return step()
        except OSError as error:
            raise _run_out(error, path) from error

    def closed(self) -> None:
        with self._lock:
            self.count -= 1

    def hold(self, holder: Holder) -> None:
        """This one has a descriptor now."""
        with self._lock:
            self._holders.append(weakref.ref(holder))
            if len(self._holders) > 2 * self.count + 64:
                self._holders = deque(ref for ref in self._holders if ref() is not None)

    def release(self, wanted: int) -> int:
        """Let so many idle files give theirs back, those with unsynced writes last; how many did."""
        with self._lock:
            given = 0
            for also_unsynced in (False, True):
                for _ in range(2 * len(self._holders)):  # whoever was used gets a second chance
                    if given >= wanted:
                        return given
                    given += self._ask_next(also_unsynced)
            return given

    def _ask_next(self, also_unsynced: bool) -> bool:
        reference = self._holders.popleft() if self._holders else None
        holder = None if reference is None else reference()
        if reference is None or holder is None:
            return False
        if holder.is_used or (holder.is_unsynced and not also_unsynced):
            holder.is_used = False
            self._holders.append(reference)
            return False
        return holder.give_back()


def _run_out(error: OSError, path: Path) -> OSError:
    if error.errno not in RUN_OUT:
        return error
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OSError(
        error.errno,
        f"{error.strerror}: the process may have {soft} (at most {hard}); raise that with "
        f"`ulimit -n` or LimitNOFILE=, or use fewer partitions",
        str(path),
    )


def raise_limit() -> tuple[int, int]:
    """Let this process open as many files as it is allowed to; (before, now)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 1_048_576)
    for number in (wanted, 65_536, 10_240):  # macOS says unlimited, and takes no more than 10,240
        if soft < number <= wanted:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
            except (ValueError, OSError):
                continue
            return soft, number
    return soft, soft


def share_of_log() -> int:
    """How many files the logs of this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**31
    return max((soft - RESERVE) // SHARE, _AT_LEAST)


def share_of_connections() -> int:
    """How many sockets there is room for beside them."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**31
    return max(soft - RESERVE - share_of_log(), _AT_LEAST)
