"""Who may have one more connection: how many there may be, how many of one address, and how soon.

Asked by the broker's `socket_server` (`max.connections`, `max.connections.per.ip`, the quota of new ones) and
by the web services as soon as a socket is accepted, whatever is spoken on it: a client in the middle of a TLS
handshake counts like one that is served. Its `Place` is left when its socket is closed.

What an address is: for `max.connections.per.ip`, as in Kafka, each by itself; for `connections_per_address`
of the web services the /64 of an IPv6 client, which has all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headwater.broker.quotas.enforcement import Quotas
from headwater.broker.settings import Settings


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
    ) -> None:
        """`wait`: how many seconds a connection of that host comes too early. `counted_as`: with whom it
        shares `per_host`."""
        self._bounds = (total, per_host)
        self._wait = wait
        self._counted_as = counted_as
        self._per_host: Counter[str] = Counter()
        self.taken = 0
        self.refused = 0
        """Since the start."""

    @classmethod
    def by_settings(cls, settings: Settings, quotas: Quotas) -> Admission:
        """The broker's."""
        names = ("max.connections", "max.connections.per.ip")
        total, per_host = (Bound(name, partial(settings.get, name)) for name in names)
        return cls(total, per_host, quotas.connection_wait)

    def enter(self, host: str) -> Place | str:
        """A place, or why there is none."""
        of = self._counted_as(host)
        for bound, taken in zip(self._bounds, (self.taken, self._per_host[of]), strict=True):
            if taken >= bound.most():
                self.refused += 1
                return f"{bound.name} are open"
        self.taken += 1
        self._per_host[of] += 1
        return Place(self, host)

    def wait(self, host: str) -> float:
        """Seconds that this connection is too early by its quota; 0: it is not."""
        wait = self._wait(host)
        self.refused += wait > 0
        return wait

    def left(self, host: str) -> None:
        of = self._counted_as(host)
        self.taken -= 1
        self._per_host[of] -= 1
        if not self._per_host[of]:
            del self._per_host[of]
