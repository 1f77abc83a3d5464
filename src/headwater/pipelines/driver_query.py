"""A view kept running by the driver itself: what a streaming query of Spark's would be.

Made by `table_views` for views over tables and by `stream_views` for views of a stream that keep nothing
between two batches; started and watched by `query`, which knows only what Spark's own object has too:
`isActive`, `exception`, `status`, `lastProgress`, `recentProgress`, `stop` (in tests `processAllAvailable`).
A thread of its own plans a batch, takes its records (`batch_source`), has a `Follower` bring them into the
view, and notes it in the checkpoint. The order is Spark's:

    offsets/N durable ─▶ the target, with the position ─▶ the state, if any ─▶ commits/N

so a batch that was begun when the process ended comes again, with the same records.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol

from headwater.pipelines.batch_log import BatchLog
from headwater.pipelines.batch_source import Changes, Next, Source, count
from headwater.pipelines.slots import Slots, slots_of
from headwater.spark.source.tail import Json, RangeReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_PATIENCE_S, CANCEL_PATIENCE_S, LOOK_S = 20.0, 5.0, 0.02
REPORTS = 100  # as many as Spark keeps


class BatchFailed(Exception):
    """What ended the query, with the text of all that led to it."""


class Follower(Protocol):
    """Brings batches into a view."""

    keeps_state: bool

    def apply(self, batch: int, changes: Changes, spark: SparkSession) -> None: ...
    def warm_up(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Work:
    """What a query does, and with what."""

    view: str
    spark: SparkSession
    checkpoint: Path
    following: Callable[[SparkSession], Follower]
    """Made anew for each run, for a session of its own."""
    reader: Callable[[], RangeReader]
    source: Callable[[bool], Source]
    """Its argument: whether to come to an end, at what is there now."""


@dataclass
class DriverWriter:
    """What `query` takes for Spark's DataStreamWriter."""

    work: Work
    once: bool = False

    def queryName(self, _: str) -> DriverWriter:  # noqa: N802
        return self

    def outputMode(self, _: str) -> DriverWriter:  # noqa: N802
        return self

    def option(self, *_: str) -> DriverWriter:
        return self

    def options(self, **_: str) -> DriverWriter:
        return self

    def trigger(self, *, availableNow: bool = False, processingTime: str = "") -> DriverWriter:  # noqa: N803
        self.once = availableNow
        return self

    def start(self) -> DriverQuery:
        query = DriverQuery(self.work, slots_of(self.work.spark), once=self.once)
        query.start()
        return query


class DriverQuery:
    """One run of a view's query."""

    def __init__(self, work: Work, slots: Slots, *, once: bool) -> None:
        self.runId = str(uuid.uuid4())
        self._work, self._slots, self._once = work, slots, once
        self._log, self._stopped = BatchLog(work.checkpoint), threading.Event()
        self._error: BatchFailed | None = None
        self._busy = False
        self._reached: Json | None = None
        self._reports: deque[SimpleNamespace] = deque(maxlen=REPORTS)
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
    def lastProgress(self) -> SimpleNamespace | None:  # noqa: N802
        return self._reports[-1] if self._reports else None

    @property
    def recentProgress(self) -> list[SimpleNamespace]:  # noqa: N802
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
        while not self.leave():
            pass

    def leave(self) -> bool:
        """The same, for a while; whether it has ended. What waits for a log that is away is left."""
        self.ask_to_stop()
        self._thread.join(STOP_PATIENCE_S)
        if self._thread.is_alive():
            self._work.spark.sparkContext.cancelJobGroup(self.runId)
            self._thread.join(CANCEL_PATIENCE_S)
        return not self._thread.is_alive()

    def ask_to_stop(self) -> None:
        self._stopped.set()

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

    def _follow(self, session: SparkSession, following: Follower) -> None:
        source = self._work.source(self._once)
        try:
            self._batches(session, following, source)
        finally:
            source.close()

    def _batches(self, session: SparkSession, following: Follower, source: Source) -> None:
        planned = self._log.last_planned()
        batch = self._log.first_to_do(also_before_last=following.keeps_state)
        start = self._log.begin(source.initial) if batch == 0 else self._log.end_of(batch - 1)
        self._report(batch, start, start, {}, None)
        self._reached, warm = start, self._once
        # Each to its own end: planned anew, one that the state has would be passed over with what is new.
        while planned is not None and batch <= planned and not self._stopped.is_set():
            end = self._log.end_of(batch)
            self._batch(session, following, batch, start, Next(end, source.apart(start, end)))
            batch, start, self._reached, warm = batch + 1, end, end, True
        while not self._stopped.is_set():
            with self._slots.slot(self._stopped):
                found = source.after(start)
                if found is not None:
                    self._batch(session, following, batch, start, found)
                    batch, start, self._reached = batch + 1, found.end, found.end
                elif not warm and not self._once:
                    following.warm_up()
            if found is None and self._once:
                return
            if found is None and warm:
                source.wait(start, self._stopped)
            warm = True

    def _batch(
        self, session: SparkSession, following: Follower, batch: int, start: Json, found: Next
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
            ended = time.monotonic()
            took = {"walCommit": planned - began, "addBatch": applied - planned}
            took |= {"commitOffsets": ended - applied, "triggerExecution": ended - began}
            self._report(batch, start, found.end, took, found.oldest_ms)
        finally:
            self._busy = False

    def _report(
        self, batch: int, start: Json, end: Json, took_s: dict[str, float], oldest_ms: int | None
    ) -> None:
        """In Spark's words, and when the batch's oldest record was written."""
        began = datetime.now(UTC) - timedelta(seconds=took_s.get("triggerExecution", 0.0))
        took = {name: round(seconds * 1000) for name, seconds in took_s.items()}
        whole, rows = max(took_s.get("triggerExecution", 0.0), 1e-3), count(start, end)
        said = {
            "runId": self.runId,
            "batchId": batch,
            "timestamp": began.isoformat(timespec="microseconds"),
            "numInputRows": rows,
            **dict.fromkeys(("inputRowsPerSecond", "processedRowsPerSecond"), rows / whole),
            "batchDuration": took.get("triggerExecution", 0),
            "durationMs": took,
            "sources": [{"startOffset": start, "endOffset": end}],
            "stateOperators": [],
            "oldestMs": oldest_ms,
            "sink": {},
        }
        self._reports.append(SimpleNamespace(json=json.dumps(said)))
