"""Where a view's result can live: SCHEME:REST to a writer that Spark can start.

Called while a view is built. `views.targets.registry` knows every scheme; here are the sinks, to which Spark
writes itself: each gets the built query and returns Spark's DataStreamWriter, with format and options
set; the runner adds name, mode, trigger and checkpoint. All other schemes are stores (sqlite:,
postgresql://, …), which `stores` writes to.

    topic:NAME      a topic of the log, exactly once
    parquet:PATH    files that Spark writes, exactly once
    memory:         a table in the driver with the view's name, for trying
    console:        the terminal, for trying
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwater.local_path import local_path
from headwater.pipelines import stores, stream_views
from headwater.pipelines.cluster import must_be_seen
from headwater.pipelines.declarations import REAL_TIME, View, in_store
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.rows import Result as Result
from headwater.pipelines.rows import as_records
from headwater.pipelines.stream_views import CLIENT_ID, client_id
from headwater.views import batch_name
from headwater.views.targets import registry
from headwater.views.targets.contract import Misfit
from headwater.views.targets.version_folders import FILES_OF_SPARK, must_be_outside

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


Write = Callable[[Result], Any]
"""From a built query to Spark's DataStreamWriter, which PySpark does not type."""


def target_of(view: View) -> tuple[Write, str]:
    """What writes a view to where it names, and the rest of that name."""
    rest = view.to.partition(":")[2]
    if in_store(view):
        return stores.writer_of, rest
    sink = registry.sink_for(view.to)
    if sink is None:
        known = ", ".join(f"{name}:" for name in registry.schemes())
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) goes to {view.where!r}, which names no target",
            hint=f"use one of {known}, as in to='topic:{view.name}'",
        )
    return sink, rest


def topic_of(view: View) -> str | None:
    """The topic that a view writes to, if it does."""
    scheme, _, rest = view.to.partition(":")
    return rest if scheme == "topic" else None


def refuse_leftovers(view: View) -> None:
    """A query that starts over must not meet files of its earlier life, as Spark would skip its batches;
    nor those of another view or of anybody else, which readers of the folder would take for its own."""
    scheme, _, rest = view.to.partition(":")
    folder = local_path(rest)
    if scheme != "parquet" or folder is None:
        return
    named = f"the view {view.name!r} ({view.place}) starts over, and"
    if (folder / FILES_OF_SPARK).exists():
        raise PipelineError(
            f"{named} {rest} has files of a query before it",
            hint=f"move them away: mv {rest} {rest}.old",
        )
    try:
        must_be_outside(folder)
    except Misfit as error:
        raise PipelineError(f"{named} {error.args[0]}", hint=error.hint) from error
    if folder.is_dir() and any(not each.name.startswith(".") for each in folder.iterdir()):
        raise PipelineError(
            f"{named} {rest} has files that are not its own", hint="name an empty folder"
        )


def to_topic(result: Result) -> Any:
    _require_rest(result, "a topic", "topic:orders")
    records = as_records(result.frame, result.view, updates=result.updates)
    options = stores.sink_options(result)
    if result.context.speed == REAL_TIME:
        # Real-time mode takes no Python sink: there, Spark's connector writes, at least once.
        return records.writeStream.format("kafka").options(**options)
    if not result.updates:
        by_driver = stream_views.writer_of(
            result, lambda: TopicOutput(result.view, options, records.schema)
        )
        if by_driver is not None:
            return by_driver
        return records.writeStream.format("headwater").options(**options)

    checkpoint = result.context.checkpoint

    # Spark gives a Python sink no rows that change; a batch of them it does. The sink knows which
    # query and batch it is at, so this is exactly once as well.
    def write(batch: DataFrame, number: int) -> None:
        named = batch_name.options_for(batch.sparkSession, checkpoint, number)
        writer = batch.write.format("headwater").mode("append")
        writer.options(**options, **named).save()

    return records.writeStream.foreachBatch(write)


class TopicOutput:
    """A view of a stream in a topic; the sink knows a batch that it has."""

    def __init__(self, view: View, options: Mapping[str, str], row: StructType) -> None:
        from headwater.spark.sink.driver import DriverSink

        named = {CLIENT_ID: client_id(options, f"{view.name}-sink")}
        self._view, self._sink = view, DriverSink({**options, **named}, row)

    def is_due(self, batch: int, spark: SparkSession) -> bool:
        return True

    def arranged(self, rows: DataFrame) -> DataFrame:
        return as_records(rows, self._view, updates=False)

    def warm_up(self, none: pa.Table | None) -> None:
        if none is not None:
            self._sink.warm_up(none)

    def take_few(
        self, rows: pa.Table, batch: int, spark: SparkSession, again: Callable[[], DataFrame]
    ) -> None:
        self._sink.write_few(rows, spark)

    def take(self, rows: DataFrame, batch: int, spark: SparkSession) -> None:
        self._sink.write_many(self.arranged(rows))

    def close(self) -> None:
        self._sink.close()


def to_parquet(result: Result) -> Any:
    _require_rest(result, "a folder", "parquet:data/orders")
    view = result.view
    if (folder := local_path(result.rest)) is not None:
        must_be_seen(
            result.context.spark,
            folder,
            f"executors write the files of the view {view.name!r} ({view.place}) to",
            "name a folder that all machines see, or an address of shared storage",
        )
    return result.frame.writeStream.format("parquet").option("path", result.rest)


def to_memory(result: Result) -> Any:
    return result.frame.writeStream.format("memory")


def to_console(result: Result) -> Any:
    return result.frame.writeStream.format("console").option("truncate", "false")


def _require_rest(result: Result, what: str, example: str) -> None:
    if not result.rest:
        raise PipelineError(
            f"the view {result.view.name!r} ({result.view.place}) does not say {what}",
            hint=f"write to={example!r}",
        )
