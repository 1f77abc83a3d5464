"""`udp://127.0.0.1:9999`: where a UDP bridge listens, and from whom it takes anything. Pure.

UDP has neither login nor connection, and a sender's address can be forged by anybody on the way. Listening on
an address that others reach is therefore only done where the section says whose datagrams are meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

Networks = tuple[IPv4Network | IPv6Network, ...]
REMEMBERED_MAX = 65_536


class BadAddress(ValueError):
    """One sentence about it."""


def place_of(written: str, port: int | None = None) -> tuple[str, int]:
    """Host and port of what follows `scheme://`; `port`: where none is named. Port 0: any that is free."""
    where = written.rstrip("/")
    if where.startswith("["):
        host, _, number = where[1:].partition("]")
        number = number.removeprefix(":")
    else:
        host, _, number = where.partition(":")
    if not number and port is not None:
        number = str(port)
    if not host or not number.isdigit() or int(number) > 65_535:
        raise BadAddress(f"{written!r} is not HOST:PORT, as in 127.0.0.1:{port or 9999}")
    return host, int(number)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def networks(written: object) -> Networks:
    """`allow_from`: addresses and networks."""
    if not isinstance(written, Sequence) or isinstance(written, str):
        raise BadAddress(f'allow_from = {written!r} is no list as in ["10.1.0.0/16", "10.2.3.4"]')
    try:
        return tuple(ip_network(str(each)) for each in written)
    except ValueError as error:
        raise BadAddress(f"allow_from: {error}") from None


def complaints(host: str, allow_from: object) -> list[str]:
    try:
        allowed = networks(allow_from)
    except BadAddress as error:
        return [str(error)]
    if allowed or is_loopback(host):
        return []
    return [
        f"{host} can be reached from elsewhere, and UDP has no login: say who may send, as in "
        'allow_from = ["10.1.0.0/16"]; ["0.0.0.0/0", "::/0"] for everybody'
    ]


def allowing(allowed: Networks) -> Callable[[str], bool] | None:
    """Whether a sender may; None: all may."""
    if not allowed or all(each.prefixlen == 0 for each in allowed):
        return None
    known: dict[str, bool] = {}

    def may(host: str) -> bool:
        found = known.get(host)
        if found is None:
            if len(known) >= REMEMBERED_MAX:  # forged addresses must not fill the memory
                known.clear()
            address = ip_address(host.partition("%")[0])
            mapped = getattr(address, "ipv4_mapped", None) or address
            found = known[host] = any(mapped in network for network in allowed)
        return found

    return may
