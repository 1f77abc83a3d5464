"""Views of one stream that keep nothing between two batches, followed by the driver and not by Spark's query.

Called by `stores` and `targets`. A micro-batch of Spark's costs what its planning costs: a process of
Python's is asked for offsets, a plan is made, tasks and workers are begun, for ten records as for a million.
Where a view's function only picks, filters and unfolds rows of its stream, the driver reads a few records
itself and has Spark run the function as a plan that is kept (`views.tables.kept_plan`); many records are read
by tasks, with a plan of their own. The checkpoint is the one that Spark's query has: either goes on where the
other stopped.

    few     driver reads ─▶ kept plan ─▶ rows in the driver ─▶ store or topic
    many    tasks read ─▶ function ─▶ tasks stage, or prepare ─▶ store or topic
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from headwater.client.position import Position
from headwater.local_path import local_path
from headwater.pipelines.cluster import is_cluster
from headwater.pipelines.context import Context, Reading, within
from headwater.pipelines.rows import Result
from headwater.views.applier import FEW
from headwater.views.batch_name import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headwater.pipelines.batch_source import Changes, StreamRange
    from headwater.pipelines.driver_query import DriverWriter
    from headwater.spark.source.tail import RangeReader
    from headwater.views.applier import Applying

CLIENT_ID = "kafka.client.id"
_WAIT, _LEAST = "waitforrecords", "minoffsetspertrigger"


class Output(Protocol):
    """Where the rows of a batch go; for one run of the query."""

    def is_due(self, batch: int, spark: SparkSession) -> bool: ...
    def arranged(self, rows: DataFrame) -> DataFrame: ...
    def warm_up(self, none: pa.Table | None) -> None: ...
    def take_few(
        self, rows: pa.Table, batch: int, spark: SparkSession, again: Callable[[], DataFrame]
    ) -> None:
        """Rows that were arranged; `again` gives them as the function does."""

    def take(self, rows: DataFrame, batch: int, spark: SparkSession) -> None: ...
    def close(self) -> None: ...


def writer_of(result: Result, output: Callable[[], Output]) -> DriverWriter | None:
    """What takes the place of Spark's DataStreamWriter; None where the view wants a query of Spark's."""
    view, context = result.view, result.context
    folder = None if context.checkpoint is None else local_path(context.checkpoint)
    if folder is None or view.every is not None or view.mode == "complete" or not _is_plain(result):
        return None
    from headwater.pipelines.batch_source import StreamSource
    from headwater.pipelines.driver_query import DriverWriter, Work

    (reading,) = context.reading
    return DriverWriter(
        Work(
            view.name,
            context.spark,
            folder,
            lambda spark: StreamFollower(result, reading, output(), spark),
            lambda: _reader(reading, view.name),
            lambda once: StreamSource(_reader(reading, view.name), once=once),
        )
    )


def _is_plain(result: Result) -> bool:
    context = result.context
    if len(context.reading) != 1 or context.tables or context.registry is not None:
        return False
    if any(name.lower() == _LEAST for name in context.reading[0].options):
        return False  # it waits by the clock while records are there
    if is_connect(context.spark) or is_cluster(context.spark):
        return False
    from headwater.views.tables.analysis import is_row_by_row

    return is_row_by_row(result.frame)


def _reader(reading: Reading, view: str) -> RangeReader:
    """With a connection of its own: threads that share one would take each other's answers."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from headwater.spark.source.tail import RangeReader

    options = {n: value for n, value in reading.options.items() if n.lower() != _WAIT}
    options[CLIENT_ID] = client_id(options, view)
    return RangeReader(options, to_arrow_schema(reading.row, timezone="UTC"))


def client_id(options: Mapping[str, str], name: str) -> str:
    return f"{options.get(CLIENT_ID, 'headwater')}-{name}"


