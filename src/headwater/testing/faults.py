"""Which operation of a `FaultyDisk` is to go wrong: counted, so that a test can pick any one of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(slots=True)
class Failure:
    """The next `after` operations of this kind succeed, then `times` of them fail."""

    operation: Operation
    error: int
    after: int
    times: float
    name: str

    def strikes(self, operation: Operation, path: Path) -> bool:
        if operation != self.operation or not self.times or not fnmatch(path.name, self.name):
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


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
