"""Where Spark itself writes a view: targets of which each gives the writer that Spark can start.

Called while a view is built, found by `views.targets.registry` under their names. What they give is Spark's
DataStreamWriter, with format and options set; the runner adds name, mode, trigger and checkpoint. All other
targets are stores (sqlite:, postgresql://, …), which `stores` writes to.

    topic:NAME      a topic of the log, exactly once
    parquet:PATH    files that Spark writes, exactly once
    memory:         a table in the driver with the view's name, for trying
    console:        the terminal, for trying
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NoReturn

from headwater.local_path import local_path
from headwater.pipelines import stores, stream_views
from headwater.pipelines.cluster import must_be_seen
from headwater.pipelines.declarations import REAL_TIME, View, in_store
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.rows import Result, as_records
from headwater.pipelines.stream_views import CLIENT_ID, client_id
from headwater.views import batch_name
from headwater.views.targets import registry
from headwater.views.targets.contract import Applied, Kind, Misfit, Part, Shape
from headwater.views.targets.version_folders import FILES_OF_SPARK, must_be_outside
from headwater.views.targets.write_only import WriteOnlyTarget

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


Write = Callable[[Result], object]
"""From a built query to Spark's DataStreamWriter, which PySpark does not type."""


class SparkTarget(WriteOnlyTarget):
    """A target that Spark writes to: nothing is staged, and the position is in the query's checkpoint."""

    kinds = frozenset({Kind.APPEND})
    takes_updates: ClassVar[bool] = True
    """Whether Spark gives it a row of an aggregate again."""
    example: ClassVar[tuple[str, str] | None] = None
    """What stands after the colon, where something must, and how it looks."""

    @abstractmethod
    def writer(self, result: Result) -> object:
        """Spark's DataStreamWriter."""

    def create(self) -> None:
        """For a query that starts over; `Misfit` where somebody else's is there. Spark makes the rest."""

    def claim(self) -> NoReturn:
        raise self._lacks("no position of its own")

    def applied(self) -> Applied | None:
        raise self._lacks("no position of its own")

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> NoReturn:
        raise self._lacks("a writer of Spark's own")

    def commit(self, applied: Applied, parts: Sequence[Part]) -> NoReturn:
        raise self._lacks("a writer of Spark's own")

    def versions(self) -> dict[int, Applied | None]:
        return {1: None}


class TopicTarget(SparkTarget):
    """A row under a key that is there already stands for another one."""

    kinds = frozenset({Kind.APPEND, Kind.UPSERT})
    example = ("a topic", "topic:orders")

    def writer(self, result: Result) -> object:
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


class ParquetTarget(SparkTarget):
    """Files can only be added to."""

    takes_updates = False
    example = ("a folder", "parquet:data/orders")

    def create(self) -> None:
        """Files of an earlier life must not be met, as Spark would skip its batches; nor those of another
        view or of anybody else, which readers of the folder would take for its own."""
        folder = local_path(self.rest)
        if folder is None:
            return
        if (folder / FILES_OF_SPARK).exists():
            raise Misfit(
                f"{self.rest} has files of a query before it",
                hint=f"move them away: mv {self.rest} {self.rest}.old",
            )
        must_be_outside(folder)
        if folder.is_dir() and any(not each.name.startswith(".") for each in folder.iterdir()):
            raise Misfit(f"{self.rest} has files that are not its own", hint="name an empty folder")

    def writer(self, result: Result) -> object:
        view = result.view
        if (folder := local_path(self.rest)) is not None:
            must_be_seen(
                result.context.spark,
                folder,
                f"executors write the files of the view {view.name!r} ({view.place}) to",
                "name a folder that all machines see, or an address of shared storage",
            )
        return result.frame.writeStream.format("parquet").option("path", self.rest)


class MemoryTarget(SparkTarget):
    def writer(self, result: Result) -> object:
        return result.frame.writeStream.format("memory")


class ConsoleTarget(SparkTarget):
    def writer(self, result: Result) -> object:
        return result.frame.writeStream.format("console").option("truncate", "false")


def writer_of(view: View) -> Write:
    """What writes a view to where it names."""
    if in_store(view):
        return stores.writer_of
    target = _target_of(view)

    def write(result: Result) -> object:
        if target.example is not None and not target.rest:
            what, example = target.example
            raise PipelineError(
                f"the view {view.name!r} ({view.place}) does not say {what}",
                hint=f"write to={example!r}",
            )
        return target.writer(result)

    return write


def takes_updates(view: View) -> bool:
    return in_store(view) or _target_of(view).takes_updates


def make_place(view: View) -> None:
    """Of a query that starts over. That of a store is made when its writer is."""
    if in_store(view):
        return
    try:
        _target_of(view).create()
    except Misfit as error:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) starts over, and {error.args[0]}",
            hint=error.hint,
        ) from error


def _target_of(view: View) -> SparkTarget:
    import pyarrow as pa

    try:
        kinds = registry.kinds_of(view.to)
    except registry.NoSuchTarget as error:
        known = ", ".join(f"{name}:" for name in registry.schemes())
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) goes to {view.where!r}, which names no target",
            hint=f"use one of {known}, as in to='topic:{view.name}'",
        ) from error
    kind = Kind.UPSERT if view.key and Kind.UPSERT in kinds else Kind.APPEND
    # Its columns are Spark's affair.
    shape = Shape(view.name, pa.schema([]), view.key, kind, view.version, view.options)
    target = registry.target_for(view.to, shape)
    assert isinstance(target, SparkTarget)
    return target


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
