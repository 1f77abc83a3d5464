"""Where a web server listens, and which names for that place a browser may use; pure.

For the console and the edges. On the loopback only names of the loopback are answered: a page elsewhere
could otherwise give its own name our address (DNS rebinding) and read us with the visitor's browser.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit


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


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


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
