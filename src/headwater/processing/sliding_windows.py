"""Sliding windows: for each event, what there was in the last so and so long, itself included.

    at       ─1──────2──3────────4──────▶        "the last 10 minutes" of each event
    events  10:00  10:06 10:08  10:17            (10:00 − 10 min, 10:00], …, (10:07, 10:17]
    count      1      2   3       2              the 4th sees 3 and itself: 10:07 < 10:08

Spark has this in batch (a window function over a range) and not in streams. Live, events wait until the
watermark has passed them, as only then all before them are there; then each is given out with its aggregates.
Keys are gathered in buckets, and each bucket is computed with arrays (numba) instead of key by key. In a
batch over the past it is Spark's own function, and gives the same rows.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwater.pipelines.errors import PipelineError
from headwater.processing.aggregates import Aggregate
from headwater.processing.durations import Duration, micros

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

BUCKETS = 32
KINDS = {
    "count": "bigint",
    "total": "double",
    "minimum": "double",
    "maximum": "double",
    "mean": "double",
}
_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
_BUCKET, _KEY, _AT, _ROW = "_bucket", "_by", "_at", "_row"


def sliding(
    events: DataFrame,
    by: str | Sequence[str],
    over: Duration,
    *,
    time: str,
    buckets: int = BUCKETS,
    **aggregates: Aggregate,
) -> DataFrame:
    """Each event with aggregates over the events of its key in the last `over`: (time − over, time].

    `aggregates` are `count`, `total`, `minimum`, `maximum` and `mean`; all but counts are DOUBLE. Events of
    one moment see each other. `buckets`, for how many parts of the keys state is kept, belongs to the
    checkpoint.
    """
    keys = [by] if isinstance(by, str) else list(by)
    for name, each in aggregates.items():
        if each.kind not in KINDS:
            raise PipelineError(
                f"{name}: a sliding window has count, total, minimum, maximum and mean, and no sketches",
                hint="use tumbling or hopping windows for it",
            )
    length = micros(over)
    if not events.isStreaming:
        return _in_batch(events, keys, length, time, aggregates)
    return _live(events, keys, length, time, buckets, aggregates)


def _in_batch(
    events: DataFrame, keys: list[str], length: int, time: str, aggregates: dict[str, Aggregate]
) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    over = Window.partitionBy(*keys).orderBy(F.unix_micros(time)).rangeBetween(1 - length, 0)
    functions: dict[str, Callable[[Any], Column]] = {
        "count": F.count,
        "total": F.sum,
        "minimum": F.min,
        "maximum": F.max,
        "mean": F.avg,
    }
    added = {
        name: functions[each.kind](_value(each)).over(over).cast(KINDS[each.kind])
        for name, each in aggregates.items()
    }
    return events.withColumns(added)


def _live(
    events: DataFrame,
    keys: list[str],
    length: int,
    time: str,
    buckets: int,
    aggregates: dict[str, Aggregate],
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    key = F.to_json(F.struct(*keys), _JSON)
    # The row travels as text: pandas would turn whole numbers that are null into fractions.
    row = F.to_json(F.struct(*(F.col(f"`{name}`") for name in events.columns)), _JSON)
    values = {f"_v{n}": _value(each) for n, each in enumerate(aggregates.values())}
    sent = events.select(
        F.pmod(F.hash(key), F.lit(buckets)).alias(_BUCKET),
        key.alias(_KEY),
        F.unix_micros(time).alias(_AT),
        row.alias(_ROW),
        F.col(f"`{time}`"),  # Spark finds its watermark by this column
        *(value.cast("double").alias(name) for name, value in values.items()),
    )
    kinds = [each.kind for each in aggregates.values()]
    names = list(aggregates)
    found = ", ".join(f"`{name}` {KINDS[kind]}" for name, kind in zip(names, kinds, strict=True))
    grouped = sent.groupBy(_BUCKET).applyInPandasWithState(
        _step(length, kinds, names),
        outputStructType=f"{_ROW} STRING, {found}",
        stateStructType="kept BINARY",
        outputMode="append",
        timeoutConf="EventTimeTimeout",
    )
    read = F.from_json(_ROW, events.schema, {"timestampFormat": _JSON["timestampFormat"]})
    whole = grouped.select(read.alias(_ROW), *(F.col(f"`{name}`") for name in names))
    return whole.select(f"{_ROW}.*", *(F.col(f"`{name}`") for name in names))


def _value(aggregate: Aggregate) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.lit(1) if aggregate.column is None else F.col(aggregate.column)


def _step(
    length: int, kinds: list[str], names: list[str]
) -> Callable[[Any, Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """What happens to a bucket in a batch: take in, give out what is over, forget what is too old."""

    def step(_: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        from headwater.processing.ranges import aggregated

        values = [f"_v{n}" for n in range(len(kinds))]
        parts = [_unpacked(state.get[0])] if state.exists else []
        parts += [frame[[_KEY, _AT, _ROW, *values]] for frame in frames if len(frame)]
        watermark = state.getCurrentWatermarkMs() * 1000
        held = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        if held.empty:
            return
        held = held.sort_values([_KEY, _AT, _ROW], kind="stable", ignore_index=True)
        # Without a row: given out before, and kept for those that come after it.
        due = (held[_AT] <= watermark) & held[_ROW].notna()
        if due.any():
            keys = held[_KEY].factorize()[0]
            columns = aggregated(keys, held[_AT].to_numpy(), held[values].to_numpy(), kinds, length)
            out = pd.DataFrame(dict(zip(names, columns, strict=True)))[due]
            out.insert(0, _ROW, held[_ROW][due])
            held.loc[due, _ROW] = None
            yield out
        held = held[(held[_AT] > watermark - length) | held[_ROW].notna()]
        _keep(held, state, watermark)

    return step


def _keep(held: pd.DataFrame, state: Any, watermark: int) -> None:
    if held.empty:
        state.remove()
        return
    state.update((_packed(held),))
    waiting = held[_AT][held[_ROW].notna()]
    # With none that waits, the next event of the bucket, or the end of the range, brings it back.
    next_us = int(waiting.min()) if len(waiting) else int(held[_AT].max()) + 1
    state.setTimeoutTimestamp(max(-(-next_us // 1000) - 1, watermark // 1000 + 1))


def _packed(frame: pd.DataFrame) -> bytes:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _unpacked(data: bytes) -> pd.DataFrame:
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        return reader.read_all().to_pandas()
