"""`match`: sequences of rows per key in event time, as SQL's MATCH_RECOGNIZE has them.

    bursts = match(
        payments.withWatermark("at", "1 minute"),
        key="card",
        pattern="SMALL{3,} LARGE",
        define={"SMALL": "amount < 10", "LARGE": "amount > 50 * avg(SMALL.amount)"},
        within="10 minutes",
        measures={"tries": "count(SMALL)", "taken": "LARGE.amount"},
    )

On a stream and on a batch, with the same result: docs/patterns.md says what it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.processing.durations import Duration
from headwater.processing.patterns import frames
from headwater.processing.patterns.analysis import Analysis
from headwater.processing.patterns.errors import PatternError
from headwater.processing.patterns.machine import Machine
from headwater.processing.patterns.plan import PAST_LAST_ROW, Plan, plan
from headwater.processing.patterns.types import as_text
from headwater.processing.patterns.worker import Work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKETS = 32


def match(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    pattern: str,
    within: Duration,
    define: Mapping[str, str | Column] | None = None,
    measures: Mapping[str, str] | None = None,
    skip: str = PAST_LAST_ROW,
    timeouts: bool = False,
    time: str | None = None,
    order: str | Sequence[str] = (),
    buckets: int = BUCKETS,
) -> DataFrame:
    """Every match of `pattern` in the rows of each key, one row for each.

    `pattern`: variables one after the other, with `|`, `( )`, quantifiers (`?` `*` `+` `{n,m}`, with `?`
    behind them reluctant), `!B` for a row that is not B, `$` for "nothing more in time". `define`: what a
    row must fulfil to be bound to a variable; SQL, which may look back (`price > A.price`,
    `count(B) < 3`). `within`: from the first row of a match to its last, at most. `skip`: where the
    search goes on after a match: `past last row`, `to next row`, `to first A`, `to last A`.

    The result has the key, `match_start`, `match_end` and the `measures`. With `timeouts`, beginnings
    that ran out of `within` are results as well, and a column `timed_out` tells them apart.

    `time`: the column of event time, by default the one with the watermark. `order`: the columns that
    order rows of the same time; by default their place in the log, or else a hash of them. `buckets`:
    into how many parts a stream's state is divided; fixed for the life of a checkpoint.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    orders = (order,) if isinstance(order, str) else tuple(order)
    given: dict[str, Any] = dict(define or {})
    columns = {name: said for name, said in given.items() if not isinstance(said, str)}
    wanted = dict(measures or {})
    _check(df, keys, orders, wanted, buckets)
    words = frames.Words(keys, frames.time_of(df, time), frames.order_of(df, orders), columns)
    more = repr((keys, words.time, words.order, buckets, sorted(columns.items(), key=str)))
    planned = plan(
        pattern,
        {name: "" if name in columns else said for name, said in given.items()},
        within,
        skip,
        wanted,
        timeouts,
        Analysis(df),
        more,
    )
    # What it cannot compute is refused here, and not in a worker.
    Machine(planned)
    return _run(df, planned, words, buckets)


def _run(df: DataFrame, planned: Plan, words: frames.Words, buckets: int) -> DataFrame:
    kinds = frames.measured(planned)
    schema = frames.returned(kinds)
    rows = frames.prepared(df, planned, words, buckets)
    orders = max(1, len(words.order))
    work = Work(planned, orders, tuple(map(as_text, kinds.values())))
    if df.isStreaming:
        found = rows.groupBy("b").applyInPandasWithState(
            work.stream, schema, "blob binary", "append", "EventTimeTimeout"
        )
    else:
        places = [f"o{number}" for number in range(orders)]
        found = (
            rows.drop("at", "b")
            .repartition("k")
            .sortWithinPartitions("k", "t", *_nulls_first(len(planned.columns), places))
            .mapInPandas(work.batch, schema)
        )
    return frames.results(df, found, words, kinds, planned.timeouts)


def _nulls_first(values: int, places: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    order = []
    for number, place in enumerate(places):
        known = F.shiftright("n", values + number).bitwiseAND(F.lit(1).cast("bigint"))
        order += [known.desc(), F.col(place)]
    return order


def _check(
    df: DataFrame,
    keys: tuple[str, ...],
    orders: tuple[str, ...],
    measures: Mapping[str, str],
    buckets: int,
) -> None:
    if not keys:
        raise PatternError("matches are found per key; name at least one column", hint='key="card"')
    for name in (*keys, *orders):
        if name not in df.columns:
            raise PatternError(
                f"there is no column {name!r}", hint=f"the rows have {', '.join(df.columns)}"
            )
    taken = {*keys, frames.START, frames.END, frames.TIMED_OUT}
    if clash := sorted(taken & set(measures)):
        raise PatternError(f"measures {clash[0]!r}: the result has a column of that name already")
    if buckets < 1:
        raise PatternError("`buckets` is at least 1")
