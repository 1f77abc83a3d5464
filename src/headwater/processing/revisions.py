"""Aggregates by window, and their corrections: `aggregate`.

Without `revise` it is Spark's own aggregation. With it, late events are aggregated by Spark as well, into
groups of their own: a group is given out when the watermark reaches its `_closes`, which is the window's end
for events on time, and at once for late ones.

    events ─▶ Spark's aggregation ─▶ results, and what came late ─▶ fold: one state for each window ─▶ rows
              (any number of events)  (one row for each window and key)

The fold keeps what was given out for a window, as long as `revise` says. What comes late is put together with
it by the aggregates' own expressions, in Spark; the fold itself only remembers and counts.

    window  key  n  revision retracted
    10–11   ada  2  0        false        first
    10–11   ada  2  0        true         the first is taken back
    10–11   ada  3  1        false        and this is so instead
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headwater.pipelines.errors import PipelineError
from headwater.processing.aggregates import Aggregate
from headwater.processing.event_time.events import CLOSES, KEEP
from headwater.processing.row_text import packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKETS = 16
# Without a `_` in front: Spark makes named tuples of the rows, whose fields cannot begin with one.
_BUCKET, _KEY, _KEPT = "bucket", "named", "kept"


def aggregate(
    events: DataFrame,
    by: str | Sequence[str] = (),
    *,
    buckets: int = BUCKETS,
    **aggregates: Aggregate,
) -> DataFrame:
    """One row for each window and key: `window`, the columns of `by`, and the aggregates by their names.

    `events` come from `event_stream(…, window=…)`. With `revise` there, rows also have `revision` (0, 1, …)
    and `retracted`: a correction is the row that was, with `retracted`, and the row that is. A view that
    keeps one row per window and key takes those that are not retracted.
    """
    keys = [by] if isinstance(by, str) else list(by)
    if "window" not in events.columns:
        raise PipelineError(
            "there is no window to aggregate by",
            hint="read with event_stream(…, window=tumbling(…))",
        )
    if CLOSES not in events.columns:
        values = [each.finished(each.partial()).alias(name) for name, each in aggregates.items()]
        return events.groupBy("window", *keys).agg(*values)
    if events.isStreaming:
        return _revised(events, keys, buckets, aggregates)
    return _at_once(events, keys, aggregates)


def _at_once(events: DataFrame, keys: list[str], aggregates: dict[str, Aggregate]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    values = [each.finished(each.partial()).alias(name) for name, each in aggregates.items()]
    whole = events.groupBy("window", *keys).agg(*values)
    return whole.withColumns({"revision": F.lit(0), "retracted": F.lit(False)})


def _revised(
    events: DataFrame, keys: list[str], buckets: int, aggregates: dict[str, Aggregate]
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    from headwater.processing.window_state import Fold

    partial = [each.partial().alias(name) for name, each in aggregates.items()]
    results = events.groupBy(CLOSES, "window", *keys).agg(*partial)
    named = StructType([results.schema[name] for name in (*keys, "window")])
    kept = StructType([results.schema[name] for name in aggregates])
    sent = results.select(
        F.pmod(F.hash(packed(named)), F.lit(buckets)).alias(_BUCKET),
        packed(named).alias(_KEY),
        F.unix_micros("window.end").alias("ends_us"),
        F.unix_micros(CLOSES).alias("closes_us"),
        packed(kept).alias(_KEPT),
    )
    folded = sent.groupBy(_BUCKET).transformWithStateInPandas(
        Fold(events.schema[CLOSES].metadata[KEEP]),
        Fold.OUTPUT,
        outputMode="Append",
        timeMode="None",
    )
    rows = folded.select(
        unpacked(_KEY, named).alias(_KEY),
        *(
            F.transform(name, lambda each: unpacked(each, kept)).alias(name)
            for name in ("before", "after")
        ),
        "revision",
    )
    kinds = {name: results.schema[name].dataType.simpleString() for name in aggregates}
    return _spread(rows, keys, aggregates, kinds)


def _spread(
    rows: DataFrame, keys: list[str], aggregates: dict[str, Aggregate], kinds: dict[str, str]
) -> DataFrame:
    """What was and what is, as rows of their own, in this order."""
    from pyspark.sql import functions as F  # noqa: N812

    def row(side: str, revision: Column, retracted: bool) -> Column:
        values = [
            each.finished(each.merged(F.transform(side, _field(name)), kinds[name])).alias(name)
            for name, each in aggregates.items()
        ]
        marks = [revision.alias("revision"), F.lit(retracted).alias("retracted")]
        return F.struct(*values, *marks)

    is_now = row("after", F.col("revision"), False)
    was = row("before", F.col("revision") - 1, True)
    both = F.when(F.size("before") > 0, F.array(was, is_now)).otherwise(F.array(is_now))
    spread = rows.select(_KEY, F.explode(both).alias("_is"))
    named = [F.col(f"{_KEY}.`{name}`").alias(name) for name in ("window", *keys)]
    return spread.select(*named, "_is.*")


def _field(name: str) -> Callable[[Column], Column]:
    """For Spark's higher-order functions, which count a function's parameters."""

    def field(kept: Column) -> Column:
        return kept[name]

    return field
