"""Rows between the state and Spark: Arrow tables to DataFrames, and a DataFrame to an Arrow table.

A small table becomes a local relation, whose rows are part of the plan: nothing is cheaper. A large one goes
through a Parquet file in the state's folder, so that it need not fit into the driver's Java.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.views.tables.upkeep import Compute, Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LARGE_BYTES = 32 * 1024 * 1024
"""Of a table in Arrow. Spark's own limit for a local relation is 48 MB."""


SMALL_ROWS = 20_000
"""Up to here one task is quicker than several."""
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}

Function = Callable[["SparkSession", Mapping[int, "DataFrame"]], "DataFrame"]
"""A view's function, with DataFrames in place of its tables."""


def computing(spark: SparkSession, plan: Plan, function: Function, scratch: Path) -> Compute:
    """The view's query by Spark."""

    def compute(rows: Mapping[int, pa.Table]) -> pa.Table:
        size = sum(table.num_rows for table in rows.values())
        with _tuned(spark, size), _files(scratch) as name:
            frames = {
                n: frame_of(spark, table, plan.tables[n].row, name(n)) for n, table in rows.items()
            }
            return function(spark, frames).toArrow().cast(plan.result)

    return compute


def frame_of(spark: SparkSession, rows: pa.Table, row: StructType, scratch: Path) -> DataFrame:
    """A DataFrame of rows whose columns are those of `row`, in order."""
    from pyspark.sql.pandas.types import to_arrow_schema

    named = rows.rename_columns(row.names).cast(to_arrow_schema(row, timezone="UTC"))
    if rows.nbytes <= LARGE_BYTES:
        return spark.createDataFrame(named, schema=row)
    import pyarrow.parquet as pq

    scratch.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(named, scratch, compression="lz4", row_group_size=128 * 1024)
    return spark.read.schema(row).parquet(scratch.as_uri())


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


@contextmanager
def _tuned(spark: SparkSession, rows: int) -> Iterator[None]:
    """Let Spark take few tasks for few rows."""
    if rows > SMALL_ROWS:
        yield
        return
    before = {name: spark.conf.get(name, None) for name in _SMALL}
    for name, value in _SMALL.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.unset(name) if was is None else spark.conf.set(name, was)
