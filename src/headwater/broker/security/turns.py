"""Whose password is checked next: one at a time, addresses in turn, so nobody waits for a stranger's queue.

Asked by `credentials.knows`, before the slow part. To wait is cheap, a connection that does so reads no more:
each address has many places, as a thousand clients behind one come at once after a restart. Whoever goes
away leaves its place, and what it had sent. An IPv6 client has a whole /64, which counts as one address.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections import deque
from collections.abc import AsyncIterator

WAITING_MAX = 1_000
"""Of one address: a client asks for one at a time and connection."""
TOTAL_MAX = 10_000
"""Of all; an address of which nobody waits has a place beyond that, so that few cannot take all."""
ADDRESSES_MAX = 10_000


class Busy(Exception):
    """Too many wait already."""


class FairTurns:
    """One turn at a time; those of one address one after the other, addresses in a circle."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._places = 0
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
        line = self._waiting.get(address)
        if line is None:
            if len(self._waiting) >= ADDRESSES_MAX:
                raise Busy
            line = self._waiting[address] = deque()
        elif len(line) >= WAITING_MAX or self._places >= TOTAL_MAX:
            raise Busy
        mine = asyncio.get_running_loop().create_future()
        line.append(mine)
        self._places += 1
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._next()  # it was ours already
            elif mine in line:
                line.remove(mine)
                self._places -= 1
                if not line:
                    self._waiting.pop(address, None)
            raise

    def _next(self) -> None:
        """Hand the turn on; it stays taken if anybody waits."""
        while self._waiting:
            address = next(iter(self._waiting))
            line = self._waiting.pop(address)
            first = line.popleft()
            self._places -= 1
            if line:
                self._waiting[address] = line  # behind the others
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
