"""Who is served next where there is one turn for many: addresses in a circle, so nobody waits for a
stranger's queue. An IPv6 client has a whole /64, which counts as one address.

`Circle` is the order alone: of handshakes (`handshakes`), of lookups by time (`lookups`), of checks of
batches (`validation`), and of those who wait in a `FairQueue`.

`FairQueue` gives one turn at a time: for passwords, by `credentials.knows`, before the slow part. To wait is
cheap, a connection that does so reads no more: each address has many places, as a thousand clients behind one
come at once after a restart. Whoever goes away leaves its place, and what it had sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")

WAITING_MAX = 1_000
"""Of one address: a client asks for one at a time and connection."""
TOTAL_MAX = 10_000
"""Of all; an address of which nobody waits has a place beyond that, so that few cannot take all."""
ADDRESSES_MAX = 10_000


class Busy(Exception):
    """Too many wait already."""


class Circle(Generic[T]):
    """Those of one address one after the other, addresses in turn."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[T, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def addresses(self) -> int:
        return len(self._lines)

    def waiting(self, address: str) -> int:
        return len(self._lines.get(address, ()))

    def add(self, address: str, item: T) -> None:
        self._lines.setdefault(address, {})[item] = None
        self._count += 1

    def discard(self, address: str, item: T) -> bool:
        """Whether it waited."""
        line = self._lines.get(address)
        if line is None or item not in line:
            return False
        del line[item]
        self._count -= 1
        if not line:
            del self._lines[address]
        return True

    @property
    def first(self) -> T:
        """Whom `take` would give."""
        return next(iter(next(iter(self._lines.values()))))

    def take(self) -> T:
        """The next; its address is then behind the others."""
        address = next(iter(self._lines))
        line = self._lines.pop(address)
        first = next(iter(line))
        del line[first]
        self._count -= 1
        if line:
            self._lines[address] = line
        return first


class FairQueue:
    """One turn at a time."""

    def __init__(self) -> None:
        self._waiting: Circle[asyncio.Future[None]] = Circle()
        self._taken = False

    @contextlib.asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for it. Raises Busy where there is no place left to wait in."""
        if self._taken:
            await self._wait(network(address))
        self._taken = True
        try:
            yield
        finally:
            self._next()

    async def _wait(self, address: str) -> None:
        waiting = self._waiting.waiting(address)
        if not waiting and self._waiting.addresses >= ADDRESSES_MAX:
            raise Busy
        if waiting and (waiting >= WAITING_MAX or len(self._waiting) >= TOTAL_MAX):
            raise Busy
        mine = asyncio.get_running_loop().create_future()
        self._waiting.add(address, mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._next()  # it was ours already
            else:
                self._waiting.discard(address, mine)
            raise

    def _next(self) -> None:
        """Hand the turn on; it stays taken if anybody waits."""
        while self._waiting:
            first = self._waiting.take()
            if not first.done():
                first.set_result(None)
                return
        self._taken = False


def network(address: str) -> str:
    """Whose places they are: an IPv4 address, the /64 of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), 64), strict=False))
