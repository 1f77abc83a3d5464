"""A stream joined with a table that follows its own change stream: `enrich` and `as_of`.

    events  ─┐ one text per row                              ┌─▶ event + row of the table
             ├─▶ union ─▶ groups of keys ─▶ versions.Group ──┤
    changes ─┘ key, times, deleted?         (Spark's state)  └─▶ event + nulls, or nothing

A key's rows and the events that ask for it meet in one task; nothing is looked up elsewhere. Keys share
groups, since Spark's state costs Python a fraction of a millisecond for each group that a batch touches,
whatever it holds. A group's state is read and written as a whole: more groups for larger tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headwater.processing.clocks import mark_of
from headwater.processing.durations import Duration, micros
from headwater.processing.joins.errors import BadJoin
from headwater.processing.joins.marks import marked
from headwater.processing.joins.rule import OUT, Rule
from headwater.processing.joins.table_changes import Changes
from headwater.processing.joins.versions import EVER, NEVER
from headwater.processing.row_text import key_text, packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

HOW = ("left", "inner")
GROUPS = 64
FORGET = "7 days"
KEEP = "1 hour"
SNAPSHOT = "r"  # Debezium's word


def as_of(
    events: DataFrame,
    table: Changes,
    *,
    at: str,
    lateness: Duration | None = None,
    on: str | Sequence[str] | None = None,
    valid_from: str = "_timestamp",
    how: str = "left",
    backdated: bool = False,
    forget: Duration = FORGET,
    groups: int = GROUPS,
) -> DataFrame:
    """Each event with the row of the table that was valid at its time `at`.

    `on`: the event's columns that name the row, in the order of the table's key; its names unless given.
    `valid_from`: the table's column that says since when a row is so (null: since ever); a deletion is
    valid from its record's time. `how`: `left` keeps events without a row, with nulls; `inner` drops them.

    An event is decided when the newest event is `lateness` past it (of `processing.event_stream`, which has
    one, it is taken from there). It sees what was recorded by then, that is, until `lateness` after its own
    time: a change told later is for later events only. So a replay gives the same rows, whenever it runs.
    The rows of a snapshot (`op` r) count from their valid time on; with `backdated` every change does, and
    a replay may then know more than the live query did.

    Deletions are remembered for `forget`, in case a change to before it still comes. `groups` belongs to
    the state: about one for each thousand rows of the table.
    """
    sides = _Sides(events, table, at, valid_from, _names(on, table), backdated)
    _check(sides, how)
    events, wait = marked(events, at, lateness, "the stream")
    rule = Rule(wait, NEVER, micros(forget), how == "inner")
    return _joined(replace(sides, events=events), rule, groups)


def enrich(
    events: DataFrame,
    table: Changes,
    *,
    on: str | Sequence[str] | None = None,
    how: str = "left",
    lateness: Duration | None = None,
    keep: Duration = KEEP,
    groups: int = GROUPS,
) -> DataFrame:
    """Each event with the table's row as the log had it at the event's own record time.

    An event sees every change whose record's timestamp is not after its own. It is joined in the batch
    that reads it, for which the table has been read to its end. A change that a producer sent before, but
    the log got after that, is missed; with a `lateness`, events wait that long for such ones.

    Without it, versions are kept for `keep` behind the newest event: an event that is older than that sees
    the oldest version there is. For `on`, `how` and `groups` see `as_of`.
    """
    sides = _Sides(events, table, "_timestamp", "_timestamp", _names(on, table))
    _check(sides, how)
    wait = None
    if lateness is not None:
        events, wait = marked(events, "_timestamp", lateness, "the stream")
    rule = Rule(wait, micros(keep), micros(keep), how == "inner")
    return _joined(replace(sides, events=events), rule, groups)


@dataclass(frozen=True)
class _Sides:
    events: DataFrame
    table: Changes
    at: str
    valid_from: str
    on: tuple[str, ...]
    backdated: bool = False


# ---- the query ----------------------------------------------------------------------------------------


def _joined(sides: _Sides, rule: Rule, groups: int) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    added = [name for name in sides.table.columns if name not in sides.table.key]
    both = _told(sides).unionByName(_changed(sides, added))
    key = F.coalesce(F.xxhash64("key"), F.lit(0))
    grouped = both.withColumn("group", F.pmod(key, F.lit(groups)).cast("int")).groupBy("group")
    if both.isStreaming:
        found = _followed(grouped, rule)
    else:
        # Not the method itself: Spark counts its parameters, and takes self for one.
        found = grouped.applyInPandas(lambda rows: rule.at_once(rows), OUT)
    typed = found.select(
        unpacked("_event", sides.events.schema).alias("_event"),
        unpacked("_row", _struct(sides.table.frame, added)).alias("_row"),
        "mark",
    )
    mine = {name: F.col("_event")[name] for name in sides.events.columns}
    if rule.wait is not None:
        mine[sides.at] = F.col("mark")  # it has the watermark, for windows and joins that follow
    theirs = {name: F.col("_row")[name] for name in added}
    return typed.select(*(column.alias(name) for name, column in {**mine, **theirs}.items()))


def _followed(grouped: Any, rule: Rule) -> DataFrame:
    from headwater.processing.joins.processor import Processor

    if rule.wait is None:
        found: DataFrame = grouped.transformWithStateInPandas(
            Processor(rule), OUT, "append", "None"
        )
    else:
        found = grouped.transformWithStateInPandas(
            Processor(rule), OUT, "append", "EventTime", eventTimeColumnName="mark"
        )
    return found


def _told(sides: _Sides) -> DataFrame:
    """The events; the column that has the watermark must come from them."""
    from pyspark.sql import functions as F  # noqa: N812

    return sides.events.select(
        mark_of(sides.events, sides.at, "mark"),
        F.lit(False).alias("told"),
        key_text(sides.on).alias("key"),
        F.coalesce(F.unix_micros(F.col(f"`{sides.at}`")), F.lit(EVER)).alias("time"),
        *(F.lit(0).cast("long").alias(name) for name in ("recorded", "partition", "offset")),
        F.lit(False).alias("gone"),
        packed(sides.events.schema).alias("text"),
    )


def _changed(sides: _Sides, added: Sequence[str]) -> DataFrame:
    """The changes. They have no watermark: none of them is dropped for being late."""
    from pyspark.sql import functions as F  # noqa: N812

    told = F.unix_micros("_timestamp")
    valid = F.coalesce(F.unix_micros(F.col(f"`{sides.valid_from}`").cast("timestamp")), F.lit(EVER))
    time = F.when(F.col("_deleted"), told).otherwise(valid)
    # A snapshot tells nothing new: it is how the table was when somebody began to listen.
    at_once = F.lit(sides.backdated) | (F.col("_op") == SNAPSHOT)
    rows = sides.table.frame.select(
        F.lit(None).cast("timestamp").alias("mark"),
        F.lit(True).alias("told"),
        key_text(sides.table.key).alias("key"),
        time.alias("time"),
        F.when(at_once, F.least(told, time)).otherwise(told).alias("recorded"),
        F.col("_partition").cast("long").alias("partition"),
        F.col("_offset").cast("long").alias("offset"),
        F.col("_deleted").alias("gone"),
        packed(_struct(sides.table.frame, added)).alias("text"),
    )
    return rows.where("key IS NOT NULL")  # equal to no event's


def _check(sides: _Sides, how: str) -> None:
    events, table = sides.events, sides.table
    if how not in HOW:
        raise BadJoin(f"a join with a table cannot be {how!r}", hint=f"it is {' or '.join(HOW)}")
    if len(sides.on) != len(table.key):
        raise BadJoin(
            f"the table's key is {', '.join(table.key)}, and the events name it by "
            f"{', '.join(sides.on)}",
            hint="give on= one column of the events for each column of the key",
        )
    missing = [name for name in (*sides.on, sides.at) if name not in events.columns]
    if missing:
        raise BadJoin(
            f"the events have no column {missing[0]}",
            hint=f"their columns are {', '.join(events.columns)}",
        )
    if events.schema[sides.at].dataType.typeName() != "timestamp":
        raise BadJoin(f"{sides.at} is no TIMESTAMP", hint="cast it, as in .withColumn(…)")
    if sides.valid_from not in (*table.columns, "_timestamp"):
        raise BadJoin(
            f"the table has no column {sides.valid_from}",
            hint=f"its columns are {', '.join(table.columns)}",
        )
    for mine, theirs in zip(sides.on, table.key, strict=True):
        kinds = events.schema[mine].dataType, table.frame.schema[theirs].dataType
        if kinds[0] != kinds[1]:
            raise BadJoin(
                f"{mine} of the events is {kinds[0].simpleString()}, and {theirs} of the table "
                f"{kinds[1].simpleString()}",
                hint="cast one of them",
            )
    twice = [n for n in table.columns if n in events.columns and n not in table.key]
    if twice:
        raise BadJoin(
            f"the events and the table both have a column {twice[0]}",
            hint="rename it on one side, as in .withColumnRenamed(…)",
        )


def _names(on: str | Sequence[str] | None, table: Changes) -> tuple[str, ...]:
    if on is None:
        return table.key
    return (on,) if isinstance(on, str) else tuple(on)


def _struct(frame: DataFrame, names: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([frame.schema[name] for name in names])
