"""What the supervisor writes down about its parts, and `headwater status` reads.

One small JSON file, replaced as a whole. It holds the supervisor's process id, so that a file left by
one that was killed is not taken for a running project.

Also here: what one part of a project prints: a file of its own, bounded while the part runs. Used by
`supervisor`.

    NAME.log     to which the part appends by itself, so that it waits for nobody
    NAME.log.1   what was before, once NAME.log had grown to `bytes_max`

The part keeps its file open for as long as it runs; so the file is copied and cut, not renamed. What the
part prints in the instant between the two is lost.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

from headwater import owner_only
from headwater.views.operate.pause import is_alive

FOLDER = Path("data") / "up"
LOG = "broker"
"""The part that everything else needs."""
_FILE = "parts.json"


@dataclass
class Entry:
    """One part, as it is now."""

    name: str
    state: str = "waiting"
    pid: int | None = None
    restarts: int = 0
    since: float = 0.0
    """When it came into this state, in seconds since 1970."""
    reason: str | None = None
    """Why it ended last, in its own words."""
    log: str = ""
    page: str | None = None
    """The address of its web page, where it has one."""
    asked_by: str | None = None
    """Who paused it, while it is paused."""

    def trouble(self, what: str) -> tuple[Literal["warn", "bad"], str]:
        """Why it does not run, for people: as somebody wanted, or not."""
        if self.asked_by:
            return "warn", f"{what} was paused by {self.asked_by}"
        if self.state in ("pausing", "restarting"):
            return "warn", f"{what} is {self.state}, as somebody asked"
        return "bad", f"{what} is {self.state}: {self.reason or 'no reason'}"


def write(folder: Path, entries: Sequence[Entry], address: str) -> None:
    content = {"pid": os.getpid(), "address": address, "parts": [asdict(e) for e in entries]}
    temporary = folder / f"{_FILE}.tmp"
    with owner_only.opened(temporary) as file:
        file.truncate(0)  # of one that was killed while it wrote
        file.write(json.dumps(content, indent=2).encode())
    temporary.replace(folder / _FILE)


def read(folder: Path) -> tuple[bool, list[Entry]]:
    """Whether the project is up, and its parts as they were last seen."""
    try:
        content: dict[str, Any] = json.loads((folder / _FILE).read_text())
        entries = [Entry(**each) for each in content["parts"]]
        is_up = is_alive(int(content["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False, []
    return is_up, entries


def log_is_to_come(folder: Path) -> bool:
    """Whether the project is up, has a broker of its own, and that does not answer yet."""
    is_up, entries = read(folder)
    return is_up and any(entry.name == LOG and entry.state != "running" for entry in entries)


def remove(folder: Path) -> None:
    (folder / _FILE).unlink(missing_ok=True)


BYTES_MAX = 10 * 1024**2
_LINE_MAX = 64 * 1024


class PartLog:
    """One file, and how far it has been shown."""

    def __init__(self, path: Path, bytes_max: int = BYTES_MAX) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._reader: IO[bytes] | None = None

    def open(self) -> IO[bytes]:
        """For a process to append to; what it adds from here on is shown."""
        output = owner_only.opened(self.path)  # what a part prints may be anything
        if self._reader is None:
            self._reader = self.path.open("rb", buffering=0)
            self._reader.seek(0, os.SEEK_END)
        return output

    def lines(self) -> list[str]:
        """What has been added since the last call; a full file is begun anew once all of it was shown.

        A part that prints faster than it is shown does not get beyond four times the bound.
        """
        if self._reader is None:
            return []
        data = self._reader.read(_LINE_MAX)
        cut = data.rfind(b"\n") + 1
        if cut < len(data) and len(data) < _LINE_MAX:
            self._reader.seek(cut - len(data), os.SEEK_CUR)  # the rest of the line is still coming
            data = data[:cut]
        self._rotate(self._bytes_max * (4 if data else 1))
        return data.decode("utf-8", "replace").splitlines()

    def last_words(self) -> str:
        """The last line."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                lines = file.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _rotate(self, bytes_max: int) -> None:
        assert self._reader is not None
        if os.fstat(self._reader.fileno()).st_size <= bytes_max:
            return
        before = self.path.with_suffix(".log.1")
        with self.path.open("rb") as source, owner_only.opened(before) as copy:
            copy.truncate(0)
            shutil.copyfileobj(source, copy)
            os.truncate(self.path, 0)
        self._reader.seek(0)
