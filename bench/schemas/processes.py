"""The CPU of this process and of all that it has started: Spark's Java, and that one's Python workers."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds() -> float:
    """So far, of those that are there now."""
    stats = {pid: found for pid in _pids() if (found := _stat(pid)) is not None}
    own, ticks = {os.getpid()}, os.sysconf("SC_CLK_TCK")
    while more := {pid for pid, (parent, _) in stats.items() if parent in own} - own:
        own |= more
    return sum(stats[pid][1] for pid in own if pid in stats) / ticks


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _stat(pid: int) -> tuple[int, int] | None:
    """Its parent, and its ticks with those of children that have ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(words[1]), sum(map(int, words[11:15]))
