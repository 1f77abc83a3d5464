"""What a test has planned to go wrong: which one of the next operations or requests, and how often.

`Fault` is the plan that a test holds in its hand (`broker_faults`, `disk_faults`); `Faults` counts the
operations of a `FaultyDisk`, so that a test can pick any one of them.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

Operation = Literal[
    "open",
    "read",
    "write",
    "sync",
    "truncate",
    "create",
    "rename",
    "remove",
    "make_dir",
    "sync_dir",
]
HARMLESS = ("open", "read")
"""What changes nothing, and so is no step."""


class PowerCut(BaseException):
    """The machine went off. No Exception, so that no handler of ordinary failures goes on."""


class Fault:
    """Something that is to go wrong: `after` chances pass, then `times` are taken (`math.inf`: until `end`).

    As a context manager it ends with its block. `end` also lets go whoever it holds.
    """

    def __init__(self, what: str, after: int = 0, times: float = 1) -> None:
        self.struck = 0
        """How often it has come to pass."""
        self._what = what
        self._after, self._times = after, times
        self._held: list[Callable[[], None]] | None = []
        self._changed = threading.Condition()

    def due(self) -> bool:
        """Take one chance: whether it comes to pass now."""
        with self._changed:
            if self._times <= 0:
                return False
            if self._after:
                self._after -= 1
                return False
            self._times -= 1
            self.struck += 1
            self._changed.notify_all()
            return True

    def until_struck(self, count: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until it has come to pass so often."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.struck >= count, timeout_s):
                raise TimeoutError(f"{self._what}: nothing came within {timeout_s:g} s")

    def hold(self, go_on: Callable[[], None]) -> None:
        """Call this once `end` is; at once if it has been."""
        with self._changed:
            if self._held is not None:
                self._held.append(go_on)
                return
        go_on()

    def end(self) -> None:
        """It comes to pass no more, and whoever it holds goes on. May be called again."""
        with self._changed:
            self._times = 0
            waiting, self._held = self._held or [], None
        for go_on in waiting:
            go_on()

    release = end

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Failure(Fault):
    """The next `after` operations of this kind succeed, then `times` of them fail."""

    def __init__(
        self, operation: Operation, error: int, after: int, times: float, name: str
    ) -> None:
        super().__init__(f"{operation} of {name} fails", after, times)
        self.operation, self.error, self.name = operation, error, name

    def strikes(self, operation: Operation, path: Path) -> bool:
        return operation == self.operation and fnmatch(path.name, self.name) and self.due()


class Faults:
    """What is planned, and what has been counted so far."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.steps_left: int | None = None
        self.before_step: Callable[[], None] | None = None
        self.off = False
        self.at_power_cut: Callable[[], None] = lambda: None

    def next(self, operation: Operation, path: Path) -> OSError | PowerCut | None:
        """Count one operation; what it must raise, if anything."""
        if self.off:
            return PowerCut("the machine is off")
        is_step = operation not in HARMLESS
        if is_step and self.before_step is not None:
            self.before_step()
        self.counts[operation] += 1
        if is_step and self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left <= 0:
                self.off = True
                self.at_power_cut()
                return PowerCut(f"during {operation} of {path.name}")
        for failure in self.failures:
            if failure.strikes(operation, path):
                return error_of(failure.error, path)
        return None


def error_of(number: int, path: Path) -> OSError:
    """The error that the operating system would raise."""
    return OSError(number, os.strerror(number), str(path))
