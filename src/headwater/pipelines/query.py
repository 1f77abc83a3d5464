"""One query of a running application: started, watched, tried again after a failure.

Owned and called by `loop`, from one thread. Spark's own object does the work; this one knows when it is
to be tried again, and has `Telling` say what it did.

    waiting ──start──▶ running ──failure──▶ waiting, longer each time
       │                  │──finished (--once)──▶ finished
       └── a mistake ──▶ refused          stop ──▶ stopped
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from headwater.client.log import Log
from headwater.errors import HeadwaterError
from headwater.pipelines.builder import Built
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.current_version import Following, current_version, follows
from headwater.pipelines.declarations import REAL_TIME, View
from headwater.pipelines.errors import PipelineError, brief, is_away, took_too_long
from headwater.pipelines.mistakes import Backoff, mistake, not_possible
from headwater.pipelines.reporter import Telling
from headwater.pipelines.targets import refuse_leftovers

STOP_PATIENCE_S = 20.0
TRIES_ONCE = 3
"""With --once there is an end to it: whoever waits for the result must hear."""
REAL_TIME_BATCH = "5 seconds"
AWAY_MOST_S = 10.0
FOLLOW_AGAIN_S = 1.0


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
    alive: Callable[[], bool] = lambda: True
    """Whether Spark itself is there."""
    renew: Callable[[View, int], View] = lambda view, version: replace(view, version=version)
    """The view at another version, as its file says it now."""
    current: Callable[[View], int | None] = current_version
    """The version that the query is to run; a rebuild goes on with its own, whatever readers see."""
    hold: Callable[[View], Any | None] = lambda _: nullcontext()
    """Takes a version's checkpoint, which a rebuild may still have (None)."""


