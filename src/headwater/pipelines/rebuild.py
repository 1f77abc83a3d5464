"""A new version of a view, built from the log's beginning beside the one that serves; then the switch.

Called by `headwater rebuild`: an application of its own, beside `headwater run`, with one query. The new
version has its own checkpoint, ROOT/NAME@N, which this process locks; `headwater run` takes it over once
readers see that version.

    build      from the first record on, until it is as far as the version that readers see
    hand over  the serving query pauses (`views.operate.pause`), the new one passes it, stops; switch
    follow     headwater run sees the switch, and goes on with the new version

With `--no-switch` both go on side by side until somebody switches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.log import Log
from headwater.client.position import Position
from headwater.pipelines import application
from headwater.pipelines.builder import build
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.control import Audience
from headwater.pipelines.current_version import note, number_for
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.handles import handle
from headwater.pipelines.loader import Source
from headwater.pipelines.lock import try_hold
from headwater.pipelines.loop import STEP_S, stop_signals
from headwater.pipelines.query import ENDED, Query
from headwater.pipelines.query_context import QueryContext
from headwater.pipelines.query_settings import tune
from headwater.pipelines.view_job import view_job
from headwater.views.operate import verification_log
from headwater.views.operate.pause import held
from headwater.views.operate.versions import versions_of
from headwater.views.targets.contract import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEAR = 1000
"""Records behind the log's end at which the last step, with its pause, begins."""
HAND_OVER_S = 45.0
LOOK_AGAIN_S = 5.0
"""Without a batch meanwhile."""
DONE, FAILED = 0, 1


@dataclass
class Rebuilding:
    """One rebuild under way."""

    query: Query
    target: Target
    """Of the new version."""
    serving: View
    """The version that readers see."""
    checkpoint: Path | None
    """Of the serving version's query, where it is on this machine."""
    log: Log
    audience: Audience
    stopped: threading.Event
    _looked: tuple[int, float] = (-1, 0.0)
    """After how many batches, and when, it was asked how far the new version is."""

    def run(self, *, switch: bool) -> int:
        """Build; then switch, or go on until somebody does."""
        if not self._step_until(self._is_near):
            if self.stopped.is_set():
                self.audience.say("stopped; the same command goes on from here")
            return FAILED
        if switch:
            return self._hand_over()
        self.audience.say(
            f"version {self.query.view.version} is up to date and goes on beside version "
            f"{self.serving.version}; readers see it after: headwater rebuild "
            f"{self.query.view.name} --switch"
        )
        version = self.query.view.version
        seen = self._step_until(lambda: self.target.current() == version)
        self.query.stop()
        if seen:
            self.audience.say(f"readers see version {version} now; headwater run goes on with it")
        return DONE

    def _step_until(self, done: Callable[[], bool]) -> bool:
        """Step the query until that is so; False if it ended, or somebody stopped us, before."""
        while not self.stopped.is_set() and self.query.state not in ENDED:
            self.query.step()
            if done():
                return True
            self.stopped.wait(STEP_S)
        self.query.stop()
        return False

    def _is_near(self) -> bool:
        if not self._is_time_to_look():
            return False
        reached, end = self._position(), self._end()
        total = Position().behind(end)
        left = reached.behind(end)
        self.audience.progress(total - left, total)
        return bool(reached.offsets) and (left <= NEAR or reached.covers(self._serving_at()))

    def _is_time_to_look(self) -> bool:
        """Each look opens both versions' stores, one of which is being filled: only a batch moves it."""
        now, (batches, at) = time.monotonic(), self._looked
        if self.query.batches == batches and now - at < LOOK_AGAIN_S:
            return False
        self._looked = self.query.batches, now
        return True

    def _hand_over(self) -> int:
        """Let the new version pass the serving one while that one pauses, and show it to readers."""
        deadline = time.monotonic() + HAND_OVER_S
        with ExitStack() as pause:
            if self.checkpoint is not None and self.checkpoint.is_dir():
                pause.enter_context(held(self.checkpoint))
            passed = self._step_until(
                lambda: self._position().covers(self._serving_at()) or time.monotonic() > deadline
            )
            if not passed:
                return FAILED
            self.query.stop()
            if not self._position().covers(self._serving_at()):
                raise PipelineError(
                    f"version {self.query.view.version} of the view {self.query.view.name!r} does not "
                    f"catch up with version {self.serving.version}",
                    hint="rebuild goes on where it stopped: run it again, or with --no-switch",
                )
            lost = self.target.switch() or ()
        for each in lost:
            self.audience.say(f"not carried over: {each}")
        self.audience.say(
            f"readers see version {self.query.view.version} now; version {self.serving.version} is "
            f"kept: --back returns to it, --drop removes it"
        )
        return DONE

    def _position(self) -> Position:
        applied = self.target.applied()
        return Position() if applied is None else applied.position

    def _serving_at(self) -> Position:
        applied = handle(self.serving).version(self.serving.version).applied()
        return Position() if applied is None else applied.position

    def _end(self) -> Position:
        counts = self.log.topics()
        places = [(t, p) for t in self.query.reads for p in range(counts.get(t, 0))]
        offsets: dict[str, dict[int, int]] = {}
        for (topic, partition), end in self.log.ends(places).items():
            offsets.setdefault(topic, {})[partition] = end
        return Position(offsets)


