"""One query of a running application: started, watched, tried again after a failure.

Owned and called by `loop`, from one thread. Spark's own object does the work; this one knows when it is
to be tried again, and has `Reporter` say what it did.

    waiting ──start──▶ running ──failure──▶ waiting, longer each time
       │                  │──finished (--once)──▶ finished
       └── a mistake ──▶ refused          stop ──▶ stopped      paused ──▶ resumed, restarted: waiting
"""

from __future__ import annotations

import enum
import time
from dataclasses import replace
from typing import Any

from headwater.errors import HeadwaterError
from headwater.pipelines import query_settings
from headwater.pipelines.builder import Built
from headwater.pipelines.context import Wanted
from headwater.pipelines.current_version import Following, follows
from headwater.pipelines.errors import PipelineError, brief, is_away, schema_moved, took_too_long
from headwater.pipelines.evolution import Evolution
from headwater.pipelines.mistakes import Backoff, mistake, not_possible
from headwater.pipelines.query_context import QueryContext
from headwater.pipelines.reporter import Reporter
from headwater.pipelines.targets import make_place

TRIES_ONCE = 3
"""With --once there is an end to it: whoever waits for the result must hear."""
AWAY_MOST_S = 10.0
FOLLOW_AGAIN_S = 1.0


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    REFUSED = "refused"
    FINISHED = "finished"
    STOPPED = "stopped"


ENDED = (State.REFUSED, State.FINISHED, State.STOPPED)


