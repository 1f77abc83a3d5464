"""Two streams joined within a time range: Spark's own join, with what it needs put in its place.

Spark keeps each side until its watermark says that no partner can come, then lets it go, with nulls where
the join is an outer one. For that it wants a watermark on both sides, an equality and a time range;
forgetting one of them is an error that speaks of plans, or state that grows for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.pipelines.tables import MARKS
from headwater.processing.durations import Duration, micros
from headwater.processing.joins.errors import BadJoin
from headwater.processing.joins.marks import marked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOW = {"inner": "inner", "left": "left_outer", "right": "right_outer", "full": "full_outer"}


def within(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str],
    times: tuple[str, str],
    between: tuple[Duration, Duration],
    how: str = "left",
    lateness: Duration | None = None,
) -> DataFrame:
    """Pairs of events that are equal in `on`, the right one `between` so and so long after the left one.

    `times`: the column of event time on each side. `between=("0 seconds", "30 minutes")`: from the
    same moment to half an hour later; `"-5 minutes"` is before. `how`: `inner`, or with the unmatched of one
    side (`left`, `right`) or both (`full`), with nulls for the other. These come when no partner can come
    any more: when both streams have passed the range by their lateness.

    `lateness`: how late an event may come. Later ones are dropped by Spark, and counted; with
    `processing.event_stream` on both sides, and no `lateness` here, they go to the late topic. Columns: those
    of `on` once, then the others of both sides; the marks of a record (`_offset`, …) are the left one's.
    """
    names = [on] if isinstance(on, str) else list(on)
    first, second = _signed(between[0]), _signed(between[1])
    _check(left, right, names, times, how)
    if first > second:
        raise BadJoin(
            f"the time range begins at {between[0]} and ends before that, at {between[1]}",
            hint="the earlier bound comes first",
        )
    right = right.drop(*MARKS)
    left, _ = marked(left, times[0], lateness, "the left side")
    right, _ = marked(right, times[1], lateness, "the right side")
    renamed = right.withColumnsRenamed({name: f"_right_{name}" for name in names})
    condition = _equal(left, renamed, names) & _in_range(left, renamed, times, first, second)
    joined = left.join(renamed, condition, HOW[how])
    return joined.select(*_columns(left, renamed, names, how))


def _equal(left: DataFrame, right: DataFrame, names: Sequence[str]) -> Column:
    found = left[names[0]] == right[f"_right_{names[0]}"]
    for name in names[1:]:
        found = found & (left[name] == right[f"_right_{name}"])
    return found


def _in_range(
    left: DataFrame, right: DataFrame, times: tuple[str, str], first: int, second: int
) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    mine, theirs = left[times[0]], right[times[1]]
    return (theirs >= mine + F.expr(f"INTERVAL '{first}' MICROSECOND")) & (
        theirs <= mine + F.expr(f"INTERVAL '{second}' MICROSECOND")
    )


def _columns(left: DataFrame, right: DataFrame, names: Sequence[str], how: str) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    def once(name: str) -> Column:
        if how in ("inner", "left"):
            return left[name]
        return F.coalesce(left[name], right[f"_right_{name}"]).alias(name)

    keys = [once(name) for name in names]
    mine = [left[name] for name in left.columns if name not in names]
    theirs = [right[name] for name in right.columns if not name.startswith("_right_")]
    return [*keys, *mine, *theirs]


def _signed(duration: Duration) -> int:
    """Microseconds; a bound of a range may lie before the event."""
    if isinstance(duration, timedelta):
        return -micros(-duration) if duration < timedelta() else micros(duration)
    text = duration.strip()
    return -micros(text[1:]) if text.startswith("-") else micros(text)


def _check(
    left: DataFrame, right: DataFrame, names: list[str], times: tuple[str, str], how: str
) -> None:
    if how not in HOW:
        raise BadJoin(f"a join cannot be {how!r}", hint=f"use one of {', '.join(HOW)}")
    for side, frame, wanted in (
        ("left", left, [*names, times[0]]),
        ("right", right, [*names, times[1]]),
    ):
        missing = [name for name in wanted if name not in frame.columns]
        if missing:
            raise BadJoin(
                f"the {side} side has no column {missing[0]}",
                hint=f"its columns are {', '.join(frame.columns)}",
            )
    same = set(left.columns) & set(right.columns) - {*names, *MARKS}
    if same:
        raise BadJoin(
            f"both sides have a column {min(same)}",
            hint="rename it on one side, as in .withColumnRenamed(…)",
        )
