"""What a table is at one moment: its columns, its key, what must be unique in it.

Read from SQLite's pragmas by `reconcile`, kept as JSON in `_headwater_schemas`, so that a change is
decoded with the shape of its moment. Pure but for `read_shape`.

The values of a row, wherever this package hands one about, are `shape.names` in that order: the rowid
first, where it is not a column, then the columns as declared, generated ones included.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from headwater.capture.sqlite.connection import quoted

OURS = "_headwater_"


@dataclass(frozen=True)
class ColumnShape:
    """One column as declared."""

    name: str
    declared: str
    not_null: bool
    default: str | None
    generated: bool


@dataclass(frozen=True)
class Unique:
    """Columns (places in the row) that must be unique together, with their collations."""

    places: tuple[int, ...]
    collations: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """A table. `rowid`: the name by which its rowid can be had where that is a value of its own:
    not for WITHOUT ROWID, and not where INTEGER PRIMARY KEY is another name for it."""

    table: str
    columns: tuple[ColumnShape, ...]
    rowid: str | None
    key: tuple[int, ...]
    """Places of the primary key in the row; the rowid's, where there is no primary key."""
    order: tuple[int, ...]
    """Places by which rows are read in chunks: never null, never changing of themselves."""
    uniques: tuple[Unique, ...]
    sql: str = ""

    @property
    def names(self) -> list[str]:
        lead = [] if self.rowid is None else [self.rowid]
        return lead + [column.name for column in self.columns]

    @property
    def keyless(self) -> bool:
        """Without a primary key: rows are known by rowid, which is then part of the record."""
        return self.rowid is not None and self.key == (0,)

    @property
    def shown(self) -> slice:
        """Which values of the row a record shows."""
        return slice(1 if self.rowid is not None and not self.keyless else 0, None)

    @property
    def public(self) -> tuple[Any, ...]:
        """What readers notice; the rest concerns only the triggers."""
        return self.table, self.columns, self.rowid, self.key, self.order

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Shape:
        given = json.loads(text)
        given["columns"] = tuple(ColumnShape(**column) for column in given["columns"])
        given["uniques"] = tuple(
            Unique(tuple(unique["places"]), tuple(unique["collations"]))
            for unique in given["uniques"]
        )
        for name in ("key", "order"):
            given[name] = tuple(given[name])
        return Shape(**given)


def user_tables(connection: sqlite3.Connection) -> dict[str, bool]:
    """Ordinary tables of the database → whether WITHOUT ROWID."""
    rows = connection.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
    )
    return {
        name: bool(without_rowid)
        for name, without_rowid in sorted(rows)
        if not name.startswith(("sqlite_", OURS))
    }


def is_wanted(table: str, patterns: Sequence[str]) -> bool:
    """Whether the capture's `tables` (names, or patterns with *) mean this one."""
    return not patterns or any(fnmatchcase(table.lower(), one.lower()) for one in patterns)


def read_shape(connection: sqlite3.Connection, table: str, without_rowid: bool) -> Shape:
    """The table as it is now."""
    info = connection.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    columns = tuple(
        ColumnShape(name, declared or "", bool(not_null), default, hidden in (2, 3))
        for _cid, name, declared, not_null, default, _pk, hidden in info
    )
    primary = [name for _pk, name in sorted((row[5], row[1]) for row in info if row[5])]
    indexes = connection.execute(f"PRAGMA index_list({quoted(table)})").fetchall()
    has_primary_index = any(origin == "pk" for _seq, _name, _unique, origin, _partial in indexes)
    alias = not without_rowid and len(primary) == 1 and not has_primary_index
    rowid = None if without_rowid or alias else _rowid_name(columns)
    names = ([] if rowid is None else [rowid]) + [column.name for column in columns]
    key = tuple(names.index(name) for name in primary) or (0,)
    order = key if rowid is None else (0,)
    uniques = _uniques(connection, indexes, names)
    if alias:
        uniques = [Unique(key, ("BINARY",)), *uniques]
    sql = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    return Shape(table, columns, rowid, key, order, tuple(uniques), sql[0] if sql else "")


def _rowid_name(columns: Sequence[ColumnShape]) -> str:
    taken = {column.name.lower() for column in columns}
    for name in ("rowid", "_rowid_", "oid"):
        if name not in taken:
            return name
    raise AssertionError("preflight refuses a table with columns rowid, _rowid_ and oid")


def _uniques(
    connection: sqlite3.Connection, indexes: Sequence[tuple[Any, ...]], names: list[str]
) -> list[Unique]:
    """Unique constraints over whole columns. Partial ones and expressions cannot be looked up by
    value alone: preflight tells about them."""
    found = []
    for _seq, index, unique, _origin, partial in sorted(indexes, key=lambda row: row[1]):
        if not unique or partial:
            continue
        parts = connection.execute(f"PRAGMA index_xinfo({quoted(index)})").fetchall()
        parts = [part for part in parts if part[5]]
        if any(part[1] < 0 for part in parts):
            continue
        found.append(
            Unique(tuple(names.index(part[2]) for part in parts), tuple(part[4] for part in parts))
        )
    return found
