"""How much the audit repeats of what clients say: nobody can fill it, the memory or a turn of the loop by it.

    text                         250 characters   `bounded`; its length is told
    configs, topics of a change  64               the rest is counted
    changes of a request         1000             done; the rest is counted
    refusals of a principal      100 at once      `Refusals`; then 10 a minute, the rest is counted
    line                         16 KiB           `line`; of its details the beginning
    batch                        1 MiB            `trail`
    lines that wait              16 MiB           `trail`; the rest is lost, which the health tells

Whatever a description forgets to cut, `line` cuts. Pure, with the time handed in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from headwater.broker.bounds import shown
from headwater.broker.quotas.windows import TokenBucket

TEXT_CHARS_MAX = 250
ITEMS_MAX = 64
"""More than a broker has settings that can be altered while it runs."""
PLAIN_MAX = 5
"""Details of a refused change."""
CHANGES_MAX = 1000
LINE_BYTES_MAX = 16 * 1024
_DETAILS_CHARS_MAX = 2000
"""Of a line that is too long: its other texts, written at 12 bytes a character, fit beside them."""
PER_SECOND = 10 / 60
SECONDS = 600.0
"""A principal has 100 at once, and 10 a minute after that."""
ALL_PER_SECOND = 60 / 60
PRINCIPALS_MAX = 1000
FORGET_S = 60.0
OTHERS = "(others)"
"""All those beyond that number, as one."""


def bounded(value: object) -> object:
    """As it may stand in a line: whatever a client has sent."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        few = {str(bounded(str(k))): bounded(v) for k, v in islice(value.items(), ITEMS_MAX + 1)}
        left = len(value) - len(few)
        return {**few, "and more": left} if left > 0 else few
    if isinstance(value, list | tuple):
        some = [bounded(each) for each in value[: ITEMS_MAX + 1]]
        left = len(value) - len(some)
        return [*some, f"and {left} more"] if left > 0 else some
    return shown(str(value), TEXT_CHARS_MAX)


def line(said: Mapping[str, object]) -> bytes:
    """One line of the audit, in JSON."""
    few = {name: bounded(value) for name, value in said.items()}
    written = json.dumps(few, sort_keys=True).encode()
    if len(written) <= LINE_BYTES_MAX:
        return written
    beginning = json.dumps(few["details"])[:_DETAILS_CHARS_MAX]
    return json.dumps({**few, "details": {"cut": beginning}}, sort_keys=True).encode()


@dataclass
class Untold:
    """Refusals of a principal that were only counted."""

    count: int = 0
    error: str = ""
    """Of the last."""


class Refusals:
    """Which refused changes are told, of each principal and of all; those beyond are counted for one line.

    Whoever can log in can be refused without end: that must not push out of the audit what was done.
    Buckets by principal: at most `PRINCIPALS_MAX`, and that of the others.
    """

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
