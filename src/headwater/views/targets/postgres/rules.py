"""Indexes and rules that people have made on a table in PostgreSQL, copied to the next version of a view.

NOT NULL, CHECK, UNIQUE and foreign keys, and indexes: when a new version is made, as long as it is empty, so
that the same rows are refused, and nothing is left to be built at the switch. Called by `target` and
`switch`.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.views.targets.postgres.book import Connection
from headwater.views.targets.postgres.properties import attempt, name_of, row, rows
from headwater.views.targets.sql.book import quoted

NAME_BYTES = 63
_INDEXES = """SELECT i.indexrelid, c.relname, i.indisunique, pg_get_indexdef(i.indexrelid), k.conname
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid
        AND k.contype IN ('p', 'u', 'x')
    WHERE i.indrelid = %s ORDER BY i.indexrelid"""


class Index(NamedTuple):
    oid: int
    name: str
    unique: bool
    definition: str
    """What follows USING: two indexes with the same are the same on another table."""
    constraint: str | None


def copy_rules(connection: Connection, old: int, new: int, suffix: str) -> list[str]:
    """Put on `new` what is on `old` and not there; returns in words what could not be."""
    table, lost = name_of(connection, new), list[str]()
    for (column,) in rows(
        connection,
        "SELECT o.attname FROM pg_attribute o JOIN pg_attribute n ON n.attname = o.attname "
        "WHERE o.attrelid = %s AND n.attrelid = %s AND o.attnum > 0 AND n.attnum > 0 "
        "AND o.attnotnull AND NOT n.attnotnull AND NOT o.attisdropped",
        old,
        new,
    ):
        said = attempt(connection, f"ALTER TABLE {table} ALTER {quoted(column)} SET NOT NULL")
        lost += [f"NOT NULL of {column}: {said}"] if said else []
    there = {name for (name,) in rows(connection, _CONSTRAINTS, new)}
    for name, definition in rows(connection, _CHECKS, old):
        if name not in there:
            statement = f"ALTER TABLE {table} ADD CONSTRAINT {quoted(name)} {definition}"
            said = attempt(connection, statement)
            lost += [f"the rule {name}: {said}"] if said else []
    known = {(each.unique, each.definition) for each in indexes_of(connection, new)}
    for index in indexes_of(connection, old):
        if (index.unique, index.definition) not in known:
            kind = "UNIQUE INDEX" if index.unique else "INDEX"
            name = quoted(cut(index.name, suffix))
            statement = f"CREATE {kind} {name} ON {table} USING {index.definition}"
            said = attempt(connection, statement)
            lost += [f"the index {index.name}: {said}"] if said else []
    return lost


_CONSTRAINTS = "SELECT conname FROM pg_constraint WHERE conrelid = %s"
_CHECKS = """SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = %s AND contype IN ('c', 'f') ORDER BY oid"""


def indexes_of(connection: Connection, table: int) -> list[Index]:
    name, found = name_of(connection, table), list[Index]()
    for oid, index, unique, text, constraint in rows(connection, _INDEXES, table):
        (shown,) = row(connection, "SELECT quote_ident(%s)", index)
        begin = f"CREATE {'UNIQUE ' if unique else ''}INDEX {shown} ON {name} USING "
        assert text.startswith(begin), text
        found.append(Index(oid, index, unique, text.removeprefix(begin), constraint))
    return found


def exchange_names(connection: Connection, old: int, new: int, end: str) -> None:
    """Each index of the new table gets the name of its like on the old one, which then ends with `end`."""
    known = {(each.unique, each.definition): each for each in indexes_of(connection, new)}
    for index in indexes_of(connection, old):
        like = known.get((index.unique, index.definition))
        if like is None or like.name == index.name:
            continue
        _rename(connection, old, index, cut(index.name, end))
        _rename(connection, new, like, index.name)


def _rename(connection: Connection, table: int, index: Index, to: str) -> None:
    if index.constraint is None:
        statement = f"ALTER INDEX {name_of(connection, index.oid)} RENAME TO {quoted(to)}"
    else:
        name = quoted(index.constraint)
        statement = (
            f"ALTER TABLE {name_of(connection, table)} RENAME CONSTRAINT {name} TO {quoted(to)}"
        )
    attempt(connection, statement)  # another one may be called so


def cut(name: str, end: str) -> str:
    """With this at its end, within PostgreSQL's length."""
    room = NAME_BYTES - len(end.encode())
    return name.encode()[:room].decode(errors="ignore") + end
