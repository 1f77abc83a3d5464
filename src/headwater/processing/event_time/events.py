"""`event_stream`: a topic as a stream of events in time. The beginning of a query with windows.

    orders = p.event_stream("orders", schema=ORDER, time="at", lateness="10 minutes",
                      window=p.tumbling("1 hour"))
    orders.groupBy("window", "customer").agg(F.sum("total").alias("total"))

A DataFrame like that of `hw.stream`, with Spark's watermark set, and what Spark alone does not do: late
events go to a topic, device clocks are corrected, a source without events does not hold up time. In a batch
over the past (`headwater verify`, a test) the same call gives the same events; nothing is late there.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.local_path import local_path
from headwater.pipelines import sources
from headwater.pipelines.context import Context, current
from headwater.pipelines.declarations import REAL_TIME
from headwater.pipelines.errors import NotRealTime, PipelineError
from headwater.processing.clocks import Corrected, corrected_time, event_micros
from headwater.processing.durations import Duration, interval, micros, millis
from headwater.processing.event_time.options import Timing
from headwater.processing.windows import SESSION, Window
from headwater.views.order import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLOCK = "spark.headwater.clock"
"""Setting of the session: a file with the time in milliseconds, where a test turns the clock."""
CLOSES = "_closes"
"""Column of events whose windows are revised: when what the row adds to is given out."""
KEEP = "headwater.keep"
"""In that column's metadata: how long after its end a window is kept, in microseconds."""
KEPT = "1 day"
_TIME, _TICK, _WATERMARK = "event_time", "tick", "watermark"
_KNOWN: weakref.WeakSet[SparkSession] = weakref.WeakSet()
"""Sessions that have the source."""
_DELAY = "spark.watermarkDelayMs"  # the mark by which Spark knows a column with a watermark