class Query:
    """A view that is kept running."""

    def __init__(self, built: Built, around: QueryContext) -> None:
        self.view = built.view
        self.reads = built.reads
        self.state = State.WAITING
        self.failed = False
        self._built: Built | None = built
        self._can_shrink = built.can_shrink
        self._schema_moved = False
        self._around = around
        self._reporter = Reporter(built.view, around.log, around.say)
        self._following = Following(built.view, around.current)
        self._held: Any = None
        self._said_held = False
        self._spark_query: Any = None
        self._backoff = Backoff()
        self._due = 0.0
        self._started = 0.0
        self._batches_before = 0
        self._blind = False
        self._restarts = around.wanted(built.view.name).restarts

    @property
    def batches(self) -> int:
        """Finished so far, as far as they were seen."""
        return self._reporter.batches

    def step(self) -> None:
        """Do what is due now; called several times a second, or once where nothing happens."""
        if self._is_paused(self._around.wanted(self.view.name)):
            return
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

    def _is_paused(self, wanted: Wanted) -> bool:
        """After what somebody wants of it: that it stands still, goes on, or starts anew."""
        restarts, self._restarts = wanted.restarts - self._restarts, wanted.restarts
        was, by = self.state, wanted.paused_by
        if was in (State.FINISHED, State.STOPPED) or not (by or restarts or was is State.PAUSED):
            return False
        if by and was is State.PAUSED:
            return True
        self._halt()
        self.state, self.failed = State.PAUSED if by else State.WAITING, False
        self._built, self._backoff, self._due = None, Backoff(), 0.0
        said = "paused" if by else "restarted" if restarts else "resumed"
        self._reporter.event(said, **({"by": by} if by else {}))
        self._around.say(f"{self.view.name}: {said}{f' by {by}' if by else ''}")
        return bool(by)

    def _unseen(self, error: Exception) -> None:
        """Spark did not answer, this time: no reason to stop the query, or the others."""
        if not self._blind:
            self._around.say(f"{self.view.name}: cannot be watched: {brief(error)}")
        self._blind = True

    def stop(self) -> None:
        """Let the batch at hand end, then stop, and tell how far it came; for a process that ends."""
        self._halt(for_good=True)
        self._following.close()
        if self.state not in ENDED:
            self.state = State.STOPPED
            self._reporter.event("stopped")

    def ask_to_stop(self) -> None:
        """Begin no further batch; `stop` waits for the one at hand."""
        query_settings.ask_to_stop(self._spark_query)

    def _halt(self, *, for_good: bool = False) -> None:
        if self.state is State.RUNNING:
            query_settings.stop(self._spark_query, self.view, for_good=for_good)
            self._reporter.take(self._spark_query)
            self._reporter.tell(force=True)
        if self._held is not None and hasattr(self._held, "release"):
            self._held.release()
        self._held = None

    def _follow(self, version: int) -> None:
        """Readers see another version now: go on with that one."""
        self._halt()
        self._reporter.event("stopped", version=self.view.version)
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
        self._reporter = Reporter(self.view, self._around.log, self._around.say)
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
            if self._schema_moved:
                self._look_at_schemas(built.evolution)
                return
            self._admit(built)
            self._around.tune(built)
            self._spark_query = query_settings.configured(built, self.view, self._around).start()
        except PipelineError as error:
            self._refuse(error)
        except AnalysisException as error:
            self._refuse(not_possible(self.view, brief(error)))
        except Exception as error:
            self._failed(error)
        else:
            self.state = State.RUNNING
            self._started, self._batches_before = time.monotonic(), self._reporter.batches
            self._reporter.event("started", run_id=str(self._spark_query.runId))
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
        checkpoints, name = self._around.checkpoints, self.view.checkpoint
        if checkpoints.is_new(name):
            make_place(self.view)
        checkpoints.admit(name, built.shape, evolves=built.evolution.changes_state)
        built.evolution.carry_out(lambda: checkpoints.note(name, built.shape))
        if built.dead_letters is not None:
            self._reporter.count_letters_of(built.dead_letters)

    # ---- watching -------------------------------------------------------------------------------

    def _look(self) -> None:
        active = self._spark_query.isActive
        self._reporter.take(self._spark_query)
        self._reporter.tell(force=not active)
        if active:
            return
        error = self._spark_query.exception()
        if error is not None:
            ran_s = time.monotonic() - self._started
            self._failed(error, ran_s, self._reporter.batches - self._batches_before)
        elif self._around.once:
            self.state = State.FINISHED
            self._reporter.event("finished")
        else:
            self._failed("somebody stopped the query")

    def _failed(self, error: BaseException | str, ran_s: float = 0.0, batches: int = 0) -> None:
        if isinstance(error, BaseException) and not self._around.alive():
            raise error  # no query can be started again
        if schema_moved(str(error)):
            self._schema_moved, self.state, self._due = True, State.WAITING, 0.0
            return
        refusal = mistake(self.view, self._around.checkpoints, str(error))
        if refusal is not None:
            other = self._around.current(self.view) if follows(self.view) else None
            if other is not None and other != self.view.version:
                self._follow(other)  # it was dropped, or its successor has taken over
            else:
                self._refuse(refusal)
            return
        if took_too_long(str(error)) and self._shrink():
            self._reporter.event("failed", reason=brief(error), retry_s=0.0)
            self.state, self._due = State.WAITING, 0.0
            return
        self._backoff = self._backoff.failed(ran_s, batches=batches)
        if self._around.once and self._backoff.failures >= TRIES_ONCE:
            self.state, self.failed = State.REFUSED, True
            self._reporter.event("failed", reason=brief(error))
            self._around.say(f"{self.view.name}: failed: {brief(error)}")
            return
        wait_s = self._backoff.wait_s
        if is_away(str(error)):
            wait_s = min(wait_s, AWAY_MOST_S)  # it comes back by itself: see that soon
        self._due = time.monotonic() + wait_s
        self.state = State.WAITING
        self._reporter.event("failed", reason=brief(error), retry_s=wait_s)
        self._around.say(f"{self.view.name}: failed, tried again in {wait_s:.0f} s: {brief(error)}")

    def _look_at_schemas(self, evolution: Evolution) -> None:
        """Columns may have come or gone: decide what becomes of the view, and start it at the next step."""
        said = evolution.decide()
        self._around.say(f"{self.view.name}: {said}")
        self._reporter.event("schema", reason=said)
        self._schema_moved, self._due = False, 0.0

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
        self._reporter.event("refused", reason=brief(error))
        self._around.say(f"{self.view.name}: refused: {brief(error)}")
