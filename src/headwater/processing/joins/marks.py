"""Which column of a stream has Spark's watermark, and how far it is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.processing.durations import Duration, interval, micros
from headwater.processing.joins.errors import BadJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DELAY = "spark.watermarkDelayMs"  # the mark by which Spark knows a column with a watermark


def lateness_of(frame: DataFrame, time: str) -> int | None:
    """In microseconds; None where the column has no watermark."""
    found = frame.schema[time].metadata.get(_DELAY)
    return None if found is None else int(found) * 1000


def marked(
    frame: DataFrame, time: str, lateness: Duration | None, side: str
) -> tuple[DataFrame, int]:
    """The stream with a watermark on `time`, its own where it has one; and its lateness."""
    known = lateness_of(frame, time)
    if known is not None:
        if lateness is not None and micros(lateness) != known:
            raise BadJoin(
                f"{side} has a watermark already, {known // 1000} ms behind its newest, and the join is "
                f"given another lateness, {lateness}",
                hint="leave out lateness=",
            )
        return frame, known
    if lateness is None:
        raise BadJoin(
            f"nobody says how late an event of {side} may come",
            hint="give lateness=, or begin with processing.event_stream(…, lateness=…)",
        )
    if not frame.isStreaming:
        return frame, micros(lateness)  # Spark would only drop the mark again
    return frame.withWatermark(time, interval(lateness)), micros(lateness)
