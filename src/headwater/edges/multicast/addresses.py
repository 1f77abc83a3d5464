"""`multicast://239.1.2.3:5004`, and who may speak or ask. Pure.

The interface is loopback unless another of this machine's addresses is named, and then a secret or a list of
networks must say whose packets are meant: multicast has no login either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import IPv4Address, ip_address
from typing import Any

from headwater.edges.udp.addresses import BadAddress, Networks, networks, place_of

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Group:
    """Where packets go."""

    host: str
    port: int
    interface: str
    ttl: int
    allowed: Networks
    secret: bytes
    """The key of the packets' seals; empty: anybody can make one."""

    @property
    def answers_all(self) -> bool:
        """Whether repairs go to the group: without a secret nobody knows who asks."""
        return not self.secret and not _address(self.interface).is_loopback

    @property
    def place(self) -> tuple[str, int]:
        return self.host, self.port


def group_of(place: str, options: Mapping[str, Any]) -> Group:
    """Raises BadAddress."""
    host, port = place_of(place)
    if not isinstance(_address(host), IPv4Address) or not _address(host).is_multicast:
        raise BadAddress(f"{host!r} is no multicast address of IPv4: 239.0.0.0 to 239.255.255.255")
    interface = options["interface"]
    if not isinstance(_address(interface), IPv4Address):
        raise BadAddress(f"interface = {interface!r} is no IPv4 address of this machine")
    if _address(interface).is_unspecified:
        raise BadAddress(
            f"interface = {interface!r} is every address: name the one of that network"
        )
    ttl = options.get("ttl", 1)
    if not 0 <= ttl <= 255:
        raise BadAddress(f"ttl = {ttl} is not from 0 to 255")
    allowed, secret = networks(options["allow_from"]), options["secret"]
    if secret is not None and not secret.strip():
        raise BadAddress(
            "secret is empty: give both sides one that nobody guesses, or leave it out"
        )
    if not _address(interface).is_loopback and not allowed and not secret:
        raise BadAddress(
            f"others are reached through {interface}, and multicast has no login: give both sides the "
            'same secret = "${…}", or say whom to hear, as in allow_from = ["10.1.0.0/16"]'
        )
    return Group(host, port, interface, ttl, allowed, key_of(secret))


def key_of(secret: str | None) -> bytes:
    """A key for BLAKE2b, which takes at most 64 bytes."""
    if not secret:
        return b""
    return blake2b(secret.encode(), digest_size=32, person=b"headwater-hwm1").digest()


def _address(written: str) -> Any:
    try:
        return ip_address(written)
    except ValueError:
        raise BadAddress(f"{written!r} is no address in numbers, as in 239.1.2.3") from None