class Query:
    """A view that is kept running."""

    def __init__(self, built: Built, around: Surroundings) -> None:
        self.view = built.view
        self.reads = built.reads
        self.state = State.WAITING
        self.failed = False
        self._built: Built | None = built
        self._can_shrink = built.can_shrink
        self._around = around
        self._telling = Telling(built.view, around.log, around.say)
        self._following = Following(built.view, around.current)
        self._held: Any = None
        self._said_held = False
        self._spark_query: Any = None
        self._backoff = Backoff()
        self._due = 0.0
        self._started = 0.0
        self._batches_before = 0
        self._blind = False

    @property
    def batches(self) -> int:
        """Finished so far, as far as they were seen."""
        return self._telling.batches

    def step(self) -> None:
        """Do what is due now; called several times a second, or once where nothing happens."""
        if self.state is not State.FINISHED and (other := self._following.other_version()):
            self._follow(other)
        if self.state is State.WAITING and time.monotonic() >= self._due:
            self._start()
        elif self.state is State.RUNNING:
            try:
                self._look()
                self._blind = False
            except Exception as error:
                if not self._around.alive():
                    raise
                self._unseen(error)

    def _unseen(self, error: Exception) -> None:
        """Spark did not answer, this time: no reason to stop the query, or the others."""
        if not self._blind:
            self._around.say(f"{self.view.name}: cannot be watched: {brief(error)}")
        self._blind = True

    def stop(self) -> None:
        """Let the batch at hand end, then stop, and tell how far it came."""
        self._halt()
        self._following.close()
        if self.state not in ENDED:
            self.state = State.STOPPED
            self._telling.event("stopped")

    def _halt(self) -> None:
        if self.state is State.RUNNING:
            self._let_batch_end()
            self._spark_query.stop()
            self._telling.take(self._spark_query)
            self._telling.tell(force=True)
        if self._held is not None and hasattr(self._held, "release"):
            self._held.release()
        self._held = None

    def _follow(self, version: int) -> None:
        """Readers see another version now: go on with that one."""
        self._halt()
        self._telling.event("stopped", version=self.view.version)
        self.state, self._due = State.WAITING, time.monotonic() + FOLLOW_AGAIN_S
        try:
            self.view = self._around.renew(self.view, version)
        except HeadwaterError as error:
            self._around.say(
                f"{self.view.name}: cannot go on with version {version}: {brief(error)}"
            )
            return
        self._around.say(f"{self.view.name}: goes on with version {version}, which readers see now")
        self._following.close()
        self._following = Following(self.view, self._around.current)
        self._telling = Telling(self.view, self._around.log, self._around.say)
        self._built, self._backoff, self._due = None, Backoff(), 0.0

    # ---- starting -------------------------------------------------------------------------------

    def _start(self) -> None:
        if self.view.version > 1 and not self._hold():
            return
        try:
            # It was built before any query ran: what is wrong with it now may pass.
            built, self._built = self._built or self._build(), None
        except Exception as error:
            self._failed(error)
            return
        from pyspark.errors import AnalysisException

        try:
            self._admit(built)
            self._around.tune(built)
            self._spark_query = self._configured(built).start()
        except PipelineError as error:
            self._refuse(error)
        except AnalysisException as error:
            self._refuse(not_possible(self.view, brief(error)))
        except Exception as error:
            self._failed(error)
        else:
            self.state = State.RUNNING
            self._started, self._batches_before = time.monotonic(), self._telling.batches
            self._telling.event("started", run_id=str(self._spark_query.runId))
            self._around.say(f"{self.view.name}: running, to {self.view.where}")

    def _build(self) -> Built:
        return self._around.build(self._around.checkpoints.with_limit(self.view))

    def _hold(self) -> bool:
        if self._held is None:
            self._held = self._around.hold(self.view)
        if self._held is None:
            if not self._said_held:
                self._around.say(f"{self.view.name}: waits for headwater rebuild to let go of it")
            self._said_held, self._due = True, time.monotonic() + FOLLOW_AGAIN_S
        return self._held is not None

    def _admit(self, built: Built) -> None:
        checkpoints = self._around.checkpoints
        if checkpoints.is_new(self.view.checkpoint):
            refuse_leftovers(self.view)
        checkpoints.admit(self.view.checkpoint, built.shape)
        if built.dead_letters is not None:
            self._telling.count_letters_of(built.dead_letters)

    def _configured(self, built: Built) -> Any:
        name = self.view.checkpoint
        writer = built.writer.queryName(name).outputMode(built.mode)
        writer = writer.option("checkpointLocation", self._around.checkpoints.of(name))
        writer = writer.options(**self.view.options)
        if self.view.speed == REAL_TIME:
            return writer.outputMode("update").trigger(realTime=REAL_TIME_BATCH)
        if self._around.once:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=self.view.every or "0 seconds")

    # ---- watching -------------------------------------------------------------------------------

    def _look(self) -> None:
        active = self._spark_query.isActive
        self._telling.take(self._spark_query)
        self._telling.tell(force=not active)
        if active:
            return
        error = self._spark_query.exception()
        if error is not None:
            ran_s = time.monotonic() - self._started
            self._failed(error, ran_s, self._telling.batches - self._batches_before)
        elif self._around.once:
            self.state = State.FINISHED
            self._telling.event("finished")
        else:
            self._failed("somebody stopped the query")

    def _failed(self, error: BaseException | str, ran_s: float = 0.0, batches: int = 0) -> None:
        if isinstance(error, BaseException) and not self._around.alive():
            raise error  # no query can be started again
        refusal = mistake(self.view, self._around.checkpoints, str(error))
        if refusal is not None:
            other = self._around.current(self.view) if follows(self.view) else None
            if other is not None and other != self.view.version:
                self._follow(other)  # it was dropped, or its successor has taken over
            else:
                self._refuse(refusal)
            return
        if took_too_long(str(error)) and self._shrink():
            self._telling.event("failed", reason=brief(error), retry_s=0.0)
            self.state, self._due = State.WAITING, 0.0
            return
        self._backoff = self._backoff.failed(ran_s, batches=batches)
        if self._around.once and self._backoff.failures >= TRIES_ONCE:
            self.state, self.failed = State.REFUSED, True
            self._telling.event("failed", reason=brief(error))
            self._around.say(f"{self.view.name}: failed: {brief(error)}")
            return
        wait_s = self._backoff.wait_s
        if is_away(str(error)):
            wait_s = min(wait_s, AWAY_MOST_S)  # it comes back by itself: see that soon
        self._due = time.monotonic() + wait_s
        self.state = State.WAITING
        self._telling.event("failed", reason=brief(error), retry_s=wait_s)
        self._around.say(f"{self.view.name}: failed, tried again in {wait_s:.0f} s: {brief(error)}")

    def _shrink(self) -> bool:
        """Plan the batch that took too long anew, half as large; False where that cannot be.

        Replayed as it was, it would take too long for ever: Spark has written down where it ends.
        """
        if not self._can_shrink:
            return False
        records = self._around.checkpoints.forget_batch(self.view.checkpoint)
        known = self.view.batch_records_max
        smaller = 0 if records is None else min(records, known or records) // 2
        if smaller < 1:
            return False
        self.view = replace(self.view, batch_records_max=smaller)
        self._around.checkpoints.keep_limit(self.view.checkpoint, smaller)
        self._around.say(
            f"{self.view.name}: a batch of {records} records took longer than its transaction may; goes "
            f"on with {smaller} at a time (batch_records_max of [pipelines] or --batch-records-max say "
            "so from the start)"
        )
        return True

    def _refuse(self, error: PipelineError) -> None:
        self.state, self.failed = State.REFUSED, True
        self._telling.event("refused", reason=brief(error))
        self._around.say(f"{self.view.name}: refused: {brief(error)}")

    def _let_batch_end(self) -> None:
        if self.view.speed == REAL_TIME:
            return  # its batch lasts by the clock, and its rows are out already
        deadline = time.monotonic() + STOP_PATIENCE_S
        while time.monotonic() < deadline and self._spark_query.isActive:
            status = self._spark_query.status
            if not (status["isTriggerActive"] and status["isDataAvailable"]):
                return
            time.sleep(0.02)  # between two questions
