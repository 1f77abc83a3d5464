"""One Spark application for all views of the given files: what `headwater run` does.

Called by the command. Mistakes come first, each as a sentence: in the files, before Spark is started; in
the queries and their topics, before any of them runs. Then `loop` keeps them running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.log import Log
from headwater.pipelines import progress
from headwater.pipelines.builder import Built, build
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.class_archive import Maker
from headwater.pipelines.context import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Context, Wanted
from headwater.pipelines.current_version import at_current_version
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.handles import placed
from headwater.pipelines.launch import session_for
from headwater.pipelines.loader import imported_meanwhile, load, load_again, modules_of, read
from headwater.pipelines.lock import hold, try_hold
from headwater.pipelines.loop import run_always, run_once, stop_signals
from headwater.pipelines.maven import connector_for
from headwater.pipelines.query import Query
from headwater.pipelines.query_context import QueryContext
from headwater.pipelines.query_settings import tune
from headwater.pipelines.registry import awaited
from headwater.pipelines.session import require_pyspark
from headwater.pipelines.targets import writer_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TOPIC_LOOK_S = 0.5


@dataclass(frozen=True)
class Order:
    """What `headwater run` was told."""

    paths: tuple[Path, ...]
    bootstrap: str
    checkpoints: str
    master: str | None = None
    remote: str | None = None
    once: bool = False
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Kafka client (security)."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """View's name → `to`, in place of what its file says."""
    wait_for_topics: bool = False
    """Whether a topic that is not there yet is waited for."""
    batch_records_max: int = BATCH_RECORDS_MAX
    """Of one batch of a query."""
    batch_bytes_max: int = BATCH_BYTES_MAX
    wanted: Callable[[str], Wanted] = lambda _: Wanted()


Beside = Callable[[Order, "SparkSession"], AbstractContextManager[object]]


def run(order: Order, say: Callable[[str], None], beside: Beside = lambda *_: nullcontext()) -> int:
    """Run every view of the files until told to stop; returns the exit code.

    `beside`: what goes on as long as the queries run, where they have a local folder to themselves.
    """
    require_pyspark()
    sources = read(order.paths)
    log = Log(order.bootstrap, order.client)
    known = log.topics()
    connector = connector_for(sources, order.remote)
    with imported_meanwhile(sources):
        spark = session_for(order, connector)
    try:
        views = [at_current_version(view) for view in placed(load(sources), order.targets)]
        for view in views:
            writer_of(view)
            connector.admit(view)
        carry_functions(order.paths)
        checkpoints = Checkpoints(order.checkpoints, spark, remote=order.remote is not None)
        lock = hold(spark, Path(checkpoints.root)) if checkpoints.is_local else None
        around = _shared_by_queries(order, spark, checkpoints, log, say)
        with stop_signals() as stopped:
            queries = prepare(views, around, known, stopped if order.wait_for_topics else None)
            archive = Maker(order.master, lasts=not (order.once or order.remote))
            with beside(order, spark) if lock is not None else nullcontext(), archive:
                code = (run_once if order.once else run_always)(queries, stopped)
        if lock is not None:
            lock.release()  # a notebook's Java goes on without us
        return code
    except Exception as error:
        if _spark_is_gone(order.remote):
            raise PipelineError(
                "Spark's own process has ended",
                hint=f"see {order.checkpoints}/spark.log; what was committed is safe: run it again",
            ) from error
        raise
    finally:
        log.close()
        with suppress(Exception):  # where Spark has ended there is nothing to stop
            spark.stop()


def _shared_by_queries(
    order: Order,
    spark: SparkSession,
    checkpoints: Checkpoints,
    log: Log,
    say: Callable[[str], None],
) -> QueryContext:
    return QueryContext(
        build=lambda view: build(view, _context(order, spark, view, checkpoints)),
        tune=lambda built: tune(spark, built, checkpoints),
        checkpoints=checkpoints,
        log=log,
        say=say,
        once=order.once,
        alive=lambda: not _spark_is_gone(order.remote),
        renew=lambda view, version: _renewed(order, view, version),
        hold=lambda view: _held(spark, checkpoints, view),
        wanted=order.wanted,
    )


def _spark_is_gone(remote: str | None) -> bool:
    """Whether the JVM has ended that this process started."""
    if remote is not None:
        return False
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def prepare(
    views: Sequence[View],
    around: QueryContext,
    topics: Mapping[str, int],
    waiting: threading.Event | None = None,
) -> list[Query]:
    """Build every view, and see that its topics are there; make those that views write to.

    With `waiting`, a topic that is missing is waited for, until that event ends it.
    """
    written = dict.fromkeys(name for view in views if (name := view.topic))
    for topic in written.keys() - topics.keys():
        around.log.ensure_topic(topic, {})
    known = {*topics, *written}
    built = []
    for view in views:
        limited = around.checkpoints.with_limit(view)
        made = awaited(partial(around.build, limited), view.name, around.say, waiting)
        if made is None:
            return []
        known = _wait_for_topics(made, around, known, waiting) if waiting else known
        if waiting is not None and waiting.is_set():
            return []
        built.append(_admitted(made, known))
    around.log.ensure_topic(progress.TOPIC, progress.TOPIC_CONFIG, partitions=1)
    return [Query(each, around) for each in built]


def _wait_for_topics(
    built: Built, around: QueryContext, known: set[str], stopped: threading.Event
) -> set[str]:
    missing = [topic for topic in built.reads if topic not in known]
    if missing:
        around.say(f"{built.view.name}: waits for the topic {', '.join(missing)}")
    while any(topic not in known for topic in missing) and not stopped.wait(TOPIC_LOOK_S):
        known = known | around.log.topics().keys()
    return known


def _admitted(built: Built, topics: Iterable[str]) -> Built:
    view = built.view
    for topic in built.reads:
        if topic not in topics:
            near = get_close_matches(topic, topics, 1)
            raise PipelineError(
                f"the view {view.name!r} ({view.place}) reads the topic {topic!r}, which is not there",
                hint=f"did you mean {near[0]!r}?"
                if near
                else f"create it with: headwater topics create {topic}",
            )
    return built


def _renewed(order: Order, view: View, version: int) -> View:
    """The view as its file says it now, at another version."""
    found = {each.name: each for each in placed(load_again(order.paths), order.targets)}
    if view.name not in found:
        raise PipelineError(f"the view {view.name!r} is not declared any more")
    carry_functions(order.paths)
    return replace(found[view.name], version=version)


def _held(spark: SparkSession, checkpoints: Checkpoints, view: View) -> Any | None:
    """The lock of a version's own checkpoint; None while `headwater rebuild` has it."""
    if not checkpoints.is_local:
        return nullcontext()
    return try_hold(spark, Path(checkpoints.of(view.checkpoint)))


def _context(order: Order, spark: SparkSession, view: View, checkpoints: Checkpoints) -> Context:
    return Context(
        spark,
        order.bootstrap,
        order.client,
        view.speed,
        view,
        checkpoint=checkpoints.of(view.checkpoint),
        batch_records_max=order.batch_records_max,
        batch_bytes_max=order.batch_bytes_max,
    )


def carry_functions(paths: Iterable[Path]) -> None:
    """Send functions of pipeline files to workers whole: they do not have the files."""
    from pyspark import cloudpickle

    by_value: Any = cloudpickle.register_pickle_by_value
    for module in modules_of(paths):
        by_value(module)
