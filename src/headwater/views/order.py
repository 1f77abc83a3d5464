"""Which change of a key is the last: rows of a batch brought to where they are to be staged.

Called by `applier`, for every batch of a view with a key. The order of two changes of one key is that of
their offsets in one partition of the log:

- where the rows still have `_partition` and `_offset` (the marks of hw.stream with a schema and of
  hw.table), by these two;
- otherwise by the order in which Spark's source gave them: its tasks are in the order of topics,
  partitions and offsets, and what keeps rows in their tasks (select, filter, udf) keeps that order.

Changes of one key in several partitions have no order in any log; the higher partition's wins here.
Records with the view's key as theirs are always in one partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.views.targets.contract import DELETED, VALID_FROM, Kind, Shape
from headwater.views.targets.sql.names import OwnNames

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

RECORD = ("_topic", "_partition", "_offset")
"""Where a row came from, as far as the query kept it."""
TIME = "_timestamp"
_OFFSET_BITS = 48


def arranged(frame: DataFrame, shape: Shape, *, spread: bool = True) -> DataFrame:
    """The columns that tasks need; all rows of a key in one task. `spread`: over several tasks."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.col(quoted(name)) for name in shape.schema.names]
    if shape.kind is not Kind.APPEND:
        gone = (
            F.coalesce(F.col(DELETED), F.lit(False)) if DELETED in frame.columns else F.lit(False)
        )
        columns += [gone.alias(DELETED), _order(frame).alias(order_of(shape))]
    if shape.kind is Kind.HISTORY:
        columns.append(F.col(quoted(_time_column(shape))).cast("timestamp").alias(VALID_FROM))
    rows = frame.select(*columns)
    if shape.kind is Kind.APPEND or not spread:
        return rows
    return rows.repartition(*(F.col(quoted(name)) for name in shape.key))


def has_record(frame: DataFrame) -> bool:
    return set(RECORD) <= set(frame.columns)


def lacks_time(columns: list[str], shape: Shape) -> str | None:
    """The column with a history's times that is not there."""
    name = _time_column(shape)
    return None if shape.kind is not Kind.HISTORY or name in columns else name


def in_order(rows: pa.Table, shape: Shape, *, every: bool = False) -> pa.Table:
    """A task's rows as they are to be staged: the last one of each key; in a history, or where `every` one
    is wanted, all, in order."""
    if shape.kind is Kind.APPEND:
        return rows
    if shape.kind is Kind.HISTORY or every:
        return rows.sort_by(order_of(shape)).drop_columns([order_of(shape)])
    return last_of_each_key(rows, shape.key, order_of(shape))


def last_of_each_key(rows: pa.Table, key: tuple[str, ...], order: str) -> pa.Table:
    """Of rows that one record became, the last one; sorting keeps their order."""
    import pyarrow.compute as pc

    places = pc.sort_indices(rows.column(order))
    keys = rows.select(list(key)).take(places).append_column(order, places)
    last = keys.group_by(list(key), use_threads=False).aggregate([(order, "last")])
    if last.num_rows < rows.num_rows:
        rows = rows.take(last.column(f"{order}_last"))
    return rows.drop_columns([order])


def order_of(shape: Shape) -> str:
    """The column that says which change of a key is the last; called as no column of the view is."""
    return OwnNames.beside(shape)("order")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _time_column(shape: Shape) -> str:
    return shape.options.get("valid_from", TIME)


def _order(frame: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if not {"_partition", "_offset"} <= set(frame.columns):
        return F.monotonically_increasing_id()
    partition = F.shiftleft(F.col("_partition").cast("long"), _OFFSET_BITS)
    return partition.bitwiseOR(F.col("_offset").cast("long"))
