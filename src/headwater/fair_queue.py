"""Who is served next where there is one turn for many: addresses in a circle, so nobody waits for a
stranger's queue. An IPv6 client has a whole /64, which counts as one address.

`Circle` is the order alone: of handshakes (`handshakes`), of lookups by time (`lookups`), of checks of
batches (`validation`), and of those who wait in a `FairQueue`. What one address wants is of several weights:
these take turns, too, so that little waits for one that is much and not for all of them.

`Line` is the order where addresses say nothing: whoever has had least comes first.

`FairQueue` gives one turn at a time: for passwords, by `credentials.knows`, before the slow part. To wait is
cheap, a connection that does so reads no more: each address has many places, as a thousand clients behind one
come at once after a restart. Whoever goes away leaves its place, and what it had sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from heapq import heapify, heappop, heappush
from itertools import count
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
    """Those of one address and weight one after the other, weights in turn, addresses in turn."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, dict[T, None]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def addresses(self) -> int:
        return len(self._lines)

    def waiting(self, address: str) -> int:
        return sum(map(len, self._lines.get(address, {}).values()))

    def add(self, address: str, item: T, size: int = 0) -> None:
        """`size`: of the work, in whatever unit; of the same weight is what is about as much."""
        line = self._lines.setdefault(address, {})
        line.setdefault(size.bit_length(), {})[item] = None
        self._count += 1

    def discard(self, address: str, item: T) -> bool:
        """Whether it waited."""
        line = self._lines.get(address, {})
        for weight, items in line.items():
            if item in items:
                del items[item]
                self._count -= 1
                if not items:
                    del line[weight]
                    if not line:
                        del self._lines[address]
                return True
        return False

    @property
    def first(self) -> T:
        """Whom `take` would give."""
        return next(iter(next(iter(next(iter(self._lines.values())).values()))))

    def take(self) -> T:
        """The next; its weight and its address are then behind the others."""
        address = next(iter(self._lines))
        line = self._lines.pop(address)
        weight = next(iter(line))
        items = line.pop(weight)
        first = next(iter(items))
        del items[first]
        self._count -= 1
        if items:
            line[weight] = items
        if line:
            self._lines[address] = line
        return first


class Line(Generic[T]):
    """Who has had least comes first; every second time who has waited longest, so that all get on."""

    def __init__(self) -> None:
        self._by_share: list[tuple[float, int, T]] = []
        """A heap; those who had their turn by time are still in it."""
        self._by_time: dict[int, T] = {}
        self._numbers = count()
        self._is_by_time = False

    def __len__(self) -> int:
        return len(self._by_time)

    def add(self, item: T, had: float) -> None:
        number = next(self._numbers)
        self._by_time[number] = item
        heappush(self._by_share, (had, number, item))
        if len(self._by_share) > 2 * len(self._by_time) + 16:
            self._by_share = [each for each in self._by_share if each[1] in self._by_time]
            heapify(self._by_share)

    def take(self) -> T:
        if self._is_by_time:
            number = next(iter(self._by_time))
        else:
            number = -1
            while number not in self._by_time:
                _, number, _ = heappop(self._by_share)
        self._is_by_time = not self._is_by_time
        return self._by_time.pop(number)


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
