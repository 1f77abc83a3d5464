"""One query of a running application: started, watched, reported, tried again after a failure.

Owned and called by `running`, from one thread. Spark's own object does the work; this one knows what has
been told about it and when it is to be tried again.

    waiting ──start──▶ running ──failure──▶ waiting, longer each time
       │                  │──finished (--once)──▶ finished
       └── a mistake ──▶ refused          stop ──▶ stopped
"""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.pipelines import progress
from headwater.pipelines.backoff import Backoff
from headwater.pipelines.building import Built
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.declared import REAL_TIME, View
from headwater.pipelines.errors import NotRealTime, PipelineError, brief, misfit
from headwater.pipelines.log import Log, LogUnreachable

RECORD_EVERY_S, HEARTBEAT_S = 1.0, 10.0
STOP_PATIENCE_S = 20.0
TRIES_ONCE = 3
"""With --once there is an end to it: whoever waits for the result must hear."""
REAL_TIME_BATCH = "5 seconds"


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    REFUSED = "refused"
    FINISHED = "finished"
    STOPPED = "stopped"


ENDED = (State.REFUSED, State.FINISHED, State.STOPPED)


@dataclass(frozen=True)
class Surroundings:
    """What every query of an application shares."""

    build: Callable[[View], Built]
    tune: Callable[[Built], None]
    """Sets what the session must have when this query starts."""
    checkpoints: Checkpoints
    log: Log
    say: Callable[[str], None]
    once: bool = False
    monotonic: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class Query:
    """A view that is kept running."""

    def __init__(self, built: Built, around: Surroundings) -> None:
        self.view = built.view
        self.reads = built.reads
        self.state = State.WAITING
        self.failed = False
        self._built: Built | None = built
        self._around = around
        self._spark_query: Any = None
        self._backoff = Backoff()
        self._due = 0.0
        self._started = 0.0
        self._seen = ""
        self._gathered = progress.Gathered()
        self._position: dict[progress.Partition, int] = {}
        self._committed: dict[progress.Partition, int] = {}
        self._letters: dict[progress.Partition, int] | None = None
        """Up to where dead letters have been counted; None where there cannot be any."""
        self._recorded = 0.0
        self._complained = False

    def step(self) -> None:
        """Do what is due now; called several times a second."""
        if self.state is State.WAITING and self._around.monotonic() >= self._due:
            self._start()
        elif self.state is State.RUNNING:
            self._look()

    def stop(self) -> None:
        """Let the batch at hand end, then stop, and tell how far it came."""
        if self.state is State.RUNNING:
            self._let_batch_end()
            self._spark_query.stop()
            self._take_reports()
            self._tell(force=True)
        if self.state not in ENDED:
            self.state = State.STOPPED
            self._event("stopped")

    # ---- starting -------------------------------------------------------------------------------

    def _start(self) -> None:
        from pyspark.errors import AnalysisException

        try:
            # It was built before any query ran: what is wrong with it now may pass.
            built, self._built = self._built or self._around.build(self.view), None
        except Exception as error:
            self._failed(error, ran_s=0.0)
            return
        try:
            self._around.checkpoints.admit(self.view.name, built.shape)
            self._begin_letters(built)
            self._around.tune(built)
            self._spark_query = self._configured(built).start()
        except PipelineError as error:
            self._refuse(error)
        except AnalysisException as error:
            self._refuse(self._not_possible(brief(error)))
        except Exception as error:
            self._failed(error, ran_s=0.0)
        else:
            self.state = State.RUNNING
            self._started = self._around.monotonic()
            self._event("started", run_id=str(self._spark_query.runId))
            self._around.say(f"{self.view.name}: running, to {self.view.to}")

    def _begin_letters(self, built: Built) -> None:
        if built.dead_letters is not None and self._letters is None:
            log = self._around.log
            log.ensure_topic(built.dead_letters, progress.DEAD_LETTERS_CONFIG)
            places = range(log.topics().get(built.dead_letters, 0))
            self._letters = log.ends((built.dead_letters, place) for place in places)

    def _configured(self, built: Built) -> Any:
        writer = built.writer.queryName(self.view.name).outputMode(built.mode)
        writer = writer.option("checkpointLocation", self._around.checkpoints.of(self.view.name))
        writer = writer.options(**self.view.options)
        if self.view.speed == REAL_TIME:
            return writer.outputMode("update").trigger(realTime=REAL_TIME_BATCH)
        if self._around.once:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=self.view.every or "0 seconds")

    # ---- watching -------------------------------------------------------------------------------

    def _look(self) -> None:
        active = self._spark_query.isActive
        self._take_reports()
        if not active:
            self._ended()
        else:
            self._tell()

    def _ended(self) -> None:
        error = self._spark_query.exception()
        self._tell(force=True)
        if error is not None:
            self._failed(error, self._around.monotonic() - self._started)
        elif self._around.once:
            self.state = State.FINISHED
            self._event("finished")
        else:
            self._failed("somebody stopped the query", 0.0)

    def _failed(self, error: BaseException | str, ran_s: float) -> None:
        text = str(error)
        if (difference := misfit(text)) is not None:
            self._refuse(self._around.checkpoints.misfit(self.view.name, difference))
            return
        if (mark := "[STREAMING_REAL_TIME_MODE") in text:
            self._refuse(self._not_possible(brief(text[text.index(mark) :])))
            return
        self._backoff = self._backoff.failed(ran_s)
        if self._around.once and self._backoff.failures >= TRIES_ONCE:
            self.state, self.failed = State.REFUSED, True
            self._event("failed", reason=brief(error))
            self._around.say(f"{self.view.name}: failed: {brief(error)}")
            return
        self._due = self._around.monotonic() + self._backoff.wait_s
        self.state = State.WAITING
        self._event("failed", reason=brief(error), retry_s=self._backoff.wait_s)
        again = f"tried again in {self._backoff.wait_s:.0f} s"
        self._around.say(f"{self.view.name}: failed, {again}: {brief(error)}")

    def _refuse(self, error: PipelineError) -> None:
        self.state, self.failed = State.REFUSED, True
        self._event("refused", reason=brief(error))
        self._around.say(f"{self.view.name}: refused: {brief(error)}")

    def _not_possible(self, reason: str) -> PipelineError:
        """Spark does not take the query: a mistake that no second try mends."""
        view, said = self.view, reason.removeprefix("AnalysisException: ").rstrip(".;")
        if view.speed == REAL_TIME:
            return NotRealTime(
                f"the view {view.name!r} ({view.place}) cannot run at real-time speed: {said}",
                hint="leave out speed= to run it in micro-batches",
            )
        return PipelineError(
            f"the view {view.name!r} ({view.place}) cannot run as a stream: {said}",
            hint="mend the file and run it again",
        )

    def _let_batch_end(self) -> None:
        if self.view.speed == REAL_TIME:
            return  # its batch lasts by the clock, and its rows are out already
        deadline = self._around.monotonic() + STOP_PATIENCE_S
        while self._around.monotonic() < deadline and self._spark_query.isActive:
            status = self._spark_query.status
            if not (status["isTriggerActive"] and status["isDataAvailable"]):
                return
            time.sleep(0.02)  # between two questions

    # ---- telling --------------------------------------------------------------------------------

    def _take_reports(self) -> None:
        for report in self._reports():
            self._gathered.add(report)
            self._position.update(progress.position_of(report))

    def _reports(self) -> list[progress.Report]:
        """The reports that were not seen yet, oldest first."""
        last = self._spark_query.lastProgress
        if last is None:
            return []
        report = json.loads(last.json)
        if report["timestamp"] == self._seen:
            return []
        if self._seen and report["batchId"] == self._gathered.last.get("batchId"):
            new = [report]
        else:
            every = [json.loads(each.json) for each in self._spark_query.recentProgress]
            new = [each for each in every if each["timestamp"] > self._seen]
        self._seen = report["timestamp"]
        return new

    def _tell(self, *, force: bool = False) -> None:
        """Commit the group's offsets, and append a record when it is time for one."""
        try:
            if self._position != self._committed:
                self._around.log.commit(self.view.group, self._position)
                self._committed = dict(self._position)
            since = self._around.monotonic() - self._recorded
            busy = self._gathered.batches > 0 and since >= RECORD_EVERY_S
            if self._gathered.last and (force or busy or since >= HEARTBEAT_S):
                self._record()
            self._complained = False
        except LogUnreachable as error:
            if not self._complained:  # once per outage: the next step tries again
                self._around.say(f"{self.view.name}: cannot report its progress: {brief(error)}")
            self._complained = True

    def _record(self) -> None:
        log, now_ms = self._around.log, self._around.now_ms()
        ends = log.ends(self._position)
        unread = progress.behind(self._position, ends)
        oldest_ms = log.oldest_unread_ms(unread) if unread else None
        lag_ms = 0 if not unread else None if oldest_ms is None else max(0, now_ms - oldest_ms)
        said = progress.record(
            self._gathered,
            query=self.view.name,
            to=self.view.to,
            at_ms=now_ms,
            lag_records=progress.lag_of(self._position, ends) if self._position else None,
            lag_ms=lag_ms if self._position else None,
            dead_letter_rows=self._count_letters(),
            position=self._position,
        )
        log.publish(progress.TOPIC, self.view.name, said)
        self._gathered = progress.Gathered(last=self._gathered.last)
        self._recorded = self._around.monotonic()

    def _count_letters(self) -> int | None:
        if self._letters is None:
            return None
        counted, self._letters = self._around.log.count(self._letters)
        return counted

    def _event(self, kind: str, **more: object) -> None:
        now_ms = self._around.now_ms()
        said = progress.event(kind, query=self.view.name, to=self.view.to, at_ms=now_ms, **more)
        self._around.log.publish(progress.TOPIC, self.view.name, said)
