"""A port for a server that goes and comes back: nobody else gets it in between.

`bind(0)` gives a port from the range that clients get theirs from, too. A server on such a port that is
killed and started again may find it taken, or worse: another server answers there in its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Linux gives clients those from 32768 on, macOS from 49152.
_FIRST, _END = 10_000, 32_768
_held: list[int] = []  # locks, kept until this process ends


def free_port() -> int:
    """A loopback port that is free, and ours until this process ends (as against others who ask here)."""
    folder = Path(tempfile.gettempdir()) / f"headwater-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    while True:
        port = random.SystemRandom().randrange(_FIRST, _END)
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT, 0o600)
        with contextlib.suppress(OSError), socket.socket() as probe:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            probe.bind(("127.0.0.1", port))
            _held.append(lock)
            return port
        os.close(lock)
