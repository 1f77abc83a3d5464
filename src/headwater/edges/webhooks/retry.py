"""When a delivery is tried again, and when nothing is sent at all; pure.

Called by `deliverer`. Waits grow twofold and are drawn evenly from nothing up to the bound ("full jitter"),
so that receivers which come back are not met by everybody at once. What the receiver asks for with
Retry-After is waited for at least, within bounds.

The breaker is of a whole subscription: after some failures in a row nothing more is sent, apart from one
attempt after each wait, until one succeeds.

    closed ──failures──▶ open ──wait is over: one attempt──▶ closed, or open for longer
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Callable
from dataclasses import dataclass

RETRY_AFTER_MOST_S = 3600.0


@dataclass(frozen=True)
class Retrying:
    """Of one subscription: how often, how long."""

    attempts: int = 20
    """The last one's failure puts the record among the dead letters."""
    give_up_after_s: float = 24 * 3600.0
    """So does any failure so long after the first attempt."""
    first_wait_s: float = 0.5
    longest_wait_s: float = 600.0
    breaker_failures: int = 5
    breaker_wait_s: float = 5.0

    def wait_s(self, failures: int, random: Callable[[], float]) -> float:
        """After so many failures of one record. `random` gives numbers from 0 to 1."""
        most = min(self.longest_wait_s, self.first_wait_s * 2 ** min(failures - 1, 30))
        return most * random()

    def is_over(self, attempts: int, since_s: float) -> bool:
        return attempts >= self.attempts or since_s >= self.give_up_after_s


def retry_after_s(value: str | None, now_s: float) -> float:
    """Of the header Retry-After: seconds, or a date; 0 where it says nothing that we understand."""
    if not value:
        return 0.0
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        wait = float(value)
    else:
        try:
            wait = email.utils.parsedate_to_datetime(value).timestamp() - now_s
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(0.0, wait), RETRY_AFTER_MOST_S)


class Breaker:
    """Of one subscription. Times are any clock's that only goes forward."""

    def __init__(self, retrying: Retrying) -> None:
        self._retrying = retrying
        self._failures = 0
        self._until = 0.0
        self._is_trying = False

    @property
    def state(self) -> str:
        """closed, open, or half-open while the one attempt is under way."""
        if self._failures < self._retrying.breaker_failures:
            return "closed"
        return "half-open" if self._is_trying else "open"

    def wait_s(self, now: float) -> float | None:
        """0: send, and tell how it went. None: another's attempt decides. Else: ask again then."""
        if self._until > now:
            return self._until - now
        if self.state == "closed":
            return 0.0
        if self._is_trying:
            return None
        self._is_trying = True
        return 0.0

    def succeeded(self) -> None:
        self._failures, self._is_trying = 0, False

    def failed(self, now: float, hold_s: float = 0.0) -> None:
        """`hold_s`: the receiver asked for that much rest."""
        self._failures += 1
        self._is_trying = False
        beyond = self._failures - self._retrying.breaker_failures
        if beyond >= 0:
            wait = self._retrying.breaker_wait_s * 2 ** min(beyond, 30)
            hold_s = max(hold_s, min(wait, self._retrying.longest_wait_s))
        self._until = max(self._until, now + hold_s)

    def dropped(self) -> None:
        """The attempt was ended before it told anything."""
        self._is_trying = False
