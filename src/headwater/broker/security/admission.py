"""Who may have one more connection: how many there may be, how many of one address, and how soon.

Asked by the broker's `socket_server` (`max.connections`, `max.connections.per.ip`, the quota of new ones) and
by the web services as soon as a socket is accepted, whatever is spoken on it: a client in the middle of a TLS
handshake counts like one that is served. Its `Place` is left when its socket is closed.

Beyond what settings say there is what the machine has: descriptors, and memory (`connections_max`). Where
that is taken, those make room that have been silent for longest, first those that have never said anything:
idle strangers keep nobody out.

What an address is: for `max.connections.per.ip`, as in Kafka, each by itself; for `connections_per_address`
of the web services the /64 of an IPv6 client, which has all of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from headwater.broker.settings import Settings, Source
from headwater.log.descriptors import share_of_connections

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.connection import Connection


CONNECTION_BYTES = 16 * 1024
"""What one takes of memory, about, that no budget counts: its objects, and a buffer now and then."""
CONNECTIONS_MIN = 1_000
"""There is memory for so many, whatever the budget is."""
IDLE_S = 1.0
GONE_AT_ONCE = 32
"""As many as are accepted in one turn."""


class Bound(NamedTuple):
    """A number of connections, and what people call it."""

    name: str
    most: Callable[[], int]


class Place:
    """Of one connection."""

    __slots__ = ("_admission", "_is_left", "host")

    def __init__(self, admission: Admission, host: str) -> None:
        self._admission = admission
        self._is_left = False
        self.host = host

    def leave(self) -> None:
        """Once is enough."""
        if not self._is_left:
            self._is_left = True
            self._admission.left(self.host)


class Admission:
    """All places that are taken."""

    def __init__(
        self,
        total: Bound,
        per_host: Bound,
        wait: Callable[[str], float] = lambda _host: 0.0,
        counted_as: Callable[[str], str] = lambda host: host,
        room: Callable[[], int] = lambda: sys.maxsize,
        make_room: Callable[[], int] = lambda: 0,
    ) -> None:
        """`wait`: how many seconds a connection of that host comes too early. `counted_as`: with whom it
        shares `per_host`. `room`: how many there can be; `make_room` says how many go for others."""
        self._bounds = (total, per_host)
        self._wait = wait
        self._counted_as = counted_as
        self._room = room
        self._make_room = make_room
        self._going = 0
        """Of those that are taken, so many have been closed to make room."""
        self._per_host: Counter[str] = Counter()
        self.taken = 0
        self.refused = 0
        """Since the start."""

    @classmethod
    def of_broker(cls, broker: Broker) -> Admission:
        """By its settings, and by what there is for them."""
        names = ("max.connections", "max.connections.per.ip")
        total, per_host = (Bound(name, partial(broker.settings.get, name)) for name in names)
        return cls(
            total,
            per_host,
            broker.quotas.connection_wait,
            room=partial(connections_max, broker.settings),
            make_room=lambda: close_idlest(broker.connections, broker.clock.monotonic()),
        )

    def enter(self, host: str) -> Place | str:
        """A place, or why there is none."""
        of = self._counted_as(host)
        for bound, taken in zip(self._bounds, (self.taken, self._per_host[of]), strict=True):
            if taken >= bound.most():
                self.refused += 1
                return f"{bound.name} are open"
        if self.taken - self._going >= self._room() and not self.make_room():
            self.refused += 1
            return "as many are open as there are descriptors and memory for"
        self.taken += 1
        self._per_host[of] += 1
        return Place(self, host)

    def make_room(self) -> int:
        """Have some go; how many did."""
        gone = self._make_room()
        self._going += gone
        return gone

    def wait(self, host: str) -> float:
        """Seconds that this connection is too early by its quota; 0: it is not."""
        wait = self._wait(host)
        self.refused += wait > 0
        return wait

    def left(self, host: str) -> None:
        of = self._counted_as(host)
        self.taken -= 1
        self._going = max(self._going - 1, 0)
        self._per_host[of] -= 1
        if not self._per_host[of]:
            del self._per_host[of]


def connections_max(settings: Settings) -> int:
    """As many as there are descriptors for; and memory, unless somebody has said how many there may be."""
    most, limit = share_of_connections(), settings.get("queued.max.request.bytes")
    if limit < 0 or settings.source("max.connections") is not Source.DEFAULT:
        return most
    return min(most, max(limit // CONNECTION_BYTES, CONNECTIONS_MIN))


def close_idlest(connections: Iterable[Connection], now: float) -> int:
    """Those that have been silent for longest, and wait for nothing; how many."""
    silent = [
        (each.inbound.has_spoken and not each.is_stranger, each.inbound.last_active, number, each)
        for number, each in enumerate(connections)
        if not (each.busy or each.is_closing) and now - each.inbound.last_active >= IDLE_S
    ]
    for *_, connection in nsmallest(GONE_AT_ONCE, silent):
        connection.fail("it is silent, and there is no room for others", at_once=True)
    return min(len(silent), GONE_AT_ONCE)
