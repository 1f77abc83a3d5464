"""Triggers follow the tables: what ALTER, DROP, CREATE and RENAME did is found and written down.

Called by `drain` when it starts and whenever SQLite's schema_version has moved. All of it is one write
transaction, so the notes that it leaves in the change table (s, t, h, b) have their place among the
changes, and survive a kill as the changes do.

What happened between the application's ALTER and this moment was written by the old triggers:

    ALTER TABLE            old triggers                       mended here
    ADD COLUMN             write rows without it              h for each touched row where it is not
                                                              its default; generated: read anew
    RENAME COLUMN          rewritten by SQLite, same places   nothing is missing: new names from here
    RENAME TO              move along                         old table ends (t), new one is read
    DROP COLUMN            SQLite refuses it (docs)           –
    DROP, CREATE (again)   are gone                           t, then all rows are read anew
    CREATE TRIGGER         run after the new one              changes are put into their true order
    VACUUM                 stay                               rows known only by rowid are read anew
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence

from headwater.capture.errors import SourceRefused
from headwater.capture.source import WHOLE, Range
from headwater.capture.sqlite import state
from headwater.capture.sqlite.connection import quoted, writing
from headwater.capture.sqlite.repair import heal, put_in_order
from headwater.capture.sqlite.shape import Shape, is_wanted, read_shape, user_tables
from headwater.capture.sqlite.triggers import (
    CHANGES,
    SCHEMAS,
    WIDTH_MAX,
    WIDTH_MIN,
    columns_of,
    insert_into,
    trigger_names,
    triggers,
)
from headwater.capture.topic_names import TopicOwners, topic_of

TRIGGER = re.compile(r"_headwater_(\d+)_(\w+)")


def reconcile(
    connection: sqlite3.Connection, capture: str, patterns: Sequence[str], verified: int = 0
) -> tuple[int, bool]:
    """Bring triggers and shapes in line with the tables; the schema_version that this holds for, and
    whether somebody else had moved it.

    `verified`: up to this change, the triggers were known to fit their tables."""
    with writing(connection):
        if not state.is_installed(connection):
            state.install(connection, capture)
        state.require_owner(connection, capture)
        reconciliation = Reconciliation(connection, patterns, verified)
        reconciliation.run()
        version = state.schema_version(connection)
        state.put(connection, "schema_version", version)
    return version, reconciliation.moved


class Reconciliation:
    """One look at all tables, inside a write transaction."""

    def __init__(
        self, connection: sqlite3.Connection, patterns: Sequence[str], verified: int
    ) -> None:
        self._connection = connection
        self._verified = verified
        self._all = user_tables(connection)
        self._tables = {
            name: without_rowid
            for name, without_rowid in self._all.items()
            if is_wanted(name, patterns)
        }
        self.moved = state.get(connection, "schema_version") != state.schema_version(connection)
        self._triggers = self._present_triggers()

    def run(self) -> None:
        owners = TopicOwners()
        for table in self._tables:
            owners.claim(topic_of("this capture", table), table)
        kept = set()
        for sid, shape in state.active_shapes(self._connection).items():
            if self._is_where_it_was(sid, shape):
                kept.add(shape.table)
                self._follow(sid, shape)
            else:
                self._end(sid, shape)
        for table in self._tables:
            if table not in kept:
                self._begin(table)

    def _present_triggers(self) -> dict[int, dict[str, tuple[str, str, int]]]:
        rows = self._connection.execute(
            "SELECT name, tbl_name, sql, rowid FROM sqlite_schema WHERE type = 'trigger'"
        )
        found: dict[int, dict[str, tuple[str, str, int]]] = {}
        for name, table, sql, place in rows:
            if match := TRIGGER.fullmatch(name):
                found.setdefault(int(match[1]), {})[name] = (table, sql, place)
        return found

    def _is_where_it_was(self, sid: int, shape: Shape) -> bool:
        present = self._triggers.get(sid, {})
        return (
            shape.table in self._tables
            and set(present) == set(trigger_names(sid, shape))
            and {table for table, _sql, _place in present.values()} == {shape.table}
        )

    def _follow(self, sid: int, known: Shape) -> None:
        """The table is the same one; its columns or indexes may not be."""
        now = read_shape(self._connection, known.table, self._tables[known.table])
        _require_width(now)
        if now.public == known.public:
            if not self._are_last(sid, known):
                certain = put_in_order(self._connection, self._verified, sid, known)
                self._make_triggers(sid, now)
                if not certain:
                    self._note_truncated(sid)
                    self._note_backfill(sid)
            elif now.uniques != known.uniques:
                self._make_triggers(sid, now)
            elif now.sql != known.sql:
                self._store(sid, now)
            if now.keyless and self.moved:
                self._note_truncated(sid)
                self._note_backfill(sid)
            return
        renamed = columns_of(self._triggers[sid][f"_headwater_{sid}_insert"][1])
        pairs = zip(known.names, renamed, strict=True)
        new_sid = self._new_sid(now, "ALTER", {old: new for old, new in pairs if old != new})
        certain = self._are_last(sid, known) or put_in_order(
            self._connection, self._verified, sid, known, renamed
        )
        self._make_triggers(sid, now, new_sid)
        added = [column for column in now.columns if column.name not in renamed]
        shifted = now.key != known.key or now.rowid != known.rowid
        if not certain or now.keyless or shifted or any(column.generated for column in added):
            self._note_truncated(sid)
            self._note_backfill(new_sid)
        elif added:
            heal(self._connection, self._verified, sid, known, new_sid, now, added)

    def _begin(self, table: str) -> None:
        """A table that was not captured until now, or was made anew."""
        shape = read_shape(self._connection, table, self._tables[table])
        _require_width(shape)
        elder = self._connection.execute(
            f"SELECT count(*) FROM {SCHEMAS} WHERE table_name = ?", (table,)
        ).fetchone()[0]
        sid = self._new_sid(shape, "CREATE")
        self._make_triggers(sid, shape)
        if elder:
            self._note_truncated(sid)
        self._note_backfill(sid)

    def _end(self, sid: int, shape: Shape) -> None:
        """The table is gone, made anew, renamed, or no longer wanted."""
        for name in self._triggers.get(sid, {}):
            self._connection.execute(f"DROP TRIGGER {quoted(name)}")
        self._connection.execute(f"UPDATE {SCHEMAS} SET active = 0 WHERE id = ?", (sid,))
        if shape.table in self._all:
            self._note_schema(sid, "LEAVE", "")
        else:
            self._note_truncated(sid)
            self._note_schema(sid, "DROP", "")

    def _are_last(self, sid: int, shape: Shape) -> bool:
        """Whether no trigger of the application was made after ours."""
        first = min(place for _table, _sql, place in self._triggers[sid].values())
        rows = self._connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? AND rowid > ?",
            (shape.table, first),
        )
        return all(TRIGGER.fullmatch(name) for (name,) in rows)

    def _make_triggers(self, sid: int, now: Shape, new_sid: int | None = None) -> None:
        for name in self._triggers.get(sid, {}):
            self._connection.execute(f"DROP TRIGGER {quoted(name)}")
        if new_sid is not None:
            self._connection.execute(f"UPDATE {SCHEMAS} SET active = 0 WHERE id = ?", (sid,))
        else:
            self._store(sid, now)
        self._widen(2 * len(now.names))
        for _name, sql in triggers(sid if new_sid is None else new_sid, now):
            self._connection.execute(sql)

    def _store(self, sid: int, shape: Shape) -> None:
        self._connection.execute(
            f"UPDATE {SCHEMAS} SET shape = ? WHERE id = ?", (shape.to_json(), sid)
        )

    def _new_sid(self, shape: Shape, kind: str, renamed: dict[str, str] | None = None) -> int:
        cursor = self._connection.execute(
            f"INSERT INTO {SCHEMAS} (table_name, shape, active) VALUES (?, ?, 1)",
            (shape.table, shape.to_json()),
        )
        sid = cursor.lastrowid
        assert sid is not None
        self._note_schema(sid, kind, shape.sql, renamed)
        return sid

    def _widen(self, width: int) -> None:
        have = len(self._connection.execute(f"PRAGMA table_info({CHANGES})").fetchall()) - 4
        for place in range(have, max(width, WIDTH_MIN)):
            self._connection.execute(f"ALTER TABLE {CHANGES} ADD COLUMN v{place}")

    def _note_schema(
        self, sid: int, kind: str, sql: str, renamed: dict[str, str] | None = None
    ) -> None:
        self._connection.execute(
            f"{insert_into(3)} VALUES (julianday('now'), ?, 's', ?, ?, ?)",
            (sid, kind, sql, json.dumps(renamed or {})),
        )

    def _note_truncated(self, sid: int) -> None:
        self._connection.execute(
            f"INSERT INTO {CHANGES} (at, sid, op) VALUES (julianday('now'), ?, 't')", (sid,)
        )

    def _note_backfill(self, sid: int) -> None:
        self._connection.execute(f"{insert_into(1)} VALUES (julianday('now'), ?, 'b', 1)", (sid,))


def request_backfill(
    connection: sqlite3.Connection, capture: str, tables: Sequence[str], within: Range = WHOLE
) -> list[str]:
    """Have captured tables (all, if none is named) read again, beside the changes; which ones.

    `within`: only these rows of the one table."""
    with writing(connection):
        if not state.is_installed(connection):
            raise SourceRefused("this database is not captured yet", hint="run the capture first")
        state.require_owner(connection, capture)
        known = {shape.table.lower(): sid for sid, shape in state.active_shapes(connection).items()}
        for table in tables or known:
            if table.lower() not in known:
                raise SourceRefused(
                    f"table {table!r} is not captured",
                    hint=f"name one of {', '.join(sorted(known))}",
                )
            sid = known[table.lower()]
            where = None if within.whole else _condition(connection, sid, within)
            connection.execute(
                f"{insert_into(2)} VALUES (julianday('now'), ?, 'b', 0, ?)", (sid, where)
            )
    return list(tables or known)


def _condition(connection: sqlite3.Connection, sid: int, within: Range) -> str:
    """Which rows, in SQL; tried, so that a mistake is told to whoever makes it."""
    shape = state.shape_of(connection, sid)
    parts = [f"({within.where})"] if within.where is not None else []
    for sign, value in ((">=", within.first), ("<=", within.last)):
        if value is not None:
            escaped = value.replace("'", "''")
            parts.append(f"{quoted(shape.names[shape.order[0]])} {sign} '{escaped}'")
    where = " AND ".join(parts)
    try:
        connection.execute(f"SELECT 1 FROM {quoted(shape.table)} WHERE {where} LIMIT 0")
    except sqlite3.OperationalError as error:
        raise SourceRefused(f"{where!r} is no condition here: {error}", hint="correct it") from None
    return where


def _require_width(shape: Shape) -> None:
    if 2 * len(shape.names) > WIDTH_MAX:
        raise SourceRefused(
            f"table {shape.table} has {len(shape.columns)} columns; at most "
            f"{WIDTH_MAX // 2 - 1} can be captured",
            hint="leave it out of the capture's `tables`",
        )
