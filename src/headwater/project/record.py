"""What the supervisor writes down about its parts, and `headwater status` reads.

One small JSON file, replaced as a whole. It holds the supervisor's process id, so that a file left by
one that was killed is not taken for a running project.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path("data") / "up"
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


def write(folder: Path, entries: Sequence[Entry], address: str) -> None:
    content = {"pid": os.getpid(), "address": address, "parts": [asdict(e) for e in entries]}
    temporary = folder / f"{_FILE}.tmp"
    temporary.write_text(json.dumps(content, indent=2))
    temporary.replace(folder / _FILE)


def read(folder: Path) -> tuple[bool, list[Entry]]:
    """Whether the project is up, and its parts as they were last seen."""
    try:
        content: dict[str, Any] = json.loads((folder / _FILE).read_text())
        entries = [Entry(**each) for each in content["parts"]]
        is_up = _is_alive(int(content["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False, []
    return is_up, entries


def remove(folder: Path) -> None:
    (folder / _FILE).unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
