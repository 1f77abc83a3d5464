"""`stream` to Spark: which source reads a topic, and with which options.

In micro-batches that is headwater's own source; at real-time speed Spark's Kafka connector, since
that mode takes no Python source. Both have the same columns, and with `schema` the same typed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.pipelines.context import Context
from headwater.pipelines.declared import REAL_TIME
from headwater.pipelines.errors import NotRealTime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def events(
    context: Context,
    topic: str,
    *,
    schema: str | None,
    starting: str,
    options: Mapping[str, str],
) -> DataFrame:
    """The streaming DataFrame of a topic."""
    named = {**context.kafka_options(), "subscribe": topic, "startingOffsets": starting, **options}
    if context.speed == REAL_TIME:
        return _connector(context, named, schema, options)
    reader = context.spark.readStream.format("headwater").options(**named)
    if schema is not None:
        reader = reader.option("schema", schema)
    return reader.load()


def _connector(
    context: Context, named: Mapping[str, str], schema: str | None, options: Mapping[str, str]
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if schema is not None and any(name.lower().startswith("deadletter") for name in options):
        raise NotRealTime(
            "Spark's Kafka connector has no dead-letter topic",
            hint="leave out the option, or speed='real-time'",
        )
    records = context.spark.readStream.format("kafka").options(**named).load()
    if schema is None:
        return records
    # FAILFAST: what does not fit stops the query; null columns would hide it.
    value = F.from_json(F.col("value").cast("string"), schema, {"mode": "FAILFAST"})
    return records.select(value.alias("value")).select("value.*")
