"""What people have made around a view's table in SQLite: indexes, triggers, views. Called by `target`.

An index has a name of its own in the file, which cannot be changed: its copy on another version is
`NAME__v2`. A trigger goes over under its name; a view reads whatever has the table's name.
"""

from __future__ import annotations

import re
import sqlite3

from headwater.views.targets.sql.book import quoted

_VERSION = re.compile(r"__v\d+$")


def made_by_hand(connection: sqlite3.Connection, kind: str, table: str) -> list[tuple[str, str]]:
    """Name and statement of the indexes or triggers that a table has."""
    return connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = ? AND lower(tbl_name) = lower(?) "
        "AND sql IS NOT NULL ORDER BY rowid",
        (kind, table),
    ).fetchall()


def copy_indexes(connection: sqlite3.Connection, old: str, new: str, version: int) -> list[str]:
    """Put on `new` the indexes of `old` that it has not; returns in words what could not be."""
    known = {_columns(sql) for _, sql in made_by_hand(connection, "index", new)}
    lost = list[str]()
    for name, sql in made_by_hand(connection, "index", old):
        if _columns(sql) not in known:
            unique = "UNIQUE " if re.match(r"\s*CREATE\s+UNIQUE\b", sql, re.I) else ""
            own = quoted(f"{_VERSION.sub('', name)}__v{version}")
            statement = f"CREATE {unique}INDEX {own} ON {quoted(new)} {_columns(sql)}"
            lost += attempt(connection, statement, f"the index {name}")
    return lost


def rules_of(connection: sqlite3.Connection, table: str) -> list[str]:
    """Rules in a table's own statement that we do not make: nothing can be added to a table later."""
    asked = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND lower(name) = lower(?)"
    (sql,) = connection.execute(asked, (table,)).fetchone()
    words = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]", "", sql.upper())
    found = re.findall(r"\b(CHECK|REFERENCES|UNIQUE|COLLATE|DEFAULT|GENERATED)\b", words)
    return list(dict.fromkeys(found))


def attempt(connection: sqlite3.Connection, statement: str, what: str) -> list[str]:
    """Run it; in words, why it could not be."""
    connection.execute("SAVEPOINT attempt")
    try:
        connection.execute(statement)
    except sqlite3.Error as error:
        connection.execute("ROLLBACK TO attempt")
        return [f"{what}: {error}"]
    finally:
        connection.execute("RELEASE attempt")
    return []


def views(connection: sqlite3.Connection) -> set[str]:
    """The views that can be read."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall()
    return {name for (name,) in found if _can_be_read(connection, name)}


def _can_be_read(connection: sqlite3.Connection, view: str) -> bool:
    try:
        connection.execute(f"SELECT 1 FROM {quoted(view)} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True


def _columns(sql: str) -> str:
    """An index's columns and condition: what follows the table's name, which may be quoted."""
    name = r'(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[^\s("`\[]+)'
    begin = r"\s*CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    begin += rf"(?:{name}\.)?{name}\s+ON\s+{name}\s*"
    found = re.match(begin, sql, re.I)
    assert found is not None, sql
    return " ".join(sql[found.end() :].split())
