"""CPU seconds of each test file, with every process that it starts: what bounds `make test` on few cores.

    make test ARGS="-p tests.cpu_seconds tests/views"

A plugin of pytest that is loaded only by name. Unlike the time that a test takes, CPU seconds are nearly the
same on a machine that others use as well. Counted are the process of the tests and all below it, those that
have ended and those whose parent has: a JVM that lives on over many files is counted in each by what it used
meanwhile. Behind the seconds stand the JVMs that were begun.

So that they are counted, orphans become children of the process of the tests, which does not wait for them: a
test that waits until an orphan is gone fails with this plugin.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
_SHOWN_S = 0.5


class Process(NamedTuple):
    """One line of /proc/PID/stat, as far as it matters here."""

    parent: int
    name: str
    begun: int
    ticks: int
    """Its own, and those of its children that it has seen end."""


@dataclass
class Used:
    seconds: float = 0.0
    jvms: int = 0


def parse(stat: str) -> Process:
    """`PID (NAME) STATE PARENT …`: the name may hold anything, so what follows is counted from its end."""
    name, rest = stat.partition("(")[2], stat.rpartition(")")[2].split()
    return Process(int(rest[1]), name.rpartition(")")[0], int(rest[19]), sum(map(int, rest[11:15])))


def below(root: int, processes: dict[int, Process]) -> Iterator[tuple[int, Process]]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = defaultdict(list)
    for pid, process in processes.items():
        children[process.parent].append(pid)
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in processes:
            yield pid, processes[pid]
        waiting += children[pid]


def running() -> dict[int, Process]:
    """Every process of this machine."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = parse(path.read_text(errors="replace"))
        except OSError:  # it has just ended
            continue
    return found


class Meter:
    """What was used since the last look goes to the file whose tests have run meanwhile."""

    def __init__(self) -> None:
        self.files: dict[str, Used] = defaultdict(Used)
        self._jvms: set[tuple[int, int]] = set()
        self._seconds = 0.0
        self.look("collection")

    def look(self, file: str) -> None:
        tree = list(below(os.getpid(), running()))
        seconds = sum(process.ticks for _, process in tree) / _TICKS
        jvms = {(pid, process.begun) for pid, process in tree if process.name == "java"}
        used = self.files[file]
        used.seconds += seconds - self._seconds
        used.jvms += len(jvms - self._jvms)
        self._seconds = seconds
        self._jvms |= jvms

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        file, begin = item.nodeid.partition("::")[0], time.monotonic()
        found = yield
        # A look takes some 10 ms, most of a short test; in a longer one a JVM may begin and end.
        other = nextitem is None or nextitem.nodeid.partition("::")[0] != file
        if other or time.monotonic() - begin > _SHOWN_S:
            self.look(file)
        return found

    def pytest_collection_finish(self) -> None:
        self.look("collection")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds, JVMs begun")
        rows = sorted(self.files.items(), key=lambda row: -row[1].seconds)
        for file, used in rows:
            if used.seconds >= _SHOWN_S:
                terminalreporter.line(f"{used.seconds:8.1f} {used.jvms:4}  {file}")
        total = sum(used.seconds for used in self.files.values())
        terminalreporter.line(f"{total:8.1f} {sum(u.jvms for u in self.files.values()):4}  in all")


def pytest_configure(config: pytest.Config) -> None:
    # What outlives its parent becomes a child of this process, and is counted still.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    config.pluginmanager.register(Meter(), "cpu_seconds")