class StoreOutput:
    """A view in a store."""

    def __init__(self, applying: Applying) -> None:
        self._applying = applying
        self._position = Position()
        """Of the batch at hand."""

    def is_due(self, batch: int, spark: SparkSession) -> bool:
        self._position = self._applying.position_of(spark, batch)
        return self._applying.is_due(batch, self._position)

    def arranged(self, rows: DataFrame) -> DataFrame:
        from headwater.views import order

        return order.arranged(rows, self._applying.target.shape, spread=False)

    def warm_up(self, none: pa.Table | None) -> None: ...

    def take_few(
        self, rows: pa.Table, batch: int, spark: SparkSession, again: Callable[[], DataFrame]
    ) -> None:
        self._applying.apply_few(rows, batch, self._position, spark, again)

    def take(self, rows: DataFrame, batch: int, spark: SparkSession) -> None:
        self._applying.apply(rows, batch, self._position)

    def close(self) -> None: ...


class StreamFollower:
    """Brings ranges of a stream into a view; in a session of its own."""

    keeps_state = False

    def __init__(
        self, result: Result, reading: Reading, output: Output, spark: SparkSession
    ) -> None:
        from headwater.views.tables.frames import Tuning
        from headwater.views.tables.kept_plan import KeptPlan

        self._result, self._row, self._output = result, reading.row, output
        self._spark, self._tuning = spark, Tuning(spark)
        self._kept = KeptPlan(
            spark, [reading.row], lambda _, frames: output.arranged(self._on(frames[0]))
        )

    def close(self) -> None:
        self._output.close()

    def warm_up(self) -> None:
        """Let Spark plan and compile the function before the first record waits for it."""
        from pyspark.sql.pandas.types import to_arrow_schema

        self._tuning.choose(True)
        none = to_arrow_schema(self._row, timezone="UTC").empty_table()
        self._output.warm_up(self._kept.run({0: none}))

    def apply(self, batch: int, changes: Changes, spark: SparkSession) -> None:
        output = self._output
        if not output.is_due(batch, spark):
            return
        wanted: StreamRange = changes(self)
        records = _few(wanted)
        self._tuning.choose(records is not None)
        if records is None:
            output.take(self._on(self._by_tasks(wanted)), batch, spark)
            return
        rows = self._kept.run({0: records})
        if rows is None:
            output.take(self._on(self._frame(records)), batch, spark)
        else:
            output.take_few(rows, batch, spark, lambda: self._on(self._frame(records)))

    def _on(self, records: DataFrame) -> DataFrame:
        """The view's function on given records of its stream."""
        context: Context = self._result.context
        given = replace(context, spark=self._spark, records=records, streams=[], tables=[])
        with within(given):
            found: DataFrame = self._result.view.function()
        return found

    def _frame(self, records: pa.Table) -> DataFrame:
        from headwater.views.tables.frames import frame_of

        return frame_of(self._spark, records, self._row, None).coalesce(1)

    def _by_tasks(self, wanted: StreamRange) -> DataFrame:
        """Each task of the range in a partition of its own, in their order."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from headwater.spark.source.task import read

        tasks = wanted.reader.stream.partitions(wanted.start, wanted.end)
        if not tasks:
            return self._spark.createDataFrame([], self._row)
        options, schema = wanted.reader.stream.options, to_arrow_schema(self._row, timezone="UTC")

        def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for each in numbers:
                for number in each.column(0).to_pylist():
                    yield from read(tasks[number], options, schema)

        numbered = self._spark.range(0, len(tasks), 1, len(tasks))
        return numbered.mapInArrow(task, self._row)


def _few(wanted: StreamRange) -> pa.Table | None:
    """The records, where they are few and small; None where tasks had better read them."""
    import pyarrow as pa

    from headwater.views.tables.kept_plan import KEPT_BYTES

    if wanted.count > FEW:
        return None
    size, found = 0, []
    for batch in wanted.reader.records(wanted.start, wanted.end):
        size += batch.nbytes
        if size > KEPT_BYTES:
            return None
        found.append(batch)
    return pa.Table.from_batches(found, schema=wanted.reader.schema)
