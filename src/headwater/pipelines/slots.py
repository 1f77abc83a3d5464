"""How many batches of the driver's own queries run at a time, and whose turn it is.

Used by `driver_query`. Ten views that share two cores all at once are all ready at the end of the round; in
turns each is ready after its own share of it, and meanwhile takes along what has come for it. So a query asks
for a slot before it looks for its next batch, and gets one in the order of asking.

Nobody is held up by one that is stuck, or large: whoever has had a slot for `LEASE_S` no longer counts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEASE_S = 1.0
LOOK_S = 0.05


class Slots:
    """So many at a time, first come, first served."""

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        assert count > 0, count
        self._count, self._clock = count, clock
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._held: dict[object, float] = {}

    @contextmanager
    def slot(self, stopped: threading.Event) -> Iterator[None]:
        """Wait for a turn, and have it; who is told to stop does not wait."""
        who = object()
        with self._changed:
            self._queue.append(who)
            while not stopped.is_set() and not self._is_turn_of(who):
                self._changed.wait(LOOK_S)
            self._queue.remove(who)
            self._held[who] = self._clock()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                del self._held[who]
                self._changed.notify_all()

    def _is_turn_of(self, who: object) -> bool:
        begun = self._clock() - LEASE_S
        counted = sum(since > begun for since in self._held.values())
        return self._queue[0] is who and counted < self._count


_MAKING = threading.Lock()
_OF: WeakKeyDictionary[object, Slots] = WeakKeyDictionary()


def slots_of(spark: SparkSession) -> Slots:
    """Those of a Spark application, for all its queries: as many as it has cores."""
    context = spark.sparkContext
    with _MAKING:
        if context not in _OF:
            _OF[context] = Slots(max(1, context.defaultParallelism))
        return _OF[context]
