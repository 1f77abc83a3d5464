"""Rows between the state and Spark: Arrow tables to DataFrames, and a DataFrame to an Arrow table.

Few rows, as of nearly every batch, are put into a plan that is kept (`kept_plan`). Of more rows, or where the
function's plan cannot be kept, a small table becomes a local relation, whose rows are part of a plan of its
own; a large one goes through a Parquet file in the state's folder, so that it need not fit into the driver's
Java.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.local_path import for_spark
from headwater.views.tables.kept_plan import KEPT_BYTES, Function, KeptPlan
from headwater.views.tables.plan import Plan
from headwater.views.tables.set_aside import Compute

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LARGE_BYTES = 1024 * 1024
"""Of a table in Arrow. A hundred thousand rows in the plan cost Spark thrice what they cost in a file."""


SMALL_ROWS = 20_000
"""Up to here one task is quicker than several."""
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # What is in one partition needs no exchange to be joined; a broadcast would be a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Nor if nobody knows how much it is, as of a table that is filled later.
    "spark.sql.defaultSizeInBytes": "1",
}


def computing(spark: SparkSession, plan: Plan, function: Function, scratch: Path) -> Compute:
    """The view's query by Spark. The session is the view's own: what is set here stays."""
    tuning = Tuning(spark)
    # A query that is computed as a whole may be one of the moment or of chance: those are planned anew.
    kept = (
        None
        if plan.program is None
        else KeptPlan(spark, [each.row for each in plan.tables], function)
    )

    def compute(rows: Mapping[int, pa.Table]) -> pa.Table:
        small = sum(table.num_rows for table in rows.values()) <= SMALL_ROWS
        tuning.choose(small)
        few = small and sum(table.nbytes for table in rows.values()) <= KEPT_BYTES
        if kept is not None and few and (found := kept.run(rows)) is not None:
            return found.cast(plan.result)
        with _files(scratch) as name:
            frames = {
                n: frame_of(spark, table, plan.tables[n].row, name(n)) for n, table in rows.items()
            }
            if small:
                frames = {n: frame.coalesce(1) for n, frame in frames.items()}
            return function(spark, frames).toArrow().cast(plan.result)

    return compute


def frame_of(
    spark: SparkSession, rows: pa.Table, row: StructType, scratch: Path | None
) -> DataFrame:
    """A DataFrame of rows whose columns are those of `row`, in order. Without `scratch` the rows are few."""
    from pyspark.sql.pandas.types import to_arrow_schema

    named = rows.rename_columns(row.names).cast(to_arrow_schema(row, timezone="UTC"))
    if scratch is None or rows.nbytes <= LARGE_BYTES:
        return spark.createDataFrame(named, schema=row)
    import pyarrow.parquet as pq

    scratch.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(named, scratch, compression="lz4", row_group_size=128 * 1024)
    return spark.read.schema(row).parquet(for_spark(scratch))


@contextmanager
def _files(folder: Path) -> Iterator[Callable[[int], Path]]:
    """Names of files for the rows of tables. Each is used once: a function that caches a table would get
    what another batch had under the same name, since Spark knows cached files by their path."""
    once = uuid.uuid4().hex
    for left in folder.glob("rows*.parquet"):  # of a driver that was killed
        left.unlink()
    try:
        yield lambda table: folder / f"rows{table}-{once}.parquet"
    finally:
        for mine in folder.glob(f"rows*-{once}.parquet"):
            mine.unlink()


class Tuning:
    """Lets Spark take few tasks for few rows, and as many as it wants for many."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._usual = {name: spark.conf.get(name, None) for name in _SMALL}
        self._small = False

    def choose(self, small: bool) -> None:
        if small == self._small:
            return
        conf = self._spark.conf
        for name, usual in self._usual.items():
            chosen = _SMALL[name] if small else usual
            conf.unset(name) if chosen is None else conf.set(name, chosen)
        self._small = small
