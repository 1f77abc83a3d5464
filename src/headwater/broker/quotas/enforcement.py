"""Quotas at work: what a request costs, and how long its connection is silent for it.

The connection calls `charge` with every answer while `active`, that is, while there is any quota at all;
otherwise quotas cost one look at that attribute. The answer tells the client how long it is throttled,
and the broker reads nothing more from that connection until then (KIP-219), so that a client that does
not care is held back, too. A fetch above its quota is answered without data, which is not counted then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headwater.broker.catalogue import Catalogue
from headwater.broker.quotas.entities import Entity, Key, Limit, Table
from headwater.broker.quotas.windows import Rate, TokenBucket
from headwater.broker.settings import Settings

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78
KIND = "quota"
THROTTLE_MS_MAX = 2**31 - 1
METERS_MAX = 10_000
"""Beyond this, meters of clients that have been silent are looked for and dropped."""

NAME_CHARS_MAX = 64
"""A client's id may have 32 KB, and thousands of them be made up: of a longer name a digest is kept."""

_Name = tuple[str | bytes, ...]
_Meters = dict[_Name, Any]


class Charge:
    """What a request is told: the time, and whether its data is held back."""

    __slots__ = ("hold_back", "throttle_ms")

    def __init__(self, throttle_ms: int, hold_back: bool = False) -> None:
        self.throttle_ms = throttle_ms
        self.hold_back = hold_back


class Quotas:
    """The quotas of one broker; its event loop owns them."""

    def __init__(
        self, settings: Settings, catalogue: Catalogue, monotonic: Callable[[], float]
    ) -> None:
        self.table = Table()
        self.active = False
        """Whether there is any quota."""
        self._catalogue = catalogue
        self._now = monotonic
        self._count: int = settings.get("quota.window.num")
        self._seconds: int = settings.get("quota.window.size.seconds")
        self._mutation_seconds: int = settings.get("controller.quota.window.num") * settings.get(
            "controller.quota.window.size.seconds"
        )
        self._meters: _Meters = {}
        catalogue.follow(KIND, self._apply)

    # ---- the table -----------------------------------------------------------------------------

    async def put(self, owner: Entity, values: Mapping[str, float]) -> None:
        """Replace an entity's quotas, durably."""
        value = {"quotas": dict(values)} if values else None
        await self._catalogue.put(KIND, json.dumps(owner), value)

    def _apply(self, name: str, value: Mapping[str, Any] | None) -> None:
        owner = tuple((kind, whose) for kind, whose in json.loads(name))
        self.table.put(owner, {} if value is None else value["quotas"])
        self.active = bool(self.table.quotas)

    # ---- what requests cost ----------------------------------------------------------------------

    def charge(
        self, principal: str, client: str, api_key: int, sizes: tuple[int, int], seconds: float
    ) -> Charge:
        """Count a request of `sizes` (in, out) bytes that took `seconds` of the broker's time."""
        user = principal.partition(":")[2]
        now = self._now()
        wait, hold_back = self._time_taken(user, client, seconds, now), False
        if api_key == PRODUCE:
            wait = max(wait, self._bytes_taken(Key.PRODUCE, user, client, sizes[0], now))
        elif api_key == FETCH:
            waits, hold_back = self._fetched(user, client, sizes[1], now)
            wait = max(wait, waits)
        elif api_key == SHARE_FETCH:  # what it has acquired is sent: it cannot be held back
            wait = max(wait, self._bytes_taken(Key.FETCH, user, client, sizes[1], now))
        if not wait:
            return Charge(0)
        return Charge(max(1, int(min(wait * 1000, THROTTLE_MS_MAX))), hold_back)

    def bounded(self, request: Any, principal: str, client: str) -> Any:
        """A fetch that asks for no more than its quota allows for all windows together: one answer
        above that could never be sent."""
        limit = self.table.limit(Key.FETCH, principal.partition(":")[2], client)
        if limit is None or request.max_bytes <= self._window_total(limit):
            return request
        most = max(int(self._window_total(limit)), 1)
        return replace(request, max_bytes=most, min_bytes=min(request.min_bytes, most))

    def _time_taken(self, user: str, client: str, seconds: float, now: float) -> float:
        """Percent of one thread; waits are no longer than a window."""
        limit = self.table.limit(Key.REQUEST, user, client)
        if limit is None:
            return 0.0
        rate = self._rate(Key.REQUEST, limit)
        rate.record(seconds * 100, now)
        return min(rate.excess_seconds(limit.value, now), self._seconds)

    def _bytes_taken(self, key: Key, user: str, client: str, size: int, now: float) -> float:
        limit = self.table.limit(key, user, client)
        if limit is None:
            return 0.0
        rate = self._rate(key, limit)
        rate.record(size, now)
        return rate.excess_seconds(limit.value, now)

    def _fetched(self, user: str, client: str, size: int, now: float) -> tuple[float, bool]:
        limit = self.table.limit(Key.FETCH, user, client)
        if limit is None:
            return 0.0, False
        rate = self._rate(Key.FETCH, limit)
        fresh = rate.idle(now)
        rate.record(size, now)
        wait = rate.excess_seconds(limit.value, now)
        # A batch that alone is above the quota must go out some time: then, when nothing else has.
        if not wait or fresh:
            return wait, False
        rate.record(-size, now)
        return wait, True

    def _window_total(self, limit: Limit) -> float:
        return limit.value * self._count * self._seconds

    # ---- topics and connections ------------------------------------------------------------------

    def mutations_wait(self, principal: str, client: str) -> float:
        """Seconds until this client may create or delete again; 0: now."""
        bucket = self._bucket(principal, client)
        return 0.0 if bucket is None else bucket.excess_seconds(self._now())

    def mutate(self, principal: str, client: str, partitions: int) -> None:
        """Partitions were created or deleted."""
        bucket = self._bucket(principal, client)
        if bucket is not None:
            bucket.take(partitions, self._now())

    def _bucket(self, principal: str, client: str) -> TokenBucket | None:
        limit = self.table.limit(Key.MUTATION, principal.partition(":")[2], client)
        if limit is None:
            return None
        now, name = self._now(), _meter_name(Key.MUTATION, limit)
        bucket = self._meters.get(name)
        if bucket is None:
            self._make_room(now)
            bucket = self._meters[name] = TokenBucket(limit.value, self._mutation_seconds, now)
        bucket.set_limit(limit.value, now)
        return bucket

    def connection_wait(self, address: str) -> float:
        """Count a new connection; seconds that it is too early, 0 if it is not."""
        limit = self.table.connection_limit(address)
        if limit is None:
            return 0.0
        now, rate = self._now(), self._rate(Key.CONNECTION, limit)
        rate.record(1, now)
        wait = rate.excess_seconds(limit.value, now)
        if wait:
            rate.record(-1, now)
        return min(wait, float(self._seconds * self._count))

    def _rate(self, key: Key, limit: Limit) -> Rate:
        name = _meter_name(key, limit)
        rate = self._meters.get(name)
        if rate is None:
            self._make_room(self._now())
            rate = self._meters[name] = Rate(self._count, self._seconds)
        return rate

    def _make_room(self, now: float) -> None:
        if len(self._meters) >= METERS_MAX:
            self._meters = {name: each for name, each in self._meters.items() if not each.idle(now)}
        if len(self._meters) >= METERS_MAX:  # all of them busy: start to measure anew
            self._meters.clear()


def _meter_name(key: Key, limit: Limit) -> _Name:
    return (
        key,
        *(each if len(each) <= NAME_CHARS_MAX else _digest(each) for each in limit.shared_by),
    )


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
