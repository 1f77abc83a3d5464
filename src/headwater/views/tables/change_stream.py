"""A table as its changes one by one, for who wants these and not the table as it is: `decoder` with marks.

Called by `pipelines.tables` for functions that ask for marks and for histories, and by joins that look at a
table's past. A row that moves to another key is two changes, the end of one row and the beginning of another.
That all rows are gone (a truncate) cannot be told here: nobody knows which there were. So it is no change,
and is put away with the values that cannot be read; only a view over tables, which has its rows, follows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.views.tables.bad_values import BadValue, Refuse, reason_for
from headwater.views.tables.decoder import Decoder, Table, keyless
from headwater.views.tables.replay import after_truncates

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_BAD, _ROW = "_headwater_bad", "_headwater_row"


def changes(records: DataFrame, table: Table, refuse: Refuse | None) -> DataFrame:
    """Records with Kafka's columns as changes: the table's columns, `_op`, `_deleted`, `_before`, and of the
    record `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`.

    What is none goes to `refuse`, in the task that meets it; with None it is left out.
    """
    from pyspark.sql import functions as F  # noqa: N812

    bad = F.col("bad").isNotNull() | F.col("t0.emptied") | _lacks_something(table)
    return _with_marks(_good(_read(records, table), bad, table, refuse), table)


def still_valid(records: DataFrame, table: Table) -> DataFrame:
    """The same of all records of a topic: without bad ones, and without what a truncate has ended."""
    from pyspark.sql import functions as F  # noqa: N812

    bad = F.col("bad").isNotNull() | _lacks_something(table)
    read = _good(_read(records, table), bad, table, None)
    placed = read.selectExpr("*", "t0.emptied AS emptied", "_partition AS p", "_offset AS o")
    return _with_marks(after_truncates(placed), table)


def _good(read: DataFrame, bad: Column, table: Table, refuse: Refuse | None) -> DataFrame:
    """Through Python and back also for those that are good: Spark would else put copies of all that reads a
    value wherever something of it is used, and plan for minutes."""
    from pyspark.sql import functions as F  # noqa: N812

    marked = read.withColumn(_BAD, F.coalesce(bad, F.lit(False)))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        from headwater.spark import worker

        for batch in batches:
            found = batch.filter(batch.column(_BAD))
            if found.num_rows and refuse is not None:
                worker.settle()
                refuse(_bad_values(found, table))
            yield batch.filter(pc.invert(batch.column(_BAD))) if found.num_rows else batch

    return marked.mapInArrow(task, marked.schema)


def _bad_values(found: pa.RecordBatch, table: Table) -> list[BadValue]:
    topics, partitions, offsets = (
        found.column(name).to_pylist() for name in ("_topic", "_partition", "_offset")
    )
    # As bytes: a value that is no text comes out of Spark as it went in.
    values = found.column("_value").cast("binary").to_pylist()
    return [
        BadValue(topic, partition, offset, _why(table, value), value or b"")
        for topic, partition, offset, value in zip(topics, partitions, offsets, values, strict=True)
    ]


def _why(table: Table, value: bytes | None) -> str:
    if value is None:
        return keyless(table)
    return reason_for(value.decode(errors="replace"), table.row)


def _lacks_something(table: Table) -> Column:
    """Whether a row has no value where the schema says NOT NULL, or does not say its key."""
    from pyspark.sql import functions as F  # noqa: N812

    there, lacks = ~F.col("t0.gone") & ~F.col("t0.emptied"), F.lit(False)
    for name in table.required:
        lacks = lacks | F.col(f"t0.c{table.row.names.index(name)}").isNull()
    nameless = F.lit(False)
    for n in table.keys:
        nameless = nameless | F.col(f"t0.c{n}").isNull()
    return F.coalesce(there & lacks | ~F.col("t0.emptied") & nameless, F.lit(False))


def _read(records: DataFrame, table: Table) -> DataFrame:
    """`bad`, `t0` (see `decoder`), the value's text, and the marks of the record."""
    from pyspark.sql import functions as F  # noqa: N812

    kept = records.select(
        "*",
        F.col("key").alias("_key"),
        F.col("value").cast("string").alias("_value"),
        F.col("timestamp").alias("_timestamp"),
    )
    told = Decoder([replace(table, tells_before=True)]).read(kept, "_key", "_value", "_timestamp")
    places = {"_topic": "topic", "_partition": "p", "_offset": "o"}
    own = [F.col(name).alias(mark) for mark, name in places.items()]
    return told.select("bad", "t0", "_key", "_value", "_timestamp", *own)


def _with_marks(read: DataFrame, table: Table) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    change, names = F.col("t0"), table.row.names
    before, gone = change["before"], change["gone"]
    old = {name: change[f"m{n}"] for n, name in enumerate(table.key)}
    ended = [(old[name] if name in table.key else before[name]).alias(name) for name in names]
    here = [
        (each if name in table.key else F.when(gone, before[name]).otherwise(each)).alias(name)
        for name, each in ((name, change[f"c{n}"]) for n, name in enumerate(names))
    ]
    end = F.struct(*ended, F.lit("d").alias("_op"), F.lit(True).alias("_deleted"))
    own = F.struct(*here, change["op"].alias("_op"), gone.alias("_deleted"))
    steps = F.when(change["m0"].isNotNull(), F.array(end, own)).otherwise(F.array(own))
    marks = ("_key", "_topic", "_partition", "_offset", "_timestamp")
    rows = read.select(F.explode(steps).alias(_ROW), before.alias("_before"), *marks)
    shown = [F.col(_ROW)[name].alias(name) for name in (*names, "_op", "_deleted")]
    return rows.select(*shown, "_before", *marks)
