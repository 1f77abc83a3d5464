"""A view's function as one plan of Spark's that is made once, and run again for each small batch.

Used by `frames`. To analyse, optimise and plan a function takes Spark about twice as long as to run it on a
few rows, and the plan is the same for every batch. So its tables are made of an RDD with one partition, whose
only value, an Arrow batch, is exchanged before each run. The plan is run by the driver itself
(`spark.driver_task`); where that cannot be, as a job, to which Spark sends the partition along, as it is
then.

What Spark itself keeps between two runs of one plan (rows that went through an exchange, a broadcast, a
cache, a subquery) would be those of another batch. So all nodes of the plan must be among `_ANEW`, which
hold nothing, and all its leaves must be tables of ours; where they are not, there is no kept plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.spark.driver_task import DriverTask, driver_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

KEPT_BYTES = 256 * 1024
"""Of a batch's rows in Arrow: one task has them all, and they travel inside it."""
_LOCAL_ROWS = "spark.sql.execution.arrow.localRelationThreshold"
_LEAF = "RDDScanExec"
_ANEW = {
    "CoalesceExec",
    "ExpandExec",
    "FilterExec",
    "GenerateExec",
    "HashAggregateExec",
    "InputAdapter",
    "ObjectHashAggregateExec",
    "ProjectExec",
    "ShuffledHashJoinExec",
    "SortAggregateExec",
    "SortExec",
    "SortMergeJoinExec",
    "UnionExec",
    "WholeStageCodegenExec",
    "WindowExec",
    "WindowGroupLimitExec",
}
"""Nodes that compute their rows from those below in every run."""

Function = Callable[["SparkSession", Mapping[int, "DataFrame"]], "DataFrame"]
"""A view's function, with DataFrames in place of its tables."""


class KeptPlan:
    """The plan of one view in a session of its own; for one thread."""

    def __init__(self, spark: SparkSession, rows: Sequence[StructType], function: Function) -> None:
        self._spark, self._rows, self._function = spark, rows, function
        self._leaves: dict[int, _Leaf] = {}
        self._result: DataFrame | None = None
        self._task: DriverTask | None = None
        self._tried = False

    def run(self, rows: Mapping[int, pa.Table]) -> pa.Table | None:
        """The function's result on these rows; None where its plan cannot be kept."""
        if not self._tried:
            self._result, self._tried = self._made(), True
        if self._result is None:
            return None
        batches = {n: leaf.batch(rows[n]) for n, leaf in self._leaves.items()}
        found = None if self._task is None else self._task.run(batches.values())
        return self._by_job(self._result, batches) if found is None else found

    def _by_job(self, result: DataFrame, batches: Mapping[int, bytes]) -> pa.Table:
        for n, batch in batches.items():
            self._leaves[n].fill(batch)
        return result.toArrow()

    def _made(self) -> DataFrame | None:
        self._leaves = {n: _Leaf(self._spark, row) for n, row in enumerate(self._rows)}
        frames = {n: leaf.frame.coalesce(1) for n, leaf in self._leaves.items()}
        result = self._function(self._spark, frames)
        own = {leaf.rdd_id for leaf in self._leaves.values()}
        if not _runs_anew(result._jdf.queryExecution().executedPlan(), own):
            return None
        self._task = driver_task(result, [leaf.values for leaf in self._leaves.values()])
        return result


class _Leaf:
    """A table of the plan, whose rows can be exchanged."""

    def __init__(self, spark: SparkSession, row: StructType) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._row, self._jvm = row, spark._jvm
        large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
        self._schema = to_arrow_schema(row, timezone="UTC", prefers_large_types=large)
        self.frame = self._made(spark)
        rdd = self.frame._jdf.queryExecution().analyzed().rdd()
        self.rdd_id = int(rdd.id())
        while rdd.dependencies().size():
            rdd = rdd.dependencies().apply(0).rdd()
        (partition,) = rdd.partitions()
        self.values = partition.values().unsafeArray()

    def _made(self, spark: SparkSession) -> DataFrame:
        """As `createDataFrame` does it, which makes no partition of no rows."""
        from pyspark.sql import DataFrame

        jvm = self._jvm
        assert jvm is not None
        batches = jvm.java.util.ArrayList()
        batches.add(_serialized(self._schema.empty_table()))
        usual = spark.conf.get(_LOCAL_ROWS) or ""
        spark.conf.set(_LOCAL_ROWS, "0")  # as an RDD, however few they are
        try:
            rows = jvm.PythonUtils.toSeq(batches).iterator()
            made = jvm.PythonSQLUtils.toDataFrame(rows, self._row.json(), spark._jsparkSession)
        finally:
            spark.conf.set(_LOCAL_ROWS, usual)
        return DataFrame(made, spark)

    def batch(self, rows: pa.Table) -> bytes:
        """These rows as this table has them."""
        return _serialized(rows.rename_columns(self._row.names).cast(self._schema))

    def fill(self, batch: bytes) -> None:
        """Let the next run find these rows."""
        assert self._jvm is not None
        self._jvm.java.lang.reflect.Array.set(self.values, 0, batch)


def _serialized(rows: pa.Table) -> bytes:
    import pyarrow as pa

    columns = [
        column.chunk(0) if column.num_chunks else pa.array([], column.type)
        for column in rows.combine_chunks().columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema).serialize().to_pybytes()


def _runs_anew(node: Any, own: set[int]) -> bool:
    """Whether a node of Spark's plan, and all below it, hold nothing between two runs."""
    kind = str(node.getClass().getSimpleName())
    is_known = int(node.rdd().id()) in own if kind == _LEAF else kind in _ANEW
    if not is_known or node.subqueries().size():
        return False
    children = node.children()
    return all(_runs_anew(children.apply(n), own) for n in range(children.size()))
