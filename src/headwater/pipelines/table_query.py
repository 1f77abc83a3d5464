"""A view over tables, kept running by the driver itself: what a streaming query of Spark's would be.

Made by `table_views`, started and watched by `query`, which knows only what Spark's own object has too:
`isActive`, `exception`, `status`, `lastProgress`, `recentProgress`, `stop`; and by tests, which know
`processAllAvailable`. A thread of its own plans a
batch, takes its changes (from the `Tail` that views over the same topics share), has `Following` bring them
into the view, and notes it in the checkpoint. The order is Spark's:

    offsets/N durable ─▶ the target, with the position ─▶ the state ─▶ commits/N

so a batch that was begun when the process ended comes again, with the same records.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from headwater.pipelines.batch_log import BatchLog
from headwater.spark.source.position import offsets
from headwater.spark.source.tail import Json, RangeReader, Tail

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headwater.views.tables.following import Following

STOP_PATIENCE_S = 20.0
LOOK_S = 0.02
REPORTS = 100
"""As many as Spark keeps."""


class BatchFailed(Exception):
    """What ended the query, with the text of all that led to it."""


@dataclass(frozen=True)
class Work:
    """What a query does, and with what."""

    view: str
    spark: SparkSession
    checkpoint: Path
    following: Callable[[SparkSession], Following]
    """Made anew for each run, for a session of its own."""
    reader: Callable[[], RangeReader]
    tail: Callable[[], Tail]


@dataclass
class TableWriter:
    """What `query` takes for Spark's DataStreamWriter."""

    work: Work
    once: bool = False

    def queryName(self, _: str) -> TableWriter:  # noqa: N802
        return self

    def outputMode(self, _: str) -> TableWriter:  # noqa: N802
        return self

    def option(self, *_: str) -> TableWriter:
        return self

    def options(self, **_: str) -> TableWriter:
        return self

    def trigger(self, *, availableNow: bool = False, processingTime: str = "") -> TableWriter:  # noqa: N803
        self.once = availableNow
        return self

    def start(self) -> TableQuery:
        query = TableQuery(self.work, once=self.once)
        query.start()
        return query


