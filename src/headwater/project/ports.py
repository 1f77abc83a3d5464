"""Ports: whether one is free; and one for a server that goes and comes back, kept for it in between.

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


def cannot_listen(address: str) -> str | None:
    """Why nothing can listen at HOST:PORT; None where something can."""
    host, _, port = address.rpartition(":")
    try:
        places = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, number, _, place in dict.fromkeys(places):
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:  # as the broker does
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(place)
    except (OSError, OverflowError, UnicodeError) as error:
        return f"nothing can listen at {address}: {getattr(error, 'strerror', None) or error}"
    return None


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
