"""`to="replies:"`: each row of a view is the answer to one question, and goes where that says.

Written by headwater's sink, so every question is answered exactly once: what a batch answers is in the
topics as a whole, or not at all. Found by `views.targets.registry`, which the package tells of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.pipelines.errors import PipelineError
from headwater.pipelines.rows import EXACT, Result
from headwater.pipelines.tables import MARKS as OF_A_CHANGE
from headwater.pipelines.targets import SparkTarget
from headwater.processing.request_reply.headers import CORRELATION_ID, REQUEST
from headwater.processing.request_reply.questions import ID, MARKS, TO
from headwater.views.order import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPLIES = "replies:"
_PLACE = ("_key", "_topic", "_partition", "_offset")


class RepliesTarget(SparkTarget):
    def writer(self, result: Result) -> object:
        return (
            _records(result)
            .writeStream.format("headwater")
            .options(**result.context.kafka_options())
        )


def _records(result: Result) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    frame, view = result.frame, result.view
    missing = [name for name in (*MARKS, *_PLACE) if name not in frame.columns]
    if missing or result.updates:
        what = f"has no column {missing[0]}" if missing else "changes rows that it gave"
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) goes to replies:, and {what}",
            hint="begin with request_reply.requests(…), and keep its columns that begin with _",
        )
    shown = [name for name in frame.columns if name not in (*MARKS, *OF_A_CHANGE)]
    value = F.to_json(
        F.struct(*(F.col(quoted(name)) for name in shown)), {**EXACT, "ignoreNullFields": "false"}
    )
    place = F.concat_ws("", "_topic", F.lit(":"), "_partition", F.lit("="), "_offset")
    return frame.select(
        F.col(TO).alias("topic"),
        F.col("_key").alias("key"),
        value.alias("value"),
        F.array(
            F.struct(F.lit(CORRELATION_ID).alias("key"), F.col(ID).alias("value")),
            F.struct(F.lit(REQUEST).alias("key"), place.cast("binary").alias("value")),
        ).alias("headers"),
    )
