"""Between Spark and the machine: which columns rows bring along, and what comes back.

Whatever concerns a row alone is computed by Spark, for all rows at once. Called by `matcher`, on the
driver; the functions that run in workers are in `worker`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.processing.clocks import mark_of
from headwater.processing.patterns.analysis import must_be_boolean, type_of
from headwater.processing.patterns.errors import PatternError
from headwater.processing.patterns.plan import Plan
from headwater.processing.patterns.types import received, sent, wire
from headwater.processing.row_text import one_zero_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

WATERMARK = "spark.watermarkDelayMs"
START, END, TIMED_OUT = "match_start", "match_end", "timed_out"
NULLS_MAX = 62
_OFFSETS = (("_topic", "_partition", "_offset"), ("topic", "partition", "offset"))


@dataclass(frozen=True)
class Words:
    """What of a call is about columns."""

    key: tuple[str, ...]
    time: str
    order: tuple[str, ...]
    """Empty: rows of one time are ordered by a hash of all their columns."""
    conditions: Mapping[str, Column]
    """Those that were given as columns of Spark."""


def time_of(df: DataFrame, time: str | None) -> str:
    """The column of event time: as told, or the one with the watermark.

    Spark drops the watermark of a batch; there it is the only column of times, but for the record's.
    """
    marked = [field.name for field in df.schema.fields if WATERMARK in (field.metadata or {})]
    if df.isStreaming and (time not in marked if time else not marked):
        named = time or "at"
        raise PatternError(
            f"the stream has no watermark{f' on {time!r}' if time else ''}, so it would never be known "
            "what is complete",
            hint=f'say df.withWatermark("{named}", "10 minutes") before `match`',
        )
    found = [time] if time else marked or _times(df)
    if len(found) != 1:
        which = " or ".join(found) or "There is no timestamp"
        raise PatternError(f"which column is the event time? {which}", hint='say it: time="at"')
    return found[0]


def _times(df: DataFrame) -> list[str]:
    fields = [field for field in df.schema.fields if field.dataType.simpleString() == "timestamp"]
    return [field.name for field in fields if field.name != "_timestamp"]


def order_of(df: DataFrame, order: Sequence[str]) -> tuple[str, ...]:
    """What orders rows of one time: as told, or their place in the log where that is known."""
    if order:
        return tuple(order)
    return next((names for names in _OFFSETS if set(names) <= set(df.columns)), ())


def prepared(df: DataFrame, plan: Plan, words: Words, buckets: int) -> DataFrame:
    """Rows with the columns that `worker` tells of; `at` keeps the watermark, `b` is the bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    values = [sent(F.expr(sql), type_of(df, sql, sql), sql) for sql in plan.columns]
    orders = [F.expr(f"`{name}`") for name in words.order]
    if words.order:
        known = {field.name: field.dataType for field in df.schema.fields}
        ordered = [
            sent(column, known[name], name)
            for name, column in zip(words.order, orders, strict=True)
        ]
    else:
        ordered = [F.xxhash64(*(F.col(f"`{name}`") for name in df.columns))]
        orders = [F.lit(1)]
    if len(values) + len(ordered) > NULLS_MAX:
        raise PatternError(f"a match looks at no more than {NULLS_MAX} columns")
    nulls = [F.expr(sql).isNull() for sql in plan.columns] + [column.isNull() for column in orders]
    # A row without a time is nowhere in the sequence.
    return (
        df.where(F.col(f"`{words.time}`").isNotNull())
        .select(
            mark_of(df, words.time, "at"),
            _key(df, words.key).alias("k"),
            F.unix_micros(F.col(f"`{words.time}`")).alias("t"),
            _bits(_conditions(df, plan, words)).alias("m"),
            _bits(nulls).alias("n"),
            *(column.alias(f"v{n}") for n, column in enumerate(values)),
            *(column.alias(f"o{n}") for n, column in enumerate(ordered)),
        )
        .withColumn("b", F.pmod(F.xxhash64("k"), F.lit(buckets)).cast("int"))
    )


def measured(plan: Plan) -> dict[str, DataType]:
    """The type of each measure."""
    from pyspark.sql.types import DataType, NullType

    return {
        name: NullType() if tree.type == "void" else DataType.fromDDL(tree.type)
        for name, tree in plan.measures
    }


def returned(kinds: Mapping[str, DataType]) -> str:
    """The schema of what the machine returns."""
    measures = [f"m{n} {wire(kind, name)}" for n, (name, kind) in enumerate(kinds.items())]
    return ", ".join(["k string", "s bigint", "e bigint", "o boolean", *measures])


def results(
    df: DataFrame, found: DataFrame, words: Words, kinds: Mapping[str, DataType], timeouts: bool
) -> DataFrame:
    """Matches as the user sees them."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [
        *_unkeyed(df, words.key),
        F.timestamp_micros("s").alias(START),
        F.timestamp_micros("e").alias(END),
    ]
    if timeouts:
        columns.append(F.col("o").alias(TIMED_OUT))
    for number, (name, kind) in enumerate(kinds.items()):
        columns.append(received(F.col(f"m{number}"), kind).alias(name))
    return found.select(*columns)


def _conditions(df: DataFrame, plan: Plan, words: Words) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    found = []
    for name, sql in zip(plan.variables, plan.row_conditions, strict=True):
        if name in words.conditions:
            found.append(words.conditions[name])
        elif sql:
            must_be_boolean(type_of(df, sql, f"define {name!r}").simpleString(), f"define {name!r}")
            found.append(F.expr(sql).cast("boolean"))
        else:
            found.append(F.lit(True))
    return found


def _bits(conditions: Sequence[Column]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    total = F.lit(0).cast("bigint")
    for number, condition in enumerate(conditions):
        bit = F.lit(1 << number).cast("bigint")
        total = total.bitwiseOR(F.when(condition, bit).otherwise(F.lit(0).cast("bigint")))
    return total


def _key(df: DataFrame, names: Sequence[str]) -> Column:
    """The key as text: of several columns, a JSON list."""
    from pyspark.sql import functions as F  # noqa: N812

    texts = []
    for name in names:
        kind = df.schema[name].dataType.simpleString()
        if kind.startswith(("array", "map", "struct", "variant")):
            raise PatternError(f"the column {name!r} of type {kind} cannot be a key of `match`")
        column = F.col(f"`{name}`")
        texts.append(F.hex(column) if kind == "binary" else one_zero_text(column))
    return (
        texts[0] if len(texts) == 1 else F.to_json(F.array(*texts), {"ignoreNullFields": "false"})
    )


def _unkeyed(df: DataFrame, names: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    columns = []
    for number, name in enumerate(names):
        text = F.col("k") if len(names) == 1 else F.from_json("k", "array<string>")[number]
        kind = df.schema[name].dataType
        typed = F.unhex(text) if kind.simpleString() == "binary" else text.cast(kind)
        columns.append(typed.alias(name))
    return columns
