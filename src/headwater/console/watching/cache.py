"""An answer that is good for a moment: many pages and visitors ask, the log and the stores are asked once.

Called from threads. A failure is remembered as well: a broker that is away costs one time-out, not one for
each visitor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from headwater.console.sentences import is_expected

T = TypeVar("T")
log = logging.getLogger(__name__)


class Cached(Generic[T]):
    """The last answer of `load`, at most `for_s` seconds old."""

    def __init__(
        self, load: Callable[[], T], for_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load, self._for_s, self._clock = load, for_s, clock
        self._lock = threading.Lock()
        self._until = -1.0
        self._answer: list[T] = []
        self._error: Exception | None = None

    def get(self) -> T:
        """The answer, waiting for it where need be; raises what `load` raised."""
        with self._lock:
            if self._is_old():
                self._ask()
            if self._error is not None:
                raise self._error
            return self._answer[0]

    def glance(self, default: T) -> T:
        """The last good answer, however old, without waiting; a newer one is fetched meanwhile."""
        if self._is_old() and self._lock.acquire(blocking=False):
            threading.Thread(target=self._fetch, name="console fetch", daemon=True).start()
        answer = self._answer
        return answer[0] if answer else default

    def forget(self) -> None:
        """Something has changed: ask anew."""
        with self._lock:
            self._until = -1.0

    def _is_old(self) -> bool:
        return self._clock() >= self._until

    def _fetch(self) -> None:
        try:
            self._ask()
        finally:
            self._lock.release()

    def _ask(self) -> None:
        try:
            self._answer, self._error = [self._load()], None
        except Exception as error:
            self._error = error
            if not is_expected(error):  # whoever only glances would never hear of it
                log.error("looking failed", exc_info=error)
        self._until = self._clock() + self._for_s
