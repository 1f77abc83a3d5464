"""Sliding windows: for each event, what there was in the last so and so long, itself included.

    at       ─1──────2──3────────4──────▶        "the last 10 minutes" of each event
    events  10:00  10:06 10:08  10:17            (10:00 − 10 min, 10:00], …, (10:07, 10:17]
    count      1      2   3       2              the 4th sees 3 and itself: 10:07 < 10:08

Spark has this in batch (a window function over a range) and not in streams. Live, events wait until the
watermark has passed them, as only then all before them are there; then each is given out with its aggregates
(`Step`). In a batch over the past it is Spark's own function, and gives the same rows, to the last
digit: `measures` says of each type of column what is added up, and in which order.

Also here: what a bucket of keys remembers between two batches, and what happens to it in one: in Spark's
workers.

Each event is sent as its key, its time, its row as text, and for each aggregate whether there
is a value and which. An event waits until the watermark has passed it, and is kept without its row for as
long as others can see it. State is one Arrow table for each bucket:

    _by  _at  _row (null: was given out)  _p0 _v0  _p1 _v1 …
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.processing.aggregates import Aggregate
from headwater.processing.clocks import event_micros, mark_of
from headwater.processing.durations import Duration, micros
from headwater.processing.measures import DECIMAL, FRACTION, Measure, measure, unsigned_zero
from headwater.processing.row_text import JSON, packed, quoted, unpacked

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame


BUCKETS = 32
_BUCKET = "_bucket"


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

    `aggregates` are `count`, `sum`, `min`, `max` and `avg`; all but counts are DOUBLE. Events of
    one moment see each other. `buckets`, for how many parts of the keys state is kept, belongs to the
    checkpoint.
    """
    keys = [by] if isinstance(by, str) else list(by)
    measures = {name: measure(name, each, events) for name, each in aggregates.items()}
    length = micros(over)
    if not events.isStreaming:
        return _in_batch(events, keys, length, time, measures)
    return _live(events, keys, length, time, buckets, measures)


def _in_batch(
    events: DataFrame, keys: list[str], length: int, time: str, measures: dict[str, Measure]
) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    placed = events.withColumns({KEY: _key(events, keys), AT: event_micros(events, time)})
    order = [each.order() for each in measures.values() if each.in_order]
    if order:
        # Spark's window takes rows as they come where they are in its order already.
        placed = placed.repartition(KEY).sortWithinPartitions(KEY, AT, *order)
    over = Window.partitionBy(KEY).orderBy(AT).rangeBetween(1 - length, 0)
    found = placed.withColumns({name: each.over(over) for name, each in measures.items()})
    return found.select(*(F.col(quoted(name)) for name in (*events.columns, *measures)))


