"""Everything that the picture of the flow needs, of one moment.

Called in a thread by the front page, which does not wait: what is slow to ask comes with a later look, and
what cannot be asked now (a broker that is away) keeps its last answer, so that the picture stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from headwater.client.errors import BrokerUnreachable
from headwater.console.context import Context
from headwater.console.history import RATE_OVER_MS, Sample
from headwater.console.watching.captures import CaptureNow
from headwater.console.watching.queries import QueryNow
from headwater.console.watching.views import ViewNow
from headwater.project.record import Entry

PACE_OVER_MS = 10 * 60 * 1000


@dataclass(frozen=True)
class TopicSeen:
    """`end`: the ends of its partitions, added up."""

    end: int
    rate: float | None


@dataclass(frozen=True)
class Seen:
    """One look."""

    captures: Sequence[CaptureNow] = ()
    queries: Sequence[QueryNow] = ()
    views: Sequence[ViewNow] = ()
    topics: Mapping[str, TopicSeen] = field(default_factory=dict)
    lags: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Group → topic → records."""
    reads: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(group, topic) → records per second that it has read lately."""
    letters: Mapping[str, int] = field(default_factory=dict)
    pace: Sequence[tuple[int, float]] = ()
    """(time, records per second into all topics) over the last minutes."""
    is_up: bool = False
    parts: Sequence[Entry] = ()
    failing: Mapping[str, str] = field(default_factory=dict)
    """Parts of the project, bridges and webhooks that get nothing done, and why."""
    broker: Sequence[str] = ()
    """What troubles the broker, as it says itself: a full disk, a task that fails."""
    trouble: str | None = None
    """Why the log cannot be asked, where it cannot."""


def service_of(group: str) -> str:
    """Of the edges, as which whoever reads by this group is known: webhooks.shop, bridges.orders."""
    kind, _, name = group.removeprefix("headwater.").partition(".")
    return f"{kind}s.{name}"


class Looking:
    """Looks again and again, and remembers the last answers."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last = Seen()

    def look(self) -> Seen:
        watch, history = self._context.watch, self._context.history
        is_up, parts = watch.parts.read()
        seen = replace(
            self._last,
            queries=watch.queries.now(),
            is_up=is_up,
            parts=parts,
            failing=watch.parts.failing(),
            trouble=history.trouble,
        )
        if history.trouble is None:
            samples = history.samples()
            seen = replace(
                seen,
                captures=watch.captures.glance(),
                views=watch.views.glance(),
                letters=watch.letters.glance(),
                topics={
                    name: TopicSeen(history.end(name) or 0, history.rate(name))
                    for name in history.topics()
                },
                lags=history.lags(),
                reads=reads_of(samples),
                pace=pace_of(samples),
                broker=self._broker(),
            )
        self._last = seen
        return seen

    def _broker(self) -> Sequence[str]:
        try:
            health = self._context.watch.broker.look()
        except BrokerUnreachable:
            return self._last.broker
        return () if health is None else health.troubles


def pace_of(samples: Sequence[Sample]) -> list[tuple[int, float]]:
    """From one sample to the next; a topic that came or went in between is not counted."""
    begin = samples[-1].time_ms - PACE_OVER_MS if samples else 0
    recent = [sample for sample in samples if sample.time_ms >= begin]
    found = []
    for before, after in pairwise(recent):
        took_s = (after.time_ms - before.time_ms) / 1000
        common = [t for t in after.ends if t in before.ends and not t.startswith("_")]
        moved = sum(max(0, after.ends[topic] - before.ends[topic]) for topic in common)
        if took_s > 0:
            found.append((after.time_ms, round(moved / took_s, 1)))
    return found


def reads_of(samples: Sequence[Sample]) -> dict[tuple[str, str], float]:
    """How quickly groups read: what their positions moved over the last ten seconds."""
    if len(samples) < 2:
        return {}
    last = samples[-1]
    first = next(s for s in samples if s.time_ms >= last.time_ms - RATE_OVER_MS)
    took_s = (last.time_ms - first.time_ms) / 1000
    if took_s <= 0:
        return {}
    now, before = _positions(last), _positions(first)
    return {
        place: max(0.0, (position - before[place]) / took_s)
        for place, position in now.items()
        if place in before
    }


def _positions(sample: Sample) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], Any] = {}
    for group, places in sample.lags.items():
        for (topic, _), lag in places.items():
            if topic in sample.ends:
                found.setdefault((group, topic), sample.ends[topic])
                found[group, topic] -= lag
    return found
