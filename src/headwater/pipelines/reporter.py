"""What a query tells the log about itself: its position as a consumer group, its progress as records.

Owned by one `Query`, called from its thread. Spark's reports are taken as they come; once a second, while
there is something to tell, offsets are committed and a record is appended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headwater.client import backlog, groups
from headwater.client.errors import ClientError
from headwater.client.log import Log
from headwater.pipelines import progress
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import brief

TELL_EVERY_S, HEARTBEAT_S = 1.0, 10.0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Reporter:
    """The one voice of a query."""

    def __init__(self, view: View, log: Log, say: Callable[[str], None]) -> None:
        self._view, self._log, self._say = view, log, say
        self.batches = 0
        """Finished so far, by all starts of the query."""
        self._seen = ""
        self._gathered = progress.Gathered()
        self._position: dict[progress.Partition, int] = {}
        self._committed: dict[progress.Partition, int] = {}
        self._committed_at = 0.0
        self._letters: dict[progress.Partition, int] | None = None
        """Up to where dead letters have been counted; None where there cannot be any."""
        self._freshness_ms: int | None = None
        self._recorded = 0.0
        self._complained = False

    def count_letters_of(self, topic: str) -> None:
        """From now on, count what comes into this dead-letter topic."""
        if self._letters is None:
            self._log.ensure_topic(topic, progress.DEAD_LETTERS_CONFIG)
            places = range(self._log.topics().get(topic, 0))
            self._letters = self._log.ends((topic, place) for place in places)

    def take(self, spark_query: Any) -> None:
        """Read the reports that were not seen yet."""
        for report in self._new(_newest_first(spark_query)):
            before = self._gathered.batches
            self._gathered.add(report)
            self.batches += self._gathered.batches - before
            self._position.update(progress.position_of(report))

    def tell(self, *, force: bool = False) -> None:
        """Commit the group's offsets, and append a record when it is time for one."""
        try:
            now = time.monotonic()
            due = force or now - self._committed_at >= TELL_EVERY_S
            if due and self._position != self._committed:
                groups.commit(self._log, self._view.group, self._position)
                self._committed, self._committed_at = dict(self._position), now
            since = now - self._recorded
            busy = self._gathered.batches > 0 and since >= TELL_EVERY_S
            if self._gathered.last and (force or busy or since >= HEARTBEAT_S):
                self._record()
            self._complained = False
        except ClientError as error:
            if not self._complained:  # once per outage: the next step tries again
                self._say(f"{self._view.name}: cannot report its progress: {brief(error)}")
            self._complained = True

    def event(self, kind: str, **more: object) -> None:
        """Append what became of the query."""
        view = self._view
        said = progress.event(kind, query=view.name, to=view.where, at_ms=_now_ms(), **more)
        self._publish(said)

    def _publish(self, said: Mapping[str, object]) -> None:
        self._log.post(progress.TOPIC, self._view.name, json.dumps(said).encode())

    def _new(self, texts: Iterator[str]) -> list[progress.Report]:
        """Oldest first; looked for from the newest on, as those that were seen are many."""
        new: list[progress.Report] = []
        for text in texts:
            report = json.loads(text)
            if report["timestamp"] <= self._seen:
                break
            if not new or report["timestamp"] < new[-1]["timestamp"]:
                new.append(report)
        if new:
            self._seen = new[0]["timestamp"]
        return new[::-1]

    def _record(self) -> None:
        ends = self._log.ends(self._position)
        unread = progress.behind(self._position, ends)
        oldest_ms = backlog.oldest_ms(self._log, unread) if unread else None
        now_ms = _now_ms()
        lag_ms = 0 if not unread else None if oldest_ms is None else max(0, now_ms - oldest_ms)
        said = progress.record(
            self._gathered,
            query=self._view.name,
            to=self._view.where,
            at_ms=now_ms,
            lag_records=progress.lag_of(self._position, ends) if self._position else None,
            lag_ms=lag_ms if self._position else None,
            freshness_ms=self._freshness(lag_ms or 0),
            dead_letter_rows=self._count_letters(),
            position=self._position,
        )
        self._publish(said)
        self._gathered = progress.Gathered(last=self._gathered.last)
        self._recorded = time.monotonic()

    def _freshness(self, lag_ms: int) -> int | None:
        """How long the oldest change of the last batch had waited when the view showed it; at least as long
        as one waits now."""
        report = self._gathered.last_batch
        if report is not None and (begin := progress.begin_of(report)):
            oldest_ms = report.get("oldestMs")  # of a batch that Spark has read nobody says it
            if oldest_ms is None:
                oldest_ms = backlog.oldest_ms(self._log, begin)
            if oldest_ms is not None:
                self._freshness_ms = max(0, progress.shown_ms(report) - oldest_ms)
        known = self._freshness_ms
        return None if known is None else max(known, lag_ms)

    def _count_letters(self) -> int | None:
        if self._letters is None:
            return None
        counted, self._letters = backlog.count(self._log, self._letters)
        return counted


def _newest_first(spark_query: Any) -> Iterator[str]:
    """Reports of a query as JSON; each is asked for only when it is wanted, and the last may come twice."""
    java = getattr(spark_query, "_jsq", None)
    if java is None:  # our own query, or one of Spark Connect's
        if (last := spark_query.lastProgress) is not None:
            yield last.json
            yield from (each.json for each in reversed(spark_query.recentProgress))
        return
    # Past PySpark, which reads and understands all that there are to show the last.
    if (last := java.lastProgress()) is not None:
        yield str(last.json())
        recent = java.recentProgress()
        yield from (str(recent[n].json()) for n in reversed(range(len(recent))))
