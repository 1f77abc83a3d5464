"""How long an order takes from the commit in the database until readers of the cache see it.

Called by `job`: a thread of its own looks for each order that was written and not yet seen.
"""

from __future__ import annotations

import contextlib
import threading
import time
from statistics import quantiles

from headwater.project.demo.shop import stores

LOOK_S = 0.01
AT_ONCE = 500


class Watcher:
    """Looks at a view all the time, and notes when each new order is first seen there."""

    def __init__(self, to: str, view: str) -> None:
        self.latencies: list[float] = []
        self._to, self._view = to, view
        self._waiting: dict[int, float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def expect(self, order: int) -> None:
        """It has just been committed."""
        with self._lock:
            self._waiting[order] = time.monotonic()

    def forget(self, order: int) -> None:
        """It was cancelled, perhaps before anybody saw it."""
        with self._lock:
            self._waiting.pop(order, None)

    def percentiles(self) -> tuple[float, float]:
        """p50 and p99 in seconds; zeros while too little is known."""
        seen = sorted(self.latencies)
        if len(seen) < 2:
            return 0.0, 0.0
        cuts = quantiles(seen, n=100, method="inclusive")
        return cuts[49], cuts[98]

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            with self._lock:
                wanted = list(self._waiting)[:AT_ONCE]
            found: set[int] = set()
            with contextlib.suppress(Exception):  # it is being made, or busy: look again
                found = stores.present(self._to, self._view, wanted) if wanted else set()
            now = time.monotonic()
            with self._lock:
                since = [self._waiting.pop(number, None) for number in found]
            self.latencies += [now - begin for begin in since if begin is not None]