class TableQuery:
    """One run of a view's query."""

    def __init__(self, work: Work, *, once: bool) -> None:
        self.runId = str(uuid.uuid4())
        self._work, self._once = work, once
        self._log = BatchLog(work.checkpoint)
        self._stopped = threading.Event()
        self._error: BatchFailed | None = None
        self._busy = False
        self._reached: Json | None = None
        self._reports: deque[Any] = deque(maxlen=REPORTS)
        self._thread = threading.Thread(target=self._run, name=f"view {work.view}", daemon=True)

    # ---- as Spark's StreamingQuery --------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self._busy, "isDataAvailable": self._busy}

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self._reports[-1] if self._reports else None

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return list(self._reports)

    def exception(self) -> BatchFailed | None:
        return self._error

    def processAllAvailable(self) -> None:  # noqa: N802
        """Return once all that is in the topics is in the view; for tests, as Spark's is."""
        reader = self._work.reader()
        try:
            while self._error is None and self.isActive:
                reached = self._reached
                if reached is not None and reader.end_after(reached) is None:
                    return
                self._stopped.wait(LOOK_S)
        finally:
            reader.close()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Let the batch at hand end; where it does not, end Spark's part of it."""
        self._stopped.set()
        self._thread.join(STOP_PATIENCE_S)
        while self._thread.is_alive():
            self._work.spark.sparkContext.cancelJobGroup(self.runId)
            self._thread.join(1.0)

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            session = self._session()
            following = self._work.following(session)
            try:
                self._follow(session, following)
            finally:
                following.close()
        except BaseException as error:
            self._error = BatchFailed("".join(traceback.format_exception(error)))

    def _session(self) -> SparkSession:
        """With settings of its own, as Spark gives one to each query; jobs of this thread name the query."""
        from pyspark.sql import SparkSession

        spark = self._work.spark
        context = spark.sparkContext
        context.setJobGroup(self.runId, self._work.view, interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", self._work.view)
        context.setLocalProperty("sql.streaming.queryId", self._log.query_id)
        made = SparkSession(context, spark._jsparkSession.cloneSession())
        made._jvm.SparkSession.setActiveSession(made._jsparkSession)  # type: ignore[union-attr]
        return made

    def _follow(self, session: SparkSession, following: Following) -> None:
        source = _Source(self._work, once=self._once)
        try:
            self._batches(session, following, source)
        finally:
            source.close()

    def _batches(self, session: SparkSession, following: Following, source: _Source) -> None:
        planned, done = self._log.last_planned(), self._log.last_done()
        batch = 0 if done is None else done + 1
        start = self._log.begin(source.initial) if batch == 0 else self._log.end_of(batch - 1)
        self._report(batch, start, 0, {})
        self._reached = start
        warm = self._once
        # More than one, where a crash lost commits: they come again as they were, to their own ends. Planned
        # anew, they would be passed over as batches that the state has, and with them what is new in them.
        while planned is not None and batch <= planned and not self._stopped.is_set():
            end = self._log.end_of(batch)
            self._batch(session, following, batch, start, _Next(end, source.apart(start, end)))
            batch, start, warm = batch + 1, end, True
            self._reached = start
        while not self._stopped.is_set():
            found = source.after(start)
            if found is None:
                if self._once:
                    return
                if warm:
                    source.wait(start, self._stopped)
                else:
                    following.warm_up()
            else:
                self._batch(session, following, batch, start, found)
                batch, start = batch + 1, found.end
                self._reached = start
            warm = True

    def _batch(
        self, session: SparkSession, following: Following, batch: int, start: Json, found: _Next
    ) -> None:
        self._busy = True
        try:
            began = time.monotonic()
            last = self._log.last_planned()
            if last is None or batch > last:
                self._log.plan(batch, found.end)
            planned = time.monotonic()
            session.sparkContext.setLocalProperty("streaming.sql.batchId", str(batch))
            following.apply(batch, found.changes, session)
            applied = time.monotonic()
            self._log.done(batch)
            took = {"walCommit": planned - began, "addBatch": applied - planned}
            took |= {"commitOffsets": time.monotonic() - applied}
            took |= {"triggerExecution": time.monotonic() - began}
            self._report(batch, found.end, _count(start, found.end), took, start)
        finally:
            self._busy = False

    def _report(
        self,
        batch: int,
        end: Json,
        rows: int,
        took_s: dict[str, float],
        start: Json | None = None,
    ) -> None:
        """In Spark's words."""
        began = datetime.now(UTC) - timedelta(seconds=took_s.get("triggerExecution", 0.0))
        took = {name: round(seconds * 1000) for name, seconds in took_s.items()}
        whole = max(took_s.get("triggerExecution", 0.0), 1e-3)
        said = {
            "runId": self.runId,
            "batchId": batch,
            "timestamp": began.isoformat(timespec="microseconds"),
            "numInputRows": rows,
            "inputRowsPerSecond": rows / whole,
            "processedRowsPerSecond": rows / whole,
            "batchDuration": took.get("triggerExecution", 0),
            "durationMs": took,
            "sources": [{"startOffset": start or end, "endOffset": end}],
            "stateOperators": [],
            "sink": {},
        }
        self._reports.append(SimpleNamespace(json=json.dumps(said)))


@dataclass
class _Next:
    """A batch: where it ends, and its changes, once they are asked for."""

    end: Json
    changes: Callable[[Following], Sequence[pa.Table]]


@dataclass
class _Source:
    """Batches for one query: shared with others where it is near the end, else its own."""

    work: Work
    once: bool
    _reader: RangeReader | None = field(default=None, init=False)
    _tail: Tail | None = field(default=None, init=False)

    @property
    def reader(self) -> RangeReader:
        if self._reader is None:
            self._reader = self.work.reader()
            if self.once:
                self._reader.stop_at_what_is_there()
        return self._reader

    @property
    def tail(self) -> Tail:
        if self._tail is None:
            self._tail = self.work.tail()
        return self._tail

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._tail = None

    def initial(self) -> Json:
        return self.reader.initial()

    def after(self, start: Json) -> _Next | None:
        if not self.once:
            newer = self.tail.newer(start)
            if newer is not None:
                if offsets(newer.end) == offsets(start):
                    return None
                assert not _goes_back(start, newer.end), (start, newer.end)
                return _Next(newer.end, lambda view: view.shared(newer, offsets(start)))
        end = self.reader.end_after(start)
        if not self.once:
            self.tail.begin(start if end is None else end)
        return None if end is None else _Next(end, self.apart(start, end))

    def apart(self, start: Json, end: Json) -> Callable[[Following], Sequence[pa.Table]]:
        return lambda view: view.decode(self.reader.records(start, end))

    def wait(self, start: Json, stopped: threading.Event) -> None:
        self.tail.wait(start, stopped)


def _goes_back(start: Json, end: Json) -> bool:
    after = offsets(end)
    return any(after.get(place, 0) < o for place, o in offsets(start).items())


def _count(start: Json, end: Json) -> int:
    before = offsets(start)
    return sum(max(0, o - before.get(place, 0)) for place, o in offsets(end).items())
