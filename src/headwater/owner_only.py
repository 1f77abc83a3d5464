"""Folders and files that nobody but their owner looks into, whatever the umask says.

For what the project keeps beside the log: who runs, what people asked for, what parts print. The broker's own
files follow its setting `headwater.umask`, and what a user names as a place for rows follows the user's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def make_folder(folder: Path) -> None:
    """Also those above it that are missing: `mkdir(mode=…, parents=True)` would leave these to everybody."""
    for each in reversed((folder, *folder.parents)):
        if not each.is_dir():
            each.mkdir(mode=0o700, exist_ok=True)


def opened(path: Path) -> IO[bytes]:
    """To append to; one that others could read before, they can no more."""
    file = os.fdopen(
        os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab"
    )
    os.fchmod(file.fileno(), 0o600)
    return file
