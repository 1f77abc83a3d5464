"""One Spark application for all views of the given files: what `headwater run` does.

Called by the command. Mistakes come first, each as a sentence: in the files, before Spark is started; in
the queries and their topics, before any of them runs. Then `running` keeps them running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.pipelines import progress
from headwater.pipelines.building import Built, build
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.connector import Connector, connector_for
from headwater.pipelines.context import Context
from headwater.pipelines.declared import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.loading import load, modules_of, read
from headwater.pipelines.lock import hold
from headwater.pipelines.log import Log
from headwater.pipelines.query import Query, Surroundings
from headwater.pipelines.running import run_always, run_once, stop_signals
from headwater.pipelines.session import require_pyspark, session
from headwater.pipelines.targets import target_of, topic_of
from headwater.pipelines.tuning import tune

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def run(order: Order, say: Callable[[str], None]) -> int:
    """Run every view of the files until told to stop; returns the exit code."""
    require_pyspark()
    sources = read(order.paths)
    log = Log(order.bootstrap, order.client)
    known = log.topics()
    connector = connector_for(sources, order.remote)
    spark = _session(order, connector)
    try:
        views = load(sources)
        for view in views:
            target_of(view)
            connector.admit(view)
        _carry_functions(order.paths)
        checkpoints = Checkpoints(order.checkpoints, spark, remote=order.remote is not None)
        lock = hold(spark, Path(checkpoints.root)) if checkpoints.is_local else None
        around = Surroundings(
            build=lambda view: build(view, _context(order, spark, view, checkpoints)),
            tune=lambda built: tune(spark, built, checkpoints),
            checkpoints=checkpoints,
            log=log,
            say=say,
            once=order.once,
            alive=lambda: not _spark_is_gone(order.remote),
        )
        queries = prepare(views, around, known)
        with stop_signals() as stopped:
            code = (run_once if order.once else run_always)(queries, stopped)
        del lock
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


def _spark_is_gone(remote: str | None) -> bool:
    """Whether the JVM has ended that this process started."""
    if remote is not None:
        return False
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def prepare(views: Sequence[View], around: Surroundings, topics: Mapping[str, int]) -> list[Query]:
    """Build every view, and see that its topics are there; make those that views write to."""
    written = dict.fromkeys(name for view in views if (name := topic_of(view)))
    for topic in written:
        if topic not in topics:
            around.log.ensure_topic(topic, {})
    built = [_built(view, around, {*topics, *written}) for view in views]
    around.log.ensure_topic(progress.TOPIC, progress.TOPIC_CONFIG, partitions=1)
    return [Query(each, around) for each in built]


def _built(view: View, around: Surroundings, topics: Iterable[str]) -> Built:
    built = around.build(view)
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


def _session(order: Order, connector: Connector) -> SparkSession:
    checkpoints = Path(order.checkpoints)
    local = order.remote is None and "://" not in order.checkpoints
    if local:
        checkpoints.mkdir(parents=True, exist_ok=True)
    return session(
        order.master,
        remote=order.remote,
        name="headwater run",
        settings=order.settings,
        jars=connector.jars,
        log_file=(checkpoints / "spark.log").resolve() if local else None,
    )


def _context(order: Order, spark: SparkSession, view: View, checkpoints: Checkpoints) -> Context:
    place = checkpoints.of(view.checkpoint)
    return Context(spark, order.bootstrap, order.client, view.speed, view, checkpoint=place)


def _carry_functions(paths: Iterable[Path]) -> None:
    """Send functions of pipeline files to workers whole: they do not have the files."""
    from pyspark import cloudpickle

    by_value: Any = cloudpickle.register_pickle_by_value
    for module in modules_of(paths):
        by_value(module)
