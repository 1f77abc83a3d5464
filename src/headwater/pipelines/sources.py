"""`stream` to Spark: which source reads a topic, and with which options.

In micro-batches that is headwater's own source; at real-time speed Spark's Kafka connector, since
that mode takes no Python source. Both have the same columns, and with `schema` the same typed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.pipelines import inputs, registry
from headwater.pipelines.context import Context, Reading
from headwater.pipelines.declarations import REAL_TIME
from headwater.pipelines.errors import NotRealTime
from headwater.views.tables.json_parts import is_altered, part

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

# Views are written in transactions: without this, a view of a view could see what was taken back.
COMMITTED = {"kafka.isolation.level": "read_committed"}
_OURS = ("deadLetterTopic", "mode", "columns", "files", "registry", "registryPin", "registryWatch")
OF_THE_RECORD = ("_key", "_topic", "_partition", "_offset", "_timestamp")


def events(
    context: Context,
    topic: str,
    *,
    schema: str | None,
    starting: str,
    options: Mapping[str, str],
) -> DataFrame:
    """The streaming DataFrame of a topic; `options` say of a registry what it says of the topic."""
    chosen = {"subscribe": topic, "startingOffsets": starting, **COMMITTED, **options}
    if registry.OPTION in options:
        chosen |= registry.pins(context)
    if context.speed == REAL_TIME:
        records = _by_connector(context, chosen, schema)
    else:
        records = _by_headwater(context, chosen, schema)
    return records if schema is None else _flat(records)


def _by_headwater(context: Context, chosen: dict[str, str], schema: str | None) -> DataFrame:
    if schema is not None:
        chosen["schema"] = schema
        if context.view is not None and "deadLetterTopic" not in chosen:
            chosen["deadLetterTopic"] = context.view.dead_letters
            context.dead_letters = True
    if context.records is not None:
        return context.records
    if context.pinned is not None:
        return inputs.records(context, context.pinned, chosen)
    if context.view is not None:
        chosen |= context.bounds(chosen)
        if context.alone:
            chosen.setdefault("waitForRecords", "true")
    options = {**context.kafka_options(), **chosen}
    read = context.spark.readStream.format("headwater").options(**options).load()
    context.reading.append(Reading(options, read.schema))
    return read


def _by_connector(context: Context, chosen: dict[str, str], schema: str | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    if ours := [name for name in chosen if name in _OURS]:
        raise NotRealTime(
            f"Spark's Kafka connector, which reads at real-time speed, has no option {ours[0]}",
            hint="leave it out, or leave out speed=",
        )
    if "security.protocol" in context.client:
        raise NotRealTime(
            "Spark's Kafka connector, which reads at real-time speed, takes Java's names for a login "
            "and TLS, and these are librdkafka's",
            hint="leave out speed=",
        )
    reader = context.spark.readStream.format("kafka")
    records = reader.options(**context.kafka_options(), **chosen).load()
    if schema is None:
        return records
    row = StructType.fromDDL(schema)
    assert isinstance(row, StructType)
    texts = records.withColumn("value", F.col("value").cast("string"))
    return texts.withColumn("value", exactly("value", (), row))


def exactly(name: str, path: tuple[str, ...], row: StructType, marked: str = "") -> Column:
    """What is at the path of a column's text as a row; an error where it is none, or would be another."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col(name)
    said = F.format_string(
        "%s: the value at offset %d of partition %d is no JSON, or would be read as another value: a number "
        "or a time is out of its column's range or has more digits, a map has a key twice, or more follows "
        "behind the JSON; write it as its columns are, or leave out speed= to have it as a dead letter",
        *(F.col(f"{marked}{each}") for each in ("topic", "offset", "partition")),
    )
    # FAILFAST: what does not fit stops the query; null columns would hide it.
    read = part(text, path, row, "FAILFAST")
    return F.when(is_altered(text, path, row), F.raise_error(said).cast(row)).otherwise(read)


def _flat(records: DataFrame) -> DataFrame:
    """The fields of the value as columns, and what Kafka knows of the record with a `_` in front."""
    from pyspark.sql import functions as F  # noqa: N812

    return records.select("value.*", *(F.col(name[1:]).alias(name) for name in OF_THE_RECORD))
