"""What a phase costs, read from /proc: the broker's CPU, the client's CPU, the machine's idle time.

Every measurement wraps its timed part in `Meter`. The broker is the process and all its living
descendants, user and system time. The kernel's own threads (write-back) belong to nobody here, on
both sides alike.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


@dataclass
class Usage:
    """Seconds: of the wall clock, and of CPU by the broker, by the client and by nobody."""

    wall_s: float = 0.0
    broker_s: float = 0.0
    client_s: float = 0.0
    idle_s: float = 0.0

    def metrics(self, records: int) -> dict[str, float]:
        """The figures that every throughput measurement reports beside its rate."""
        known_s = self.broker_s + self.client_s + self.idle_s
        other_s = (os.cpu_count() or 1) * self.wall_s - known_s  # the kernel, and other programs
        return {
            "cpu_s_per_million": self.broker_s / records * 1e6,
            "broker_cores": self.broker_s / self.wall_s,
            "client_cores": self.client_s / self.wall_s,
            "idle_cores": self.idle_s / self.wall_s,
            "other_cores": max(other_s, 0.0) / self.wall_s,
        }


class Meter:
    """`with Meter(pid) as usage:` fills `usage` at the end of the block."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._usage = Usage()

    def __enter__(self) -> Usage:
        self._before = self._read()
        return self._usage

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        after = self._read()
        usage, spent = self._usage, [b - a for a, b in zip(self._before, after, strict=True)]
        usage.wall_s, usage.broker_s, usage.client_s, usage.idle_s = spent

    def _read(self) -> tuple[float, float, float, float]:
        client = os.times()  # children too: Kafka's tools are processes of their own
        client_s = client.user + client.system + client.children_user + client.children_system
        return time.perf_counter(), cpu_s(self._pid), client_s, _machine_idle_s()


def cpu_s(pid: int) -> float:
    """User and system seconds of the process, of its living descendants and of those it buried."""
    total = 0
    for each in _with_descendants(pid):
        try:
            fields = _stat(each)
        except FileNotFoundError:
            if each == pid:
                raise
            continue  # it has just ended
        # utime, stime, and of its children that have ended (cutime, cstime): when it ends, all four go to its
        # parent, so the sum only grows by what is used meanwhile.
        total += sum(map(int, fields[11:15]))
    return total / _TICKS_PER_S


def resident_mb(pid: int) -> float:
    """Resident memory of the process and its descendants, in MB (10^6 bytes)."""
    pages = 0
    for each in _with_descendants(pid):
        with contextlib.suppress(FileNotFoundError):  # one that has just ended
            pages += int(_text(Path(f"/proc/{each}/statm")).split()[1])
    return pages * _PAGE_BYTES / 1e6


def age_s(pid: int) -> float:
    """Seconds since the process was started, to the clock tick (10 ms)."""
    started_s = int(_stat(pid)[19]) / _TICKS_PER_S
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on: the second, the name, may hold spaces."""
    return _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()


def _text(file: Path) -> str:
    """Of /proc. A process that ends between open and read is as one that has ended before."""
    try:
        return file.read_text()
    except ProcessLookupError as error:
        raise FileNotFoundError(str(file)) from error


def _with_descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:  # grows while it is walked
        with contextlib.suppress(FileNotFoundError):  # one that has just ended
            for task in Path(f"/proc/{each}/task").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    found += map(int, _text(task / "children").split())
    return found


def _machine_idle_s() -> float:
    with Path("/proc/stat").open() as stat:
        fields = stat.readline().split()
    return (int(fields[4]) + int(fields[5])) / _TICKS_PER_S  # idle and waiting for the disk
