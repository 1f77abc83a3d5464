"""Wrong tokens and passwords, counted by where they come from and by whom they would be. Pure.

    one name from one place     `TRIES_MAX` within `TRIES_WITHIN_S`: then nobody is that from there
    all names from one place    `PLACE_MAX`: then nobody comes in from there; both for a moment

So whoever mistypes his own password, or guesses at the token, shuts out himself and not all who share his
address. Behind a proxy all would: what it says of its client counts where the proxy is known (`client_of`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeVar

from headwater.fair_queue import network

TRIES_MAX, TRIES_WITHIN_S = 10, 60.0
PLACE_MAX = 60
COUNTED_MAX = 10_000
NAME_CHARS = 64
Network = IPv4Network | IPv6Network
Key = TypeVar("Key")


class Guesses:
    def __init__(self) -> None:
        self._of_names: dict[tuple[str, str], deque[float]] = {}
        self._of_places: dict[str, deque[float]] = {}

    def failed(self, now: float, address: str, who: str) -> None:
        """Somebody there has given what is wrong."""
        place = network(address)
        _count(self._of_places, place, now, PLACE_MAX)
        _count(self._of_names, (place, who[:NAME_CHARS]), now, TRIES_MAX)

    def forgive(self, address: str, who: str) -> None:
        """The last that came from there was right after all; what was wrong before it stays counted."""
        place = network(address)
        for seen in (
            self._of_places.get(place),
            self._of_names.get((place, who[:NAME_CHARS])),
        ):
            if seen:
                seen.pop()

    def is_closed(self, now: float, address: str, who: str) -> bool:
        """Whether somebody is guessing there."""
        place = network(address)
        return _is_full(self._of_places.get(place), now) or _is_full(
            self._of_names.get((place, who[:NAME_CHARS])), now
        )


def _count(counted: dict[Key, deque[float]], key: Key, now: float, most: int) -> None:
    seen = counted.pop(key, None) or deque(maxlen=most)
    seen.append(now)
    counted[key] = seen
    if len(counted) > COUNTED_MAX:
        del counted[next(iter(counted))]


def _is_full(seen: deque[float] | None, now: float) -> bool:
    return seen is not None and len(seen) == seen.maxlen and now - seen[0] < TRIES_WITHIN_S


def client_of(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """Who asks: the peer, or where that is a proxy of ours the last that is none in X-Forwarded-For."""
    found = peer
    for each in reversed(forwarded.split(",")):
        if not is_in(found, proxies):
            return found
        try:
            found = str(ip_address(each.strip()))
        except ValueError:
            return found
    return found


def is_in(address: str, networks: Sequence[Network]) -> bool:
    """Whether it is one of theirs."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in each for each in networks)


def networks_of(words: Sequence[str]) -> tuple[Network, ...]:
    """Of a checked setting `proxies`."""
    return tuple(ip_network(each) for each in words)
