"""The SQL that capture adds to a database: its three tables, and the triggers of each captured table.

Written by `reconcile`; removed by `source`. This is a format that other processes write into:

    _headwater_changes   seq INTEGER PRIMARY KEY   order of all changes; pruned from below, never emptied
                         at                        when, as SQLite's julianday
                         sid                       which shape wrote the row (_headwater_schemas.id)
                         op                        see below
                         v0 v1 …                   values, without affinity: storage classes are kept
    _headwater_schemas   id, table_name, shape (JSON), active
    _headwater_state     name, value

    op  values                        written by
    c   new row                       AFTER INSERT
    u   old row, new row              AFTER UPDATE
    d   old row                       AFTER DELETE
    p   row in the way, new row       BEFORE INSERT, for each row that an OR REPLACE would remove
    q   row in the way, new row       BEFORE UPDATE, likewise
    h   old row, new row              reconcile: an added column's value, written before it was known
    t   nothing                       reconcile: the table was dropped or made anew
    s   kind, SQL, renamed columns    reconcile: from here on, this shape
    b   fresh (0 or 1)                reconcile, or a person: read the whole table in chunks

Invariants:
- One table for all changes: its key is the order in which they happened, across tables.
- The row with the highest seq must never be deleted: the next one would get its number again.
- Our triggers must be the last ones made: SQLite then runs them first, so that what an application's
  own trigger does to the row comes after the change that set it off.
- REPLACE runs no DELETE trigger (unless the writer has recursive_triggers on), hence p and q: whether
  the row was indeed removed shows in what comes after (`changes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.capture.sqlite.connection import quoted
from headwater.capture.sqlite.shape import Shape, Unique

CHANGES = "_headwater_changes"
SCHEMAS = "_headwater_schemas"
STATE = "_headwater_state"
WIDTH_MIN, WIDTH_MAX = 16, 1_990  # SQLite has at most 2,000 columns in a table

TABLES = (
    f"CREATE TABLE {CHANGES} (seq INTEGER PRIMARY KEY, at, sid, op, "
    + ", ".join(f"v{place}" for place in range(WIDTH_MIN))
    + ")",
    f"CREATE TABLE {SCHEMAS} (id INTEGER PRIMARY KEY, table_name TEXT, shape TEXT, active INTEGER)",
    f"CREATE TABLE {STATE} (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
)
_NEW_COLUMN = re.compile(r'NEW\.("(?:[^"]|"")*")')


def trigger_names(sid: int, shape: Shape) -> list[str]:
    """Names of all triggers that the table must have."""
    return [name for name, _sql in triggers(sid, shape)]


def triggers(sid: int, shape: Shape) -> Iterator[tuple[str, str]]:
    """Name and SQL of each trigger of the table."""
    table, names = quoted(shape.table), shape.names
    new, old = [f"NEW.{quoted(n)}" for n in names], [f"OLD.{quoted(n)}" for n in names]
    if shape.uniques:
        yield _before_insert(sid, shape)
        yield _before_update(sid, shape)
    for event, op, values in (
        ("insert", "c", new),
        ("update", "u", old + new),
        ("delete", "d", old),
    ):
        name = f"_headwater_{sid}_{event}"
        yield (
            name,
            f"CREATE TRIGGER {name} AFTER {event.upper()} ON {table} BEGIN "
            f"{insert_into(len(values))} VALUES (julianday('now'), {sid}, '{op}', "
            f"{', '.join(values)}); END",
        )


def insert_into(width: int) -> str:
    places = ", ".join(f"v{place}" for place in range(width))
    return f"INSERT INTO {CHANGES} (at, sid, op, {places})"


def columns_of(trigger_sql: str) -> list[str]:
    """The columns that an AFTER INSERT trigger writes, as they are called now: ALTER TABLE RENAME
    rewrites our triggers, so their text tells a renamed column from one dropped and one added."""
    return [name[1:-1].replace('""', '"') for name in _NEW_COLUMN.findall(trigger_sql)]


def _before_insert(sid: int, shape: Shape) -> tuple[str, str]:
    name = f"_headwater_{sid}_replace"
    return name, (
        f"CREATE TRIGGER {name} BEFORE INSERT ON {quoted(shape.table)} "
        f"{_note(sid, 'p', shape, _in_the_way(shape))}"
    )


def _before_update(sid: int, shape: Shape) -> tuple[str, str]:
    name = f"_headwater_{sid}_displace"
    places = sorted({place for unique in shape.uniques for place in unique.places})
    unique_columns = [shape.names[place] for place in places]
    generated = {column.name for column in shape.columns if column.generated}
    # A generated column is never assigned: it changes with others.
    of = "" if generated & set(unique_columns) else f" OF {', '.join(map(quoted, unique_columns))}"
    same = " AND ".join(
        f"{quoted(shape.names[place])} IS OLD.{quoted(shape.names[place])}" for place in shape.order
    )
    where = f"({_in_the_way(shape)}) AND NOT ({same})"
    return name, (
        f"CREATE TRIGGER {name} BEFORE UPDATE{of} ON {quoted(shape.table)} "
        f"{_note(sid, 'q', shape, where)}"
    )


def _note(sid: int, op: str, shape: Shape, where: str) -> str:
    table, names = quoted(shape.table), [quoted(name) for name in shape.names]
    new = [_new(shape, place) for place in range(len(names))]
    return (
        f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {where}) BEGIN "
        f"{insert_into(2 * len(names))} SELECT julianday('now'), {sid}, '{op}', "
        f"{', '.join(names + new)} FROM {table} WHERE {where}; END"
    )


def _in_the_way(shape: Shape) -> str:
    return " OR ".join(f"({_same(shape, unique)})" for unique in shape.uniques)


def _same(shape: Shape, unique: Unique) -> str:
    return " AND ".join(
        f"{quoted(shape.names[place])} COLLATE {quoted(collation)} = {_new(shape, place)}"
        for place, collation in zip(unique.places, unique.collations, strict=True)
    )


def _new(shape: Shape, place: int) -> str:
    """The new value as REPLACE will store it: a null where none may be becomes the default."""
    lead = 0 if shape.rowid is None else 1
    name = f"NEW.{quoted(shape.names[place])}"
    if place < lead:
        return name
    column = shape.columns[place - lead]
    if column.not_null and column.default is not None and not column.generated:
        return f"coalesce({name}, {column.default})"
    return name
