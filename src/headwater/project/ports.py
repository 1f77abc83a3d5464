"""Ports: whether one is free; and one for a server that goes and comes back, kept for it in between.

`bind(0)` gives a port from the range that clients get theirs from, too. A server on such a port that is
killed and started again may find it taken, or worse: another server answers there in its place.

Also here: where a web server listens, and which names for that place a browser may use; pure.

For the console and the edges. On the loopback only names of the loopback are answered: a page elsewhere
could otherwise give its own name our address (DNS rebinding) and read us with the visitor's browser.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import random
import re
import socket
import tempfile
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

# Linux gives clients those from 32768 on, macOS from 49152.
_FIRST, _END = 10_000, 32_768
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:,]+):([0-9]{1,5})")
_held: list[int] = []  # locks, kept until this process ends

CONNECTIONS_PER_ADDRESS = 5_000
"""Unless its section says otherwise. A proxy in front of it has one address for everybody."""


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


def split(address: str) -> tuple[str, int]:
    """HOST:PORT as the two; the host without brackets. Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not HOST:PORT, for example 127.0.0.1:8765")
    return host.strip("[]"), int(port)


@lru_cache(1000)
def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int, *, is_secure: bool = False) -> str:
    scheme = "https" if is_secure else "http"
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"


def host_of(header: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return (urlsplit(f"//{header}").hostname or "") if header else ""
    except ValueError:
        return ""  # brackets that do not close


def same_origin(origin: str, host_header: str) -> bool:
    """Whether an Origin header means the place that the Host header names."""
    try:
        return bool(host_header) and urlsplit(origin).netloc.lower() == host_header.lower()
    except ValueError:
        return False


def is_address(text: str) -> bool:
    """HOST:PORT, where somebody can be found: port 0 is another at each start."""
    match = _ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match[2]) <= 65535


def address_complaint(value: object) -> str | None:
    good = isinstance(value, str) and is_address(value)
    return None if good else 'is no HOST:PORT, as in "127.0.0.1:9092"'


def connections_complaint(value: object) -> str | None:
    """What is wrong with a section's `connections_per_address`."""
    is_right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if is_right else "is no whole number from 0 on"


CHECKS = {"connections_per_address": connections_complaint}
"""Of a section."""
