"""The parts of the project as the supervisor has written them down, and what each of them printed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headwater.project import record
from headwater.project.file import Project
from headwater.project.record import Entry

TAIL_BYTES = 256 * 1024


class Parts:
    """Read anew at each call: it is one small file."""

    def __init__(self, project: Project | None) -> None:
        self._folder = None if project is None else project.folder / record.FOLDER

    def read(self) -> tuple[bool, Sequence[Entry]]:
        """Whether the project is up, and its parts."""
        return (False, []) if self._folder is None else record.read(self._folder)

    def named(self, name: str) -> Entry | None:
        is_up, entries = self.read()
        return next((each for each in entries if is_up and each.name == name), None)


def last_lines(path: Path, count: int) -> list[str]:
    """The end of a log, within `TAIL_BYTES`; nothing where there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - TAIL_BYTES)
            file.seek(begin)
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    if begin:
        lines = lines[1:]  # the first one is cut
    return lines[-count:]
