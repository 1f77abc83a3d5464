"""A table as its changes, for the joins that look at its past.

`hw.table` is a table as it is now. Here every change counts, with its time; a view that is compared with the
log (`headwater verify`) therefore reads all changes too, and not only the last of each key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.pipelines.context import current
from headwater.pipelines.sources import events
from headwater.pipelines.tables import MARKS, decoded, row_type
from headwater.processing.joins.errors import BadJoin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Changes:
    """The changes of a table: its columns, `_deleted`, and `_op`, `_partition`, `_offset`, `_timestamp`."""

    frame: DataFrame
    key: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Of the table itself."""
        return [name for name in self.frame.columns if name not in MARKS]


def changes(
    topic: str,
    *,
    schema: str,
    key: str | Sequence[str],
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> Changes:
    """The table that a topic tells of, change by change: Debezium's envelopes or plain rows.

    The topic is read to its end in every batch, so that a table is never behind the events that are
    joined with it. It must not be compacted where the past matters.
    """
    context = current()
    context.streams.append(topic)
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys:
        raise BadJoin(f"the key of table {topic!r} names nothing")
    row = row_type(schema, f"table {topic!r}", keys)
    # Whole: a limit on the records of a batch would let the events run ahead of the table.
    whole = {"maxOffsetsPerTrigger": str(2**62), **(options or {})}
    records = events(context, topic, schema=None, starting=starting, options=whole)
    return of_records(records, row, keys)


def of_records(records: DataFrame, row: StructType, key: tuple[str, ...]) -> Changes:
    """Records with Kafka's columns as changes of rows of type `row`."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("value").cast("string")
    no_truncate = F.when(
        F.coalesce(F.get_json_object(text, "$.op"), F.get_json_object(text, "$.payload.op")) == "t",
        F.raise_error(F.concat(F.col("topic"), F.lit(": TRUNCATE is not understood in a join"))),
    ).otherwise(F.col("value"))
    typed = decoded(records.withColumn("value", no_truncate), row, key)
    # An update of the key is the end of one row and the beginning of another.
    moved = F.col("_before").isNotNull() & ~F.col("_deleted") & ~_same_key(key)
    gone = F.struct(
        *(F.col("_before")[name].alias(name) for name in row.names), F.lit(True).alias("_deleted")
    )
    here = F.struct(*(F.col(f"`{name}`") for name in row.names), F.col("_deleted"))
    both = F.when(moved, F.array(gone, here)).otherwise(F.array(here))
    place = ("_op", "_partition", "_offset", "_timestamp")
    frame = typed.select(F.explode(both).alias("_row"), *place).select("_row.*", *place)
    return Changes(frame, key)


def _same_key(key: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    same = F.lit(True)
    for name in key:
        same = same & F.col("_before")[name].eqNullSafe(F.col(f"`{name}`"))
    return same
