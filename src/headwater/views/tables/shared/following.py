"""Each batch of a view over tables whose state is on shared storage: from its records to its target.

Called by Spark for each batch of a streaming query of its own, whose executors read the records. That query
keeps offsets and commits where its checkpoint is, so a driver that is lost goes on elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headwater.local_path import local_path
from headwater.views.applier import Applying
from headwater.views.tables.bad_values import Refuse, stop
from headwater.views.tables.plan import Plan
from headwater.views.tables.shared.changes import Reader
from headwater.views.tables.shared.upkeep import Function, SharedUpkeep
from headwater.views.targets.contract import Misfit

if TYPE_CHECKING:
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
        self._reader = Reader(plan.tables, refuse)
        self._upkeep: SharedUpkeep | None = None

    def __call__(self, records: DataFrame, batch: int) -> None:
        spark = records.sparkSession
        for name, value in FILES.items():
            spark.conf.set(name, value)
        if self._upkeep is None:
            self._upkeep = SharedUpkeep(spark, self._plan, self._place, self._result)
            if (folder := local_path(self._place)) is not None:
                self._upkeep.take_over(spark, folder, self._function)
        if batch < self._upkeep.batch:
            self._must_be_there(spark, batch)
            return
        try:
            self._upkeep.apply(
                spark,
                batch,
                lambda files, name: self._reader(records, files, name),
                self._function,
                lambda difference: self._sink.write(batch, difference),
            )
        except BaseException:
            self._upkeep = None  # what is stored says how far it came
            raise

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
