"""How far views are: version, position, lag in records and in seconds, up to where they were verified.

`headwater views` asks. A view in a target has its position there, with its rows; one that goes to a topic or
to files has that of its consumer group. Lag is counted to the end of what is committed in the log.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from headwater.client.cluster import EARLIEST, LATEST, READ_COMMITTED, Cluster
from headwater.client.key_search import Stretch, first_record
from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.views.operate import verification_log
from headwater.views.operate.wait import View


@dataclass(frozen=True)
class Lag:
    """`seconds`: how long the oldest record that is not in the view has waited."""

    records: int
    seconds: float


@dataclass(frozen=True)
class Listed:
    """One view as it is now; `trouble`, where it could not be asked."""

    view: str
    to: str
    version: int | None = None
    versions: tuple[int, ...] = ()
    position: Position | None = None
    lag: Lag | None = None
    verified: verification_log.Verified | None = None
    trouble: str | None = None
    freshness_s: float | None = None
    """How long the oldest change of its last batch had waited in the log when the view showed it."""

    def as_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "to": self.to,
            "version": self.version,
            "versions": list(self.versions),
            "position": None if self.position is None else _plain(self.position),
            "lag_records": self.lag.records if self.lag else None,
            "lag_seconds": round(self.lag.seconds, 3) if self.lag else None,
            "freshness_seconds": self.freshness_s,
            "verified_through": _plain(self.verified.position) if self.verified else None,
            "verified_at_ms": self.verified.at_ms if self.verified else None,
            "trouble": self.trouble,
        }


def in_target(view: View, cluster: Cluster) -> Listed:
    """A view in a target: the version that readers see."""
    try:
        first = view.version(1)
        current = first.current()
        versions = tuple(sorted(first.versions()))
        position = view.position()
    except HeadwaterError as error:
        return Listed(view.name, view.where, trouble=str(error))
    if current is None:
        return Listed(view.name, view.where)
    known = verification_log.read(cluster, view.name, current, view.where)
    if known is not None and (position is None or not position.covers(known.position)):
        known = None  # the store is older than what was verified: somebody restored it
    lag = None if position is None else lag_of(cluster, position)
    return Listed(view.name, view.where, current, versions, position, lag, known)


def by_group(name: str, to: str, committed: Position | None, cluster: Cluster) -> Listed:
    """A view that is followed by a consumer group only."""
    lag = None if committed is None else lag_of(cluster, committed)
    return Listed(name, to, position=committed, lag=lag)


def lag_of(cluster: Cluster, position: Position) -> Lag:
    """How far a position is behind the log, in the topics that it names."""
    known = cluster.metadata(position.offsets)
    places = [(t, p) for t, topic in known.topics.items() for p in topic.leaders]
    starts = cluster.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = cluster.list_offsets(dict.fromkeys(places, LATEST), READ_COMMITTED)
    reached = {(t, p): max(position.offset(t, p), starts[t, p]) for t, p in places}
    behind = {
        (t, p): Stretch(t, p, reached[t, p], end)
        for (t, p), end in ends.items()
        if end > reached[t, p]
    }
    firsts = [first_record(cluster, stretch) for stretch in behind.values()]
    stamps = [record.timestamp for record in firsts if record is not None]
    waited = time.time() - min(stamps) / 1000 if stamps else 0.0
    # Where only the marker of a transaction is left, nothing waits.
    count = sum(s.end - s.start for s, first in zip(behind.values(), firsts, strict=True) if first)
    return Lag(count, max(0.0, waited))


def _plain(position: Position) -> dict[str, dict[str, int]]:
    return {t: {str(p): o for p, o in sorted(ps.items())} for t, ps in position.offsets.items()}
