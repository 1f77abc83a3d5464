"""How many refused changes are told, of each principal and of all; those beyond are counted for one line.

Whoever can log in can be refused without end: that must neither fill the audit nor push out of it what was
done. Pure, with the time handed in; `trail` asks, and tells the counts once a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.broker.quotas.windows import TokenBucket

PER_SECOND = 10 / 60
SECONDS = 600.0
"""A principal has 100 at once, and 10 a minute after that."""
ALL_PER_SECOND = 60 / 60
PRINCIPALS_MAX = 1000
FORGET_S = 60.0
OTHERS = "(others)"
"""All those beyond that number, as one."""


@dataclass
class Untold:
    """Refusals of a principal that were only counted."""

    count: int = 0
    error: str = ""
    """Of the last."""


class Refusals:
    """Buckets by principal, at most `PRINCIPALS_MAX` and that of the others."""

    def __init__(self, now: float) -> None:
        self._all = TokenBucket(ALL_PER_SECOND, SECONDS, now)
        self._buckets: dict[str, TokenBucket] = {}
        self._forgot_at = now
        self._untold: dict[str, Untold] = {}

    def may_tell(self, principal: str, error: str, now: float) -> bool:
        """Whether this one gets a line; else it is counted."""
        who, bucket = self._bucket(principal, now)
        if bucket.excess_seconds(now) == 0.0 and self._all.excess_seconds(now) == 0.0:
            bucket.take(1, now)
            self._all.take(1, now)
            return True
        untold = self._untold.setdefault(who, Untold())
        untold.count, untold.error = untold.count + 1, error
        return False

    def take_untold(self) -> dict[str, Untold]:
        """What was counted since the last time, by principal."""
        found, self._untold = self._untold, {}
        return found

    def _bucket(self, principal: str, now: float) -> tuple[str, TokenBucket]:
        if principal not in self._buckets and len(self._buckets) >= PRINCIPALS_MAX:
            self._forget(now)
            if len(self._buckets) >= PRINCIPALS_MAX:
                principal = OTHERS
        if principal not in self._buckets:
            self._buckets[principal] = TokenBucket(PER_SECOND, SECONDS, now)
        return principal, self._buckets[principal]

    def _forget(self, now: float) -> None:
        """Those who were not refused for long; looked for now and then, as it takes a look at all."""
        if now - self._forgot_at >= FORGET_S:
            self._forgot_at = now
            self._buckets = {k: v for k, v in self._buckets.items() if not v.idle(now)}
