"""How long a row takes from the commit in the database until readers of a view see it.

Called by `job`, and by `bench.freshness`: a thread of its own looks for each row that was written and not
yet seen. What a kill has held up is told apart from the rest: it says how quickly the project is back, and
the rest says how fresh the view is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, NamedTuple

from headwater.project.demo.shop import stores
from headwater.project.demo.summary import ViewFreshness

LOOK_S = 0.02
AT_ONCE = 500
TOLD_MAX = 5_000
AFTER_KILL_MS = 10_000


class Seen(NamedTuple):
    """One row: when it was committed, and when it was first seen in the view."""

    committed: float
    visible: float

    @property
    def latency(self) -> float:
        return self.visible - self.committed


@dataclass(frozen=True)
class Freshness:
    """Latencies in seconds, those around a kill apart."""

    p50_s: float = 0.0
    p99_s: float = 0.0
    measured: int = 0
    held_up: int = 0
    """Rows that a kill has held up."""
    back_s: float | None = None
    """From the kill until a row is seen that was committed after it."""


def freshness(seen: Sequence[Seen], killed: float | None = None) -> Freshness:
    """A row belongs to the kill if it was seen after it, and written before the view was back."""
    if killed is None:
        return Freshness(*percentiles(each.latency for each in seen), measured=len(seen))
    after = [each.visible for each in seen if each.committed > killed]
    back = min(after, default=killed)
    held = [each for each in seen if each.visible > killed and each.committed <= back]
    usual = [each for each in seen if each.visible <= killed or each.committed > back]
    p50_s, p99_s = percentiles(each.latency for each in usual)
    return Freshness(p50_s, p99_s, len(usual), len(held), back - killed if after else None)


def percentiles(latencies: Iterable[float]) -> tuple[float, float]:
    """p50 and p99; zeros while too little is known."""
    known = sorted(latencies)
    if len(known) < 2:
        return 0.0, 0.0
    cuts = quantiles(known, n=100, method="inclusive")
    return cuts[49], cuts[98]


def told(bootstrap: str, since_ms: float, killed_ms: float | None) -> dict[str, ViewFreshness]:
    """What the views' queries have said of their freshness since then, by view."""
    from headwater.client.cluster import Cluster
    from headwater.pipelines.handles import progress_records

    cluster = Cluster({"bootstrap.servers": bootstrap})
    try:
        return by_view(list(progress_records(cluster, TOLD_MAX)), since_ms, killed_ms)
    finally:
        cluster.close()


def by_view(
    records: Iterable[Mapping[str, Any]], since_ms: float, killed_ms: float | None
) -> dict[str, ViewFreshness]:
    """Records of the progress topic; what was said in the moments after a kill is kept apart."""
    usual: dict[str, list[float]] = {}
    held_up: dict[str, list[float]] = {}
    for said in records:
        at_ms, fresh = said["at_ms"], said.get("freshness_seconds")
        if fresh is None or at_ms < since_ms:
            continue
        around = killed_ms is not None and killed_ms <= at_ms < killed_ms + AFTER_KILL_MS
        (held_up if around else usual).setdefault(said["query"], []).append(fresh)
    return {
        view: ViewFreshness(median(each), max(each), max(held_up.get(view, []), default=None))
        for view, each in sorted(usual.items())
    }


class Watcher:
    """Looks at a view all the time, and notes when each new row is first seen there."""

    def __init__(self, to: str, view: str) -> None:
        self.seen: list[Seen] = []
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

    def expect(self, row: int) -> None:
        """It has just been committed."""
        with self._lock:
            self._waiting[row] = time.monotonic()

    def forget(self, row: int) -> None:
        """It was deleted, perhaps before anybody saw it."""
        with self._lock:
            self._waiting.pop(row, None)

    def retain(self, rows: Container[int]) -> None:
        """Wait only for these: any other was deleted, whoever did that, perhaps before it was seen."""
        with self._lock:
            self._waiting = {row: since for row, since in self._waiting.items() if row in rows}

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
            self.seen += [Seen(begin, now) for begin in since if begin is not None]
