"""A view's inputs as they were at one position: batches from the beginning of the log to there.

`sources` and `tables` come here where `Context.pinned` is set; `verify_job` sets it. The user's function
then runs once, over everything, and gives what the view must hold at that position.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.client.position import Position
from headwater.pipelines.context import Context
from headwater.pipelines.errors import PipelineError
from headwater.views.order import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


def records(context: Context, position: Position, chosen: Mapping[str, str]) -> DataFrame:
    """The records before `position`, of the topics that the options name."""
    topics = [name.strip() for name in chosen.get("subscribe", "").split(",") if name.strip()]
    if not topics or chosen.get("startingOffsets") != "earliest":
        raise PipelineError(
            "what the view must be cannot be told from the log: it does not read from the first record "
            "of topics that it names",
            hint="only views that begin at the earliest record can be compared",
        )
    ends = {name: position.offsets[name] for name in topics if name in position.offsets}
    options = {n: v for n, v in chosen.items() if n not in STREAM_ONLY}
    reader = context.spark.read.format("headwater")
    if ends:
        del options["subscribe"]
        options["assign"] = json.dumps({name: sorted(each) for name, each in ends.items()})
        options["endingOffsets"] = json.dumps(
            {name: {str(p): o for p, o in each.items()} for name, each in ends.items()}
        )
        # What retention has taken cannot be compared: `verify_job` says so, and reads the rest.
        options["failOnDataLoss"] = "false"
    read = reader.options(**context.kafka_options(), **options).load()
    return read if ends else read.where("false")


def latest(changes: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Of a table's changes, the last of each key, without the keys that are deleted."""
    from pyspark.sql import functions as F  # noqa: N812

    names = [F.col(quoted(name)) for name in changes.columns]
    # The records of a key are in one partition, where the offset is their order.
    last = F.max_by(F.struct(*names), F.struct("_timestamp", "_partition", "_offset"))
    if_one = F.max_by(F.struct(*names), F.col("_offset"))
    same = F.min("_partition") == F.max("_partition")
    keys = [F.col(quoted(name)).alias(f"_by_{n}") for n, name in enumerate(key)]
    found = changes.groupBy(*keys).agg(F.when(same, if_one).otherwise(last).alias("_row"))
    return found.select("_row.*").where("NOT _deleted")