def event_stream(
    topic: str,
    *,
    schema: str,
    time: str | Corrected,
    lateness: Duration = "0 seconds",
    window: Window | None = None,
    late: bool | str = True,
    revise: bool | Duration = False,
    idle: Duration | None = None,
    ahead: Duration | None = None,
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The events of a topic: the columns of `hw.stream`, in event time, with a `window` each.

    `time` names the event's time, a TIMESTAMP of the schema, or says how it is corrected (`corrected`).
    `lateness` is how long is waited for events that are behind the newest; what comes later goes to the
    topic `late`, by itself `late.headwater-VIEW` (`late=False`: Spark drops it). `revise` keeps windows for a
    day, or as long as it says, so that late events correct them (`aggregate`). After `idle` without
    events time goes on by the clock. An event that is more than `ahead` before its record's timestamp, or
    has no time, goes to the late topic and moves nothing.
    """
    context = current()
    context.streams.extend(name.strip() for name in topic.split(","))
    timing = _timing(context, time, lateness, window, late, revise, idle, ahead)
    chosen = dict(options or {})
    if context.pinned is not None:
        found = _past(context, topic, schema, starting, chosen, timing)
    else:
        found = _live(context, topic, schema, starting, chosen, timing)
    found = found.withWatermark(timing.time, interval(lateness))
    return _windowed(_without_ticks(found, timing), timing, bool(revise), millis(lateness))


def _timing(
    context: Context,
    time: str | Corrected,
    lateness: Duration,
    window: Window | None,
    late: bool | str,
    revise: bool | Duration,
    idle: Duration | None,
    ahead: Duration | None,
) -> Timing:
    if revise and (window is None or window.kind == SESSION):
        raise PipelineError(
            "only tumbling and hopping windows can be revised",
            hint="give window=tumbling(…) or hopping(…), or leave out revise: late events then go to "
            "the late topic",
        )
    name = late if isinstance(late, str) else None
    if late is True and context.view is not None:
        name = f"late.headwater-{context.view.name}"
    # Without a checkpoint (a notebook) nobody can tell what is late: then Spark decides, and drops.
    known = context.checkpoint is not None and local_path(context.checkpoint) is not None
    if not known and context.pinned is None and (revise or ahead is not None):
        raise PipelineError(
            "what is late cannot be told without a checkpoint in a folder that the driver sees",
            hint="leave out revise and ahead, or run it with headwater run and --checkpoints FOLDER",
        )
    if ahead is not None and name is None and context.pinned is None:
        raise PipelineError(
            "events that are ahead go to the late topic, and there is none",
            hint="leave out late=False",
        )
    keep = micros(KEPT if revise is True else revise) if revise else 0
    return Timing(
        time=time if isinstance(time, str) else time.event,
        lateness=micros(lateness),
        corrected=time if isinstance(time, Corrected) else None,
        window=window,
        ahead=None if ahead is None else micros(ahead),
        idle=None if idle is None else micros(idle),
        late=name if known else None,
        keep=keep,
        checkpoint=context.checkpoint if known and (name is not None or revise) else None,
        clock=context.spark.conf.get(CLOCK, None),
    )


def _live(
    context: Context,
    topic: str,
    schema: str,
    starting: str,
    options: dict[str, str],
    timing: Timing,
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    from headwater.processing.event_time.source import FORMAT, EventsDataSource

    if context.speed == REAL_TIME:
        raise NotRealTime(
            "events in time are read by headwater's own source", hint="leave out speed="
        )
    chosen = {"subscribe": topic, "startingOffsets": starting, **sources.COMMITTED, **options}
    chosen["schema"] = schema
    if context.view is not None:
        chosen.setdefault("deadLetterTopic", context.view.dead_letters)
        context.dead_letters = True
        chosen |= context.bounds(chosen)
    if context.spark not in _KNOWN:  # again would do no harm, but Spark warns of it
        context.spark.dataSource.register(EventsDataSource)
        _KNOWN.add(context.spark)
    reader = context.spark.readStream.format(FORMAT)
    reader = reader.options(**context.kafka_options(), **chosen, **timing.to_options())
    read = reader.load()
    marks = [F.col(name[1:]).alias(name) for name in sources.OF_THE_RECORD]
    flat = read.select("value.*", *marks, _TIME, _TICK, _WATERMARK)
    return flat.withColumn(timing.time, F.col(_TIME)).drop(_TIME)


def _past(
    context: Context,
    topic: str,
    schema: str,
    starting: str,
    options: dict[str, str],
    timing: Timing,
) -> DataFrame:
    """The same events where all of them are there already."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampNTZType

    found = sources.events(context, topic, schema=schema, starting=starting, options=options)
    if isinstance(found.schema[timing.time].dataType, TimestampNTZType):
        found = found.withColumn(timing.time, F.timestamp_micros(event_micros(found, timing.time)))
    if timing.corrected is not None:
        received = timing.corrected.received or "_timestamp"
        moved = corrected_time(timing.time, timing.corrected.sent, received)
        found = found.withColumn(timing.time, moved)
    found = found.where(F.col(timing.time).isNotNull())
    if timing.ahead is not None:
        ahead = F.unix_micros(timing.time) - F.unix_micros("_timestamp")
        found = found.where(ahead <= timing.ahead)
    nothing = F.lit(None).cast("timestamp")
    return found.withColumn(_TICK, nothing).withColumn(_WATERMARK, F.timestamp_micros(F.lit(0)))


def _without_ticks(frame: DataFrame, timing: Timing) -> DataFrame:
    """Ticks have moved the watermark, and are no events.

    One condition over both columns: Spark would move a condition on the tick alone to before the
    watermark, where the tick would be gone too soon.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if timing.idle is not None:
        frame = frame.where(~F.col(timing.time).eqNullSafe(F.col(_TICK)))
    return frame.drop(_TICK)


def _windowed(frame: DataFrame, timing: Timing, revise: bool, delay_ms: int) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if timing.window is None:
        return frame.drop(_WATERMARK)
    frame = frame.withColumn("window", timing.window.column(timing.time))
    if not revise:
        return frame.drop(_WATERMARK)
    end = F.col("window.end")
    soon = F.timestamp_micros(F.unix_micros(_WATERMARK) + 1000)
    closes = F.when(end > F.col(_WATERMARK), end).otherwise(soon)
    # A struct of its own, so that Spark closes groups by `_closes` and not by the window's end.
    window = F.struct(F.col("window.start").alias("start"), end.alias("end"))
    return frame.select(
        *(F.col(quoted(name)) for name in frame.columns if name not in ("window", _WATERMARK)),
        window.alias("window"),
        closes.alias(CLOSES, metadata={_DELAY: delay_ms, KEEP: timing.keep}),
    )
