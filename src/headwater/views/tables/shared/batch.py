"""Each batch of a view over tables whose state is on shared storage: from its records to its target.

Called by Spark for each batch of a streaming query of its own, whose executors read the records. That query
keeps offsets and commits where its checkpoint is, so a driver that is lost goes on elsewhere.

Records are read by `decoder` alone, Spark's parser, and what cannot be read is put away by the task that
finds it. Changes are in a file before anything looks at them: else every table has all read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from headwater.local_path import local_path
from headwater.views.applier import Applying
from headwater.views.tables.bad_values import Refuse, stop
from headwater.views.tables.decoder import COLUMNS, Decoder, Table, change_names, with_derived
from headwater.views.tables.plan import Plan
from headwater.views.tables.shared import takeover
from headwater.views.tables.shared.folder import Folder
from headwater.views.tables.shared.pieces import Files
from headwater.views.tables.shared.steps import Function
from headwater.views.tables.shared.upkeep import SharedUpkeep
from headwater.views.targets.contract import Misfit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILES = {
    # Every time, whatever its century, and to the microsecond.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}


class SharedSink(Protocol):
    """Where differences go, as DataFrames with `_deleted`."""

    def has(self, spark: SparkSession, batch: int) -> bool | None:
        """Whether the batch is there; None where nobody can say."""

    def write(self, batch: int, difference: DataFrame) -> None:
        """Bring it there, unless it is; in this batch's transaction or not at all."""


class SharedFollowing:
    """A view over tables and its target, batch by batch."""

    def __init__(
        self,
        plan: Plan,
        place: str,
        result: StructType,
        function: Function,
        sink: SharedSink,
        refuse: Refuse = stop,
    ) -> None:
        """`place`: the folder of the state. `result`: the type of the view's rows."""
        self._plan, self._place, self._result = plan, place, result
        self._function, self._sink = function, sink
        self._reader = _Reader(plan.tables, refuse)
        self._upkeep: SharedUpkeep | None = None

    def __call__(self, records: DataFrame, batch: int) -> None:
        spark = records.sparkSession
        for name, value in FILES.items():
            spark.conf.set(name, value)
        upkeep = self._upkeep or self._opened(spark)
        self._upkeep = None  # should it fail, what is stored says how far it came
        if batch < upkeep.batch:
            self._must_be_there(spark, batch)
        else:
            upkeep.apply(
                spark,
                batch,
                lambda files, name: self._reader(records, files, name),
                self._function,
                lambda difference: self._sink.write(batch, difference),
            )
        self._upkeep = upkeep

    def _opened(self, spark: SparkSession) -> SharedUpkeep:
        upkeep = SharedUpkeep(spark, self._plan, Folder(spark, self._place), self._result)
        folder = local_path(self._place)
        if folder is not None and takeover.has_file(folder):
            upkeep.take_over(spark, folder, self._function)
        return upkeep

    def _must_be_there(self, spark: SparkSession, batch: int) -> None:
        if self._sink.has(spark, batch) is False:
            raise Misfit(
                f"the state of the view {self._plan.name!r} has batch {batch}, and its target has not; "
                "rebuild the view with headwater rebuild"
            )


class SharedStoreSink:
    """A target of `headwater.views`: its parts are staged by the tasks that have the rows."""

    def __init__(self, applying: Applying, has: Callable[[SparkSession, int], bool | None]) -> None:
        self._applying, self._has = applying, has

    def has(self, spark: SparkSession, batch: int) -> bool | None:
        return self._has(spark, batch)

    def write(self, batch: int, difference: DataFrame) -> None:
        self._applying(difference, batch)


class SharedFrameSink:
    """Anything that takes such a DataFrame, and knows a batch that it has: a topic."""

    def __init__(self, write: Callable[[DataFrame], None]) -> None:
        self._write = write

    def has(self, spark: SparkSession, batch: int) -> bool | None:
        return None

    def write(self, batch: int, difference: DataFrame) -> None:
        self._write(difference)


RECORD = ("topic", "p", "o", "timestamp")


class _Reader:
    """Of one view's tables."""

    def __init__(self, tables: Sequence[Table], refuse: Refuse) -> None:
        self._tables = tables
        self._decoder = Decoder(tables)
        self._judge = Decoder(tables, refuse)
        """Goes to the tasks: it has none of Spark's expressions in it."""

    def __call__(self, records: DataFrame, files: Files, name: str) -> list[DataFrame]:
        """The changes of each table, as `net` takes them; all bad values are away when this returns."""
        flat = self._flat(records.select(*COLUMNS))
        judge = self._judge

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            from headwater.spark import worker

            for batch in batches:
                worker.settle()
                yield from judge.good(pa.Table.from_batches([batch])).to_batches()

        good = flat.mapInArrow(task, flat.schema).drop("bad")
        files.write(good, name)
        found = files.read([name], good.schema)
        return [self._of_table(found, n, table) for n, table in enumerate(self._tables)]

    def _flat(self, records: DataFrame) -> DataFrame:
        changes = self._decoder.frame(records, "timestamp")
        for n, table in enumerate(self._tables):
            if table.derived:
                changes = with_derived(changes, n, table)
        own = [
            f"t{n}.{name} AS t{n}{name}"
            for n, table in enumerate(self._tables)
            for name in change_names(table)
        ]
        return changes.selectExpr(*RECORD, "bad", *own)

    def _of_table(self, found: DataFrame, number: int, table: Table) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        own = [f"t{number}{name} AS {name}" for name in change_names(table)]
        mine = found.where(F.col("topic") == table.topic)
        return mine.selectExpr(*own, "p", "o", "unix_micros(timestamp) AS ts")
