"""What troubles the bridges and webhooks of the edges: written by that process, read by the console.

They are many in one process, which runs also where one of them gets nothing done. One small JSON file,
replaced as a whole when something changes; what a process has left that runs no more counts as nothing:

    {"pid": 17, "troubles": {"webhooks.shop": {"reason": "the receiver answered 500", "since": 1794000000.0}}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from headwater import atomic_file, owner_only
from headwater.views.operate.pause import is_alive

FILE = "troubles.json"


@dataclass(frozen=True)
class Trouble:
    reason: str
    since: float
    """In seconds since 1970."""


def write(folder: Path, troubles: Mapping[str, Trouble]) -> None:
    """By service. Raises OSError."""
    owner_only.make_folder(folder)
    said = {"pid": os.getpid(), "troubles": {name: asdict(each) for name, each in troubles.items()}}
    with atomic_file.replacing(folder / FILE) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(json.dumps(said, indent=1).encode())


def read(folder: Path) -> Mapping[str, Trouble]:
    try:
        said = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if not is_alive(int(said["pid"])):
            return {}
        return {name: Trouble(**each) for name, each in said["troubles"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
