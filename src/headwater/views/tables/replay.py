"""The rows of a table after all of its changes, by Spark: what `headwater verify` computes a view from.

Read by the same `decoder` and by the same rules as `net_changes` has for a batch's changes, so that a view is
compared with what it must be: a row that moved to another key, or was in a table that was emptied, is
gone here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.views.tables.decoder import Decoder, Table
from headwater.views.tables.value_forms import may_be_quick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Kept:
    """Rows that Spark keeps, in memory and on disk, until they are let go of."""

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __call__(self, frame: DataFrame) -> DataFrame:
        self._frames.append(frame.persist())
        return self._frames[-1]

    def forget(self) -> None:
        for frame in self._frames:
            frame.unpersist()


def rows(records: DataFrame, table: Table, keep: Kept) -> DataFrame:
    """The table, from the records of its topic from the first one on; bad values are left out."""
    # Its changes are looked at three times: kept, they are read and decoded once. Nor can Spark then move
    # conditions to below what they look at, and with them copies of all expressions that read a value.
    plainly = may_be_quick(table)
    read = keep(Decoder([table], plainly=plainly).frame(records, "timestamp"))
    seen = _Seen.of(read, plainly)
    if seen.doubt:
        read = keep(Decoder([table]).frame(records, "timestamp"))
    changes = read.where("bad IS NULL").select("p", "o", "timestamp", "t0.*")
    has_key = " AND ".join(f"c{n} IS NOT NULL" for n in table.keys)
    changes = changes.where(f"emptied OR ({has_key})")
    for name in table.required:
        changes = changes.where(f"emptied OR gone OR c{table.row.names.index(name)} IS NOT NULL")
    if seen.emptied:
        changes = after_truncates(changes)
    return _latest(_steps(changes, table, seen), table, seen)


@dataclass(frozen=True)
class _Seen:
    """What is among the changes of a table: most have neither truncates nor rows that move, and each of these
    would be as much for Spark to plan as all the rest."""

    doubt: bool
    """Whether there is a value that has to be read part by part."""
    emptied: bool = True
    moved: bool = True
    partitions: bool = True
    """Whether they are from more than one."""

    @classmethod
    def of(cls, read: DataFrame, plainly: bool) -> _Seen:
        if not plainly:
            return cls(doubt=False)
        found = read.selectExpr(
            "bool_or(doubt)", "bool_or(t0.emptied)", "bool_or(t0.m0 IS NOT NULL)", "min(p) < max(p)"
        ).collect()[0]
        if found[0]:
            return cls(doubt=True)
        return cls(*(bool(each) for each in found))


def after_truncates(changes: DataFrame) -> DataFrame:
    """Without what came before a truncate in its partition, and without that."""
    from pyspark.sql import functions as F  # noqa: N812

    emptied = changes.where("emptied").groupBy("p").agg(F.max("o").alias("until"))
    return changes.join(emptied, "p", "left").where("until IS NULL OR o > until")


def _steps(changes: DataFrame, table: Table, seen: _Seen) -> DataFrame:
    """What happened to which key: where a row moved, its old key goes first."""
    from pyspark.sql import functions as F  # noqa: N812

    place = [F.col(name) for name in ("p", "o", "timestamp")]
    columns = [F.col(f"c{n}") for n in range(len(table.row.names))]
    own = changes.where("NOT emptied").select(*place, *columns, "gone", F.lit(1).alias("step"))
    if not seen.moved:
        return own
    old = {n: F.col(f"m{number}") for number, n in enumerate(table.keys)}
    left = [
        old.get(n, F.lit(None).cast(field.dataType)).alias(f"c{n}")
        for n, field in enumerate(table.row.fields)
    ]
    moved = changes.where("m0 IS NOT NULL").select(
        *place, *left, F.lit(True).alias("gone"), F.lit(0).alias("step")
    )
    return own.union(moved)


def _latest(steps: DataFrame, table: Table, seen: _Seen) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    names = [f"c{n}" for n in range(len(table.row.names))]
    row = F.struct("gone", *names)
    keys = [F.col(f"c{n}").alias(f"k{n}") for n in table.keys]
    # As in `net_changes`: in a partition the offset is the order, between several the time.
    last = F.max_by(row, F.struct("o", "step")).alias("row")
    if seen.partitions:
        of_each = steps.groupBy(*keys, "p").agg(last, F.max("timestamp").alias("at"))
        named = [F.col(f"k{n}") for n in table.keys]
        found = of_each.groupBy(*named).agg(F.max_by("row", F.struct("at", "p")).alias("row"))
    else:
        found = steps.groupBy(*keys).agg(last)
    shown = [F.col(f"row.c{n}").alias(name) for n, name in enumerate(table.row.names)]
    return found.where("NOT row.gone").select(*shown)
