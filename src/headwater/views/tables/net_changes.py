"""Step 1: the changes of a batch to the rows that really change, each as it was and as it is.

Of several changes of a key the last one counts; a change that changes nothing, or deletes what is not there,
is none. Gives the temporary table `netN` for table N, with what `beforeN` and `afterN` show of it, and brings
the table up to date.

A batch of changes has the columns of the table (c0, …, d0, …), and

    gone        the key has no row any more
    emptied     all rows of this partition are gone (a truncate)
    m0, …       the key before, where a change moved the row to another key
    p, o, ts    partition and offset of the record, and its timestamp in microseconds

`netN` has for each key its columns as they are, gone, p, ts, `place` (the row in the table, null where there
was none), was_c0, …, was_p, was_ts: the row as it was, and `same`: that is said again, only its time is new.

Changes of one key are in the order of their offsets. Where they are in several partitions (a row that moved
there, a topic that got more of them), the partition counts that has said something of the key latest, by the
records' timestamps, and in it the last offset; `replay` has the same rule. So a change that is older than the
row of another partition changes nothing, and a row's time (`ts`) is the latest that its partition has said of
it: timestamps may go backwards. Of a row that is gone no time is kept: an older change of another partition,
read after that, brings it back.

Every statement costs a good part of a millisecond, however few rows it is about: so there are few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.tables.digest import exactly
from headwater.views.tables.store import Store, TableShape, are_distinct
from headwater.views.targets.contract import Misfit

PLACE = ("p", "ts")
"""What the state knows of a row beside its columns."""


@dataclass(frozen=True)
class Net:
    """What changes in a table."""

    number: int
    kept: pa.Table
    """What `apply` does to the table, to be done again after a crash."""
    was_there: int
    """How many of the rows that change are in the table."""
    changed: int
    """How many have more than another time."""


def net(store: Store, number: int, changes: pa.Table) -> Net:
    """Find what changes in a table."""
    table = store.tables[number]
    emptied = pc.any(changes["emptied"]).as_py()
    check_keys(table, changes)
    with store.lent(changes=changes):
        if emptied:
            _with_the_emptied(store, number, table, changes)
        latest = "latest" if emptied else f"({_latest(store, table, changes)})"
        changed = _changed(number, table, latest, emptied=emptied)
        store.run(f"CREATE OR REPLACE TEMP TABLE net{number} AS {changed}")
    names = ", ".join((*table.columns.names, "gone", *PLACE))
    kept = store.arrow(f"SELECT {names}, place IS NOT NULL AS was, same FROM net{number}")
    was_there, same = (pc.sum(kept[name]).as_py() or 0 for name in ("was", "same"))
    return Net(number, kept.drop_columns(["was", "same"]), was_there, kept.num_rows - same)


def check_keys(table: TableShape, changes: pa.Table) -> None:
    for name in table.keys:
        if changes[name].null_count:
            missing = pc.and_not(pc.is_null(changes[name]), changes["emptied"])
            for partition in changes.filter(missing)["p"].to_pylist():
                raise Misfit(
                    f"a change of the table {table.name} in partition {partition} does not say its key; "
                    "its value, or the record's key, must have the columns that hw.table names as key"
                )


def _latest(store: Store, table: TableShape, changes: pa.Table, emptied: str = "") -> str:
    """SQL of the last change of each key: its columns, gone, p, ts."""
    columns, keys = ", ".join(table.columns.names), ", ".join(table.keys)
    own = f"SELECT {columns}, gone, p, o, ts, 1 AS step FROM changes WHERE NOT emptied"
    moved = changes["m0"].null_count < changes.num_rows
    if moved:
        old = ", ".join(
            f"m{table.keys.index(name)}" if name in table.keys else f"CAST(NULL AS {kind})"
            for name, kind in zip(table.columns.names, _kinds(store, table), strict=True)
        )
        # Where a row moves, its old key goes first: the same record may bring another row there.
        own += f" UNION ALL SELECT {old}, true, p, o, ts, 0 FROM changes WHERE m0 IS NOT NULL"
    if not moved and not emptied and _are_distinct(store, table, changes):
        return f"SELECT {columns}, gone, p, ts FROM changes"  # the usual case, and the quick one
    timed = f"SELECT *, max(ts) OVER (PARTITION BY {keys}, p) AS moment FROM ({own}) c {emptied}"
    if pc.count_distinct(changes["p"]).as_py() > 1:
        number = store.tables.index(table)
        known = f"SELECT {keys}, p AS known_p, ts AS known_ts FROM t{number}"
        if emptied:
            known += " WHERE p NOT IN (SELECT p FROM emptied)"
        moment = "CASE WHEN s.known_p = m.p THEN greatest(m.moment, s.known_ts) ELSE m.moment END"
        timed = f"""SELECT m.* REPLACE ({moment} AS moment) FROM ({timed}) m
            LEFT JOIN ({known}) s ON {_same(table, "s", "m")}"""
    order = "moment DESC, p DESC, o DESC, step DESC"
    return f"""SELECT {columns}, gone, p, moment AS ts FROM ({timed})
        QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) = 1"""


def _are_distinct(store: Store, table: TableShape, changes: pa.Table) -> bool:
    """Whether no key has two changes."""
    if any(are_distinct(changes[name]) for name in table.keys):
        return True
    keys = ", ".join(table.keys)
    (found,) = store.rows(f"SELECT count(*) FROM (SELECT DISTINCT {keys} FROM changes)")
    return bool(found[0] == changes.num_rows)


def _with_the_emptied(store: Store, number: int, table: TableShape, changes: pa.Table) -> None:
    """Make the table `latest`, with the end of every row that a truncate has removed."""
    store.run(
        "CREATE OR REPLACE TEMP TABLE emptied AS "
        "SELECT p, max(o) AS o FROM changes WHERE emptied GROUP BY p"
    )
    after = "WHERE NOT EXISTS (SELECT 1 FROM emptied e WHERE e.p = c.p AND e.o > c.o)"
    store.run(f"CREATE OR REPLACE TEMP TABLE latest AS {_latest(store, table, changes, after)}")
    shown = ", ".join(f"s.{name}" for name in table.columns.names)
    store.run(
        f"""INSERT INTO latest SELECT {shown}, true, s.p, s.ts FROM t{number} s
        SEMI JOIN emptied e ON s.p = e.p ANTI JOIN latest l ON {_same(table, "s", "l")}"""
    )


def _changed(number: int, table: TableShape, latest: str, *, emptied: bool) -> str:
    was = ", ".join(f"o.{name} AS was_{name}" for name in (*table.columns.names, *PLACE))
    now, then = (f"({', '.join(exactly(table.columns, f'{side}.'))})" for side in "lo")
    same = f"o.rowid IS NOT NULL AND NOT l.gone AND o.p = l.p AND {now} IS NOT DISTINCT FROM {then}"
    kept = " AND l.p NOT IN (SELECT p FROM emptied)" if emptied else ""
    later = f"CASE WHEN o.p = l.p{kept} THEN greatest(l.ts, o.ts) ELSE l.ts END"
    return f"""SELECT l.* REPLACE ({later} AS ts), o.rowid AS place, {was}, {same} AS same
        FROM {latest} l LEFT JOIN t{number} o ON {_same(table, "o", "l")}
        WHERE CASE WHEN o.p <> l.p AND (l.ts < o.ts OR l.ts = o.ts AND l.p < o.p) THEN false
              WHEN l.gone THEN o.rowid IS NOT NULL
              ELSE NOT ({same}) OR o.ts IS NULL OR l.ts > o.ts END"""


def _kinds(store: Store, table: TableShape) -> list[str]:
    number = store.tables.index(table)
    kinds = [str(row[1]) for row in store.rows(f"DESCRIBE t{number}")]
    return kinds[: len(table.columns)]


def before(table: TableShape, number: int) -> str:
    """SQL of the rows that change, as they were."""
    shown = ", ".join(f"was_{name} AS {name}" for name in (*table.columns.names, *PLACE))
    return f"SELECT {shown} FROM net{number} WHERE place IS NOT NULL AND NOT same"


def after(table: TableShape, number: int) -> str:
    """SQL of the rows that change, as they are."""
    shown = ", ".join((*table.columns.names, *PLACE))
    return f"SELECT {shown} FROM net{number} WHERE NOT gone AND NOT same"


def apply(store: Store, found: Net) -> None:
    """Bring the table up to date with what `net` found."""
    number = found.number
    if found.was_there:
        store.run(f"DELETE FROM t{number} WHERE rowid IN (SELECT place FROM net{number})")
    names = ", ".join((*store.tables[number].columns.names, *PLACE))
    store.run(f"INSERT INTO t{number} SELECT {names} FROM net{number} WHERE NOT gone")


def reapply(store: Store, number: int, changes: pa.Table) -> None:
    """Bring the table up to date with what `Net.kept` was."""
    with store.lent(kept=changes):
        same = _same(store.tables[number], f"t{number}", "l")
        store.run(f"DELETE FROM t{number} USING kept l WHERE {same}")
        rows = "SELECT * EXCLUDE (gone) FROM kept WHERE NOT gone"
        store.run(f"INSERT INTO t{number} BY NAME {rows}")


def _same(table: TableShape, left: str, right: str) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in table.keys)
