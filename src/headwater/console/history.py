"""The last minutes of the log: where topics end, and how far behind its groups are, every two seconds.

One thread of the console's process asks; pages and the picture of the flow read. Nothing is kept on disk, and
what is kept in memory is bounded by `SAMPLES_MAX` and `POINTS_MAX`. A broker that is away leaves a gap, and
its sentence in `trouble`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from headwater.client import groups
from headwater.client.cluster import LATEST
from headwater.client.errors import BrokerUnreachable
from headwater.client.log import Log
from headwater.errors import HeadwaterError
from headwater.project.hello import Answer, hello

EVERY_S = 2.0
GREETING_S = 2.0
STOP_S = 1.0
"""A look at a broker that is away may take longer than anybody waits for a console to stop."""
RATE_OVER_MS = 10_000
SAMPLES_MAX = 900
"""Half an hour, where there are few partitions."""
POINTS_MAX = 500_000
"""Numbers kept in all: some 50 MB. With many partitions the past is shorter."""

T = TypeVar("T")
Place = tuple[str, int]
"""Topic and partition."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """One look. `lags`: group → place → records that it has not read yet."""

    time_ms: int
    ends: Mapping[str, int] = field(default_factory=dict)
    """Topic → the ends of its partitions, added up."""
    lags: Mapping[str, Mapping[Place, int]] = field(default_factory=dict)

    @property
    def points(self) -> int:
        return len(self.ends) + sum(map(len, self.lags.values()))


class History:
    """Samples of one cluster; read from any thread."""

    def __init__(self, bootstrap: str, client: Mapping[str, str]) -> None:
        self.trouble: str | None = None
        """What the last look failed with; None after one that did not."""
        self._bootstrap, self._client = bootstrap, client
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._points = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        assert self._thread is None, "started twice"
        self._thread = threading.Thread(target=self._run, name="console history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    # ---- what pages ask -------------------------------------------------------------------------

    def samples(self) -> list[Sample]:
        """All that are kept, the oldest first."""
        with self._lock:
            return list(self._samples)

    def topics(self) -> list[str]:
        return sorted(self._last().ends)

    def end(self, topic: str) -> int | None:
        """The ends of its partitions, added up; None if it is not known."""
        return self._last().ends.get(topic)

    def rate(self, topic: str) -> float | None:
        """Records per second over the last ten; None while there are fewer than two samples."""
        return rate_of(self.samples(), topic)

    def lags(self) -> dict[str, dict[str, int]]:
        """Group → topic → records that it is behind, by the last sample."""
        found: dict[str, dict[str, int]] = {}
        for group, places in self._last().lags.items():
            topics = found.setdefault(group, {})
            for (topic, _), lag in places.items():
                topics[topic] = topics.get(topic, 0) + lag
        return found

    def lag(self, group: str) -> list[tuple[int, Mapping[Place, int]]]:
        """(time, place → lag) of one group, the oldest first."""
        return [(each.time_ms, each.lags[group]) for each in self.samples() if group in each.lags]

    def checked(self, load: Callable[[], T]) -> Callable[[], T]:
        """`load`, but at once with a sentence where the broker is known to be away.

        The client library would go on trying for ten seconds, with somebody waiting.
        """

        def run() -> T:
            if self.trouble is not None:
                raise BrokerUnreachable(
                    self.trouble, hint="the page goes on by itself once it is back"
                )
            return load()

        return run

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        with Log(self._bootstrap, self._client) as log:
            while True:
                try:
                    self._greet()
                    self.keep(look(log))
                    self.trouble = None
                except HeadwaterError as error:
                    self.trouble = str(error)
                except Exception as error:  # the console lives on without its history
                    logger.warning("looking at the log failed", exc_info=error)
                    self.trouble = f"looking at the log failed: {error}"
                if self._stopping.wait(EVERY_S):
                    return

    def _greet(self) -> None:
        """Find out in moments, and not by the client's patience, that nobody is there.

        What is behind TLS or a login cannot be asked so simply.
        """
        if self._client:
            return
        addresses = self._bootstrap.split(",")
        if all(hello(each, GREETING_S) is Answer.NOBODY for each in addresses):
            raise BrokerUnreachable(f"no broker answers at {self._bootstrap}")

    def keep(self, sample: Sample) -> None:
        """Add a sample, and let go of old ones that are too many."""
        with self._lock:
            self._samples.append(sample)
            self._points = sum(each.points for each in self._samples)
            while self._points > POINTS_MAX and len(self._samples) > 2:
                self._points -= self._samples.popleft().points

    def _last(self) -> Sample:
        with self._lock:
            return self._samples[-1] if self._samples else Sample(0)


def rate_of(samples: list[Sample], topic: str) -> float | None:
    """By the last sample and the oldest of the ten seconds before it that know the topic."""
    if not samples or topic not in samples[-1].ends:
        return None
    last = samples[-1]
    for first in samples:
        if first.time_ms >= last.time_ms - RATE_OVER_MS and topic in first.ends:
            break
    took_ms = last.time_ms - first.time_ms
    if took_ms <= 0:
        return None
    return max(0.0, (last.ends[topic] - first.ends[topic]) * 1000 / took_ms)


def look(log: Log) -> Sample:
    """One sample. Raises HeadwaterError."""
    now_ms = time.time_ns() // 1_000_000
    topics = log.topics()
    places = [(name, number) for name, count in topics.items() for number in range(count)]
    ends = log.offsets(places, LATEST)
    sums: dict[str, int] = dict.fromkeys(topics, 0)
    for (name, _), end in ends.items():
        sums[name] += end
    return Sample(now_ms, sums, _lags(log, ends))


def _lags(log: Log, ends: Mapping[Place, int]) -> dict[str, dict[Place, int]]:
    """Of consumer groups. What share groups are behind costs a question more: their page asks it."""
    return {
        name: {
            place: max(0, ends[place] - offset) for place, offset in done.items() if place in ends
        }
        for name, done in groups.committed(log, groups.consumer_names(log)).items()
    }