def rebuild(
    order: application.Order,
    name: str,
    audience: Audience,
    *,
    switch: bool = True,
    targets: Mapping[str, str] | None = None,
) -> int:
    """Build the next version of a view, or go on with one that was begun; returns the exit code."""
    with view_job(order, name, targets) as job, stop_signals() as stopped:
        return rebuilt(order, *job, audience, stopped, switch=switch)


def rebuilt(
    order: application.Order,
    spark: SparkSession,
    view: View,
    sources: Sequence[Source],
    audience: Audience,
    stopped: threading.Event,
    *,
    switch: bool = True,
) -> int:
    """As `rebuild`, with a session that is there and a view that is loaded."""
    text = next((s.text for s in sources if _is_in(view, s.path)), "")
    log = Log(order.bootstrap, order.client)
    try:
        known = log.topics()
        checkpoints = Checkpoints(order.checkpoints, spark, remote=order.remote is not None)
        versions = versions_of(handle(view))
        fresh = replace(view, version=number_for(versions, view, text, checkpoints))
        audience.say(
            f"building version {fresh.version} of {view.name} in {view.where}; readers see version "
            f"{versions.current}"
        )
        if fresh.version not in versions.known and verification_log.TOPIC in known:
            client = {**order.client, "bootstrap.servers": order.bootstrap}
            # One of this number may have been dropped.
            verification_log.forget(client, view.name, fresh.version)
        with _locked(spark, checkpoints, fresh):
            note(checkpoints, fresh, text)
            around = _context_of(order, spark, checkpoints, log, audience)
            (query,) = application.prepare([fresh], around, known)
            serving = replace(view, version=versions.current)
            return Rebuilding(
                query=query,
                target=handle(fresh).version(fresh.version),
                serving=serving,
                checkpoint=Path(checkpoints.of(serving.checkpoint))
                if checkpoints.is_local
                else None,
                log=log,
                audience=audience,
                stopped=stopped,
            ).run(switch=switch)
    finally:
        log.close()


def _context_of(
    order: application.Order,
    spark: SparkSession,
    checkpoints: Checkpoints,
    log: Log,
    audience: Audience,
) -> QueryContext:
    return QueryContext(
        build=lambda view: build(view, application._context(order, spark, view, checkpoints)),
        tune=lambda built: tune(spark, built, checkpoints),
        checkpoints=checkpoints,
        log=log,
        say=audience.say,
        current=lambda view: view.version,
    )


@contextmanager
def _locked(spark: SparkSession, checkpoints: Checkpoints, view: View) -> Iterator[None]:
    if not checkpoints.is_local:
        yield
        return
    lock: Any = try_hold(spark, Path(checkpoints.of(view.checkpoint)))
    if lock is None:
        raise PipelineError(
            f"somebody builds version {view.version} of the view {view.name!r} already",
            hint="wait for its end, or stop it",
        )
    try:
        yield
    finally:
        lock.release()


def _is_in(view: View, path: Path) -> bool:
    return Path(view.function.__code__.co_filename) == path.resolve()
