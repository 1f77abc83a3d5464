"""How the broker is, in memory: its tasks, its event loop, its disk, and what was wrong at start.

The supervisor, the watchdog, the disk's watch and recovery write to it; `health_topic` makes it known to
others. Everything here is on the event loop, except `turned` and `lasted`, which the watchdog's thread calls.

`subjects()` is what is told, one JSON object per subject:

    broker            when it was started, its version
    task/NAME         runs, failures, the last failure and when; what it is doing
    loop              longest turn, turns above the limit, the stacks of the longest and the last
    disk              free bytes, the limit, whether records are refused
    damage/WHERE      what could not be read at start, and what it means
    set-aside/WHERE   a folder that was moved out of the way at start, and why
    audit             changes that could not be written down, where there are any
    connections       refused by a limit, and TLS handshakes that did not end well, where there are any
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

TEXT_CHARS_MAX = 2000
"""Of a sentence or a stack: each subject is one small record."""
FINDINGS_MAX = 1000
"""Of damage and folders set aside; a folder with more than this needs `headwater check`."""


@dataclass
class TaskHealth:
    """One task, or one duty of a task."""

    doing: str = "running"
    """`running`, `waiting` (to be started again), `ended`."""
    runs: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    last_failure: str | None = None
    failed_ms: int | None = None

    @property
    def is_failing(self) -> bool:
        return self.failures_in_a_row > 0


@dataclass
class LoopHealth:
    """Turns of the event loop."""

    longest_turn_ms: int = 0
    longest_turn_ran_ms: int = 0
    """So much of it the loop's thread had a processor; the rest it had to wait for one."""
    longest_run_ms: int = 0
    """The most that the loop's thread ran in any turn."""
    slow_turns: int = 0
    limit_ms: int = 0
    last_stack: str | None = None
    longest_stack: str | None = None
    last_slow_ms: int | None = None


@dataclass
class DiskHealth:
    """Room where the log lies."""

    free_bytes: int
    limit_bytes: int
    refusing: bool


@dataclass
class Health:
    """The one place where it stands."""

    now_ms: Callable[[], int]
    version: str = ""
    started_ms: int = 0
    tasks: dict[str, TaskHealth] = field(default_factory=dict)
    loop: LoopHealth = field(default_factory=LoopHealth)
    disk: DiskHealth | None = None
    damage: dict[str, str] = field(default_factory=dict)
    """What could not be read (a partition, a file): what it means, in one sentence."""
    folders_set_aside: dict[str, str] = field(default_factory=dict)
    audit_lost: int = 0
    """Changes that `__headwater_changes` lacks, since the start."""
    connections: Callable[[], dict[str, int]] = dict
    """How many were `refused`, and `handshakes_failed`, since the start."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # ---- tasks ---------------------------------------------------------------------------------

    def task(self, name: str) -> TaskHealth:
        return self.tasks.setdefault(name, TaskHealth())

    def began(self, name: str) -> None:
        task = self.task(name)
        task.doing, task.runs = "running", task.runs + 1

    def failed(self, name: str, error: BaseException, what: str = "") -> TaskHealth:
        """`what` it was busy with, where that helps: a partition's name."""
        task = self.task(name)
        task.failures += 1
        task.failures_in_a_row += 1
        task.last_failure = sentence_of(error, what)
        task.failed_ms = self.now_ms()
        return task

    def succeeded(self, name: str) -> None:
        """It has done what it is there for, so earlier failures are past."""
        task = self.tasks.get(name)
        if task is not None:
            task.failures_in_a_row = 0

    # ---- the others ----------------------------------------------------------------------------

    def lasted(self, milliseconds: int, ran_ms: int) -> None:
        """A turn of the loop that was long, and not too long (any thread)."""
        with self._lock:
            loop = self.loop
            loop.longest_run_ms = max(ran_ms, loop.longest_run_ms)
            if milliseconds > loop.longest_turn_ms:
                loop.longest_turn_ms, loop.longest_turn_ran_ms = milliseconds, ran_ms

    def turned(self, milliseconds: int, ran_ms: int, stack: str) -> None:
        """A turn of the loop took longer than it may (any thread)."""
        with self._lock:
            stack = stack[-TEXT_CHARS_MAX:]
            loop = replace(self.loop, last_stack=stack, last_slow_ms=self.now_ms())
            loop.slow_turns += 1
            loop.longest_run_ms = max(ran_ms, loop.longest_run_ms)
            if milliseconds > loop.longest_turn_ms:
                loop.longest_turn_ms, loop.longest_turn_ran_ms = milliseconds, ran_ms
                loop.longest_stack = stack
            self.loop = loop

    def disk_space(self, free_bytes: int, limit_bytes: int, refusing: bool) -> None:
        self.disk = DiskHealth(free_bytes, limit_bytes, refusing)

    def damaged(self, where: str, sentence: str) -> None:
        """Something could not be read at start; the sentence says what that means for readers."""
        if len(self.damage) < FINDINGS_MAX:
            self.damage[where] = sentence[:TEXT_CHARS_MAX]

    def set_aside(self, folder: str, why: str) -> None:
        """A folder that nobody knows was moved out of the way at start; nothing was deleted."""
        if len(self.folders_set_aside) < FINDINGS_MAX:
            self.folders_set_aside[folder] = why[:TEXT_CHARS_MAX]

    # ---- what is told --------------------------------------------------------------------------

    def subjects(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {
            "broker": {"started_ms": self.started_ms, "version": self.version},
            "loop": asdict(self.loop),
        }
        found |= {f"task/{name}": asdict(task) for name, task in self.tasks.items()}
        if self.disk is not None:
            found["disk"] = asdict(self.disk)
        if self.audit_lost:
            found["audit"] = {"lost": self.audit_lost}
        if any((counts := self.connections()).values()):
            found["connections"] = counts
        found |= {f"damage/{where}": {"says": says} for where, says in self.damage.items()}
        found |= {
            f"set-aside/{where}": {"says": says} for where, says in self.folders_set_aside.items()
        }
        return found


def sentence_of(error: BaseException, what: str = "") -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (f"{what}: {text}" if what else text)[:TEXT_CHARS_MAX]