def _live(
    events: DataFrame,
    keys: list[str],
    length: int,
    time: str,
    buckets: int,
    measures: dict[str, Measure],
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    key = _key(events, keys)
    numbered = list(enumerate(measures.values()))
    sent = events.select(
        F.pmod(F.hash(key), F.lit(buckets)).alias(_BUCKET),
        key.alias(KEY),
        event_micros(events, time).alias(AT),
        # The row travels as text: pandas would turn whole numbers that are null into fractions.
        packed(events.schema).alias(ROW),
        mark_of(events, time, time),  # Spark finds its watermark by this column
        *(each.present().alias(counts(n)) for n, each in numbered),
        *(each.sent().alias(sends(n)) for n, each in numbered),
    )
    step = Step(length, tuple(measures.values()))
    grouped = sent.groupBy(_BUCKET).applyInPandasWithState(
        # Not the object itself: Spark asks a function for its name.
        lambda key, frames, state: step(key, frames, state),
        outputStructType=f"{ROW} STRING, {step.columns}",
        stateStructType="kept BINARY",
        outputMode="append",
        timeoutConf="EventTimeTimeout",
    )
    whole = grouped.select(
        unpacked(ROW, events.schema).alias(ROW),
        *(_found(n, each).alias(name) for n, (name, each) in enumerate(measures.items())),
    )
    return whole.select(f"{ROW}.*", *(F.col(quoted(name)) for name in measures))


def _found(number: int, measure: Measure) -> Column:
    """A worker's result. pandas has made null of NaN: where there is something, null was NaN."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col(finds(number))
    if measure.kind != "count":
        value = F.when(F.col(counts(number)), F.coalesce(value, F.lit(float("nan"))))
    return value.cast(measure.result)


def _key(events: DataFrame, keys: list[str]) -> Column:
    """The key as a text, equal where Spark's own grouping says so: NaN is NaN, and zero has no sign."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DoubleType, FloatType

    kinds = events.select(*keys).schema if keys else ()
    named = [
        unsigned_zero(F.col(name)).cast(each.dataType).alias(each.name)
        if isinstance(each.dataType, DoubleType | FloatType)
        else F.col(name)
        for name, each in zip(keys, kinds, strict=True)
    ]
    return F.to_json(F.struct(*named), JSON) if named else F.lit("{}")


KEY, AT, ROW = "_by", "_at", "_row"


def counts(number: int) -> str:
    """The column that says whether there is a value."""
    return f"_p{number}"


def sends(number: int) -> str:
    return f"_v{number}"


def finds(number: int) -> str:
    return f"_r{number}"


@dataclass(frozen=True)
class Step:
    """What happens to a bucket in a batch: take in, give out what is over, forget what is too old."""

    length: int
    measures: tuple[Measure, ...]

    @property
    def columns(self) -> str:
        """What a worker gives for the aggregates, as Spark's schema."""
        return ", ".join(
            f"{counts(n)} BOOLEAN, {finds(n)} {each.result}" for n, each in enumerate(self.measures)
        )

    def __call__(
        self, _: Any, frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        names = [name(n) for n in range(len(self.measures)) for name in (counts, sends)]
        parts = [_of_today(_unpacked(state.get[0]), self.measures)] if state.exists else []
        parts += [frame[[KEY, AT, ROW, *names]] for frame in frames if len(frame)]
        watermark = state.getCurrentWatermarkMs() * 1000
        held = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        if held.empty:
            return
        held = held.sort_values([KEY, AT, *self._order()], kind="stable", ignore_index=True)
        due = ((held[AT] <= watermark) & held[ROW].notna()).to_numpy()
        if due.any():
            yield self._given_out(held, due)
            held.loc[due, ROW] = None
        held = held[(held[AT] > watermark - self.length) | held[ROW].notna()]
        _keep(held, state, watermark)

    def _order(self) -> list[str]:
        """As `Measure.order` has it: what is missing, then from the smallest on, then NaN."""
        ordered = [n for n, each in enumerate(self.measures) if each.in_order]
        return [name(n) for n in ordered for name in (counts, sends)]

    def _given_out(self, held: pd.DataFrame, due: Any) -> pd.DataFrame:
        import pandas as pd

        from headwater.processing.ranges import Ranges

        ranges = Ranges.of(held[KEY].factorize()[0], held[AT].to_numpy(), self.length, due)
        out: dict[str, Any] = {ROW: held[ROW].to_numpy()[due]}
        for number, each in enumerate(self.measures):
            present = held[counts(number)].to_numpy(dtype=bool)
            found = ranges.measured(each, present, held[sends(number)])
            out[counts(number)], out[finds(number)] = found.there, found.values
        return pd.DataFrame(out)


def _keep(held: pd.DataFrame, state: Any, watermark: int) -> None:
    if held.empty:
        state.remove()
        return
    state.update((_packed(held),))
    waiting = held[AT][held[ROW].notna()]
    # With none that waits, the next event of the bucket, or the end of the range, brings it back.
    next_us = int(waiting.min()) if len(waiting) else int(held[AT].max()) + 1
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


def _of_today(frame: pd.DataFrame, measures: tuple[Measure, ...]) -> pd.DataFrame:
    """State of versions that kept every value as a fraction, and NaN where there was none."""
    for number, each in enumerate(measures):
        if counts(number) in frame.columns:
            continue
        value = frame[sends(number)]
        frame[counts(number)] = value.notna()
        value = value.fillna(0.0)
        if each.form == DECIMAL:
            frame[sends(number)] = [f"{one:.{each.scale}f}" for one in value]
        elif each.form != FRACTION:
            frame[sends(number)] = value.astype("int64")
    return frame
