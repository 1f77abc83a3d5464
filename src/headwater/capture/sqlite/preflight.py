"""What capture needs of a SQLite file, looked at beforehand; called by `SqliteSource.check`."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from headwater.capture.config import CaptureConfig
from headwater.capture.outbox import Router
from headwater.capture.source import Finding
from headwater.capture.sqlite import state
from headwater.capture.sqlite.connection import quoted
from headwater.capture.sqlite.shape import Shape, is_wanted, read_shape, user_tables
from headwater.capture.sqlite.triggers import CHANGES, WIDTH_MAX
from headwater.capture.topic_names import topic_of
from headwater.errors import HeadwaterError

_BUILT_IN = {"BINARY", "NOCASE", "RTRIM"}


def check(
    connection: sqlite3.Connection, path: Path, config: CaptureConfig, patterns: Sequence[str]
) -> list[Finding]:
    """Everything that can be known without changing anything."""
    tables = user_tables(connection)
    wanted = {name: wr for name, wr in tables.items() if is_wanted(name, patterns)}
    return [
        *_file(connection, path),
        *_owner(connection, config),
        *_named(config, tables, patterns),
        *_topics(config, wanted),
        *_outbox(connection, config, tables),
        *(found for table, wr in wanted.items() for found in _table(connection, table, wr)),
    ]


def _file(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    yield Finding(
        "writable",
        writable,
        f"{path} and its folder can be written" if writable else f"{path} cannot be written",
        None if writable else f"chmod u+w {path} {path.parent}",
    )
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    yield Finding(
        "journal",
        mode == "wal",
        "journal_mode is wal: reading and writing do not wait for each other"
        if mode == "wal"
        else f"journal_mode is {mode}: it works, but an application may find the file locked",
        None if mode == "wal" else f"sqlite3 {path} 'PRAGMA journal_mode=WAL'",
    )
    encoding = connection.execute("PRAGMA encoding").fetchone()[0]
    yield Finding(
        "encoding",
        encoding == "UTF-8",
        f"text is {encoding}",
        None if encoding == "UTF-8" else "dump the database into one made with UTF-8",
    )


def _owner(connection: sqlite3.Connection, config: CaptureConfig) -> Iterator[Finding]:
    if not state.is_installed(connection):
        yield Finding("triggers", True, "no triggers yet; the first run makes them")
        return
    try:
        state.require_owner(connection, config.name)
    except HeadwaterError as error:
        yield Finding("triggers", False, str(error), error.hint)
        return
    waiting = connection.execute(f"SELECT count(*) FROM {CHANGES}").fetchone()[0]
    yield Finding("triggers", True, f"in place; {waiting} changes are kept in the database")


def _named(
    config: CaptureConfig, tables: dict[str, bool], patterns: Sequence[str]
) -> Iterator[Finding]:
    for pattern in patterns:
        found = [table for table in tables if is_wanted(table, [pattern])]
        yield Finding(
            f"table {pattern}",
            bool(found),
            f"{pattern} is there" if found else f"there is no table {pattern} (yet)",
            None if found else f"create it, or change `tables` of capture {config.name}",
        )


def _topics(config: CaptureConfig, wanted: dict[str, bool]) -> Iterator[Finding]:
    for topic, count in Counter(topic_of(config.name, table) for table in wanted).items():
        if count > 1:
            yield Finding(
                f"topic {topic}",
                False,
                f"{count} tables would share topic {topic}",
                "rename one of them, or leave it out of `tables`",
            )


def _outbox(
    connection: sqlite3.Connection, config: CaptureConfig, tables: dict[str, bool]
) -> Iterator[Finding]:
    if config.outbox is None:
        return
    name = f"outbox {config.outbox}"
    for table, without_rowid in tables.items():
        if table.lower() == config.outbox.lower():
            shape = read_shape(connection, table, without_rowid)
            try:
                Router(config.name, table, shape.names[shape.shown])
            except HeadwaterError as error:
                yield Finding(name, False, str(error), error.hint)
            else:
                yield Finding(name, True, f"{table} has the columns of an outbox")
            return
    yield Finding(name, False, f"there is no table {config.outbox}", "create it")


def _table(connection: sqlite3.Connection, table: str, without_rowid: bool) -> Iterator[Finding]:
    shape = read_shape(connection, table, without_rowid)
    yield _key(connection, shape)
    if 2 * len(shape.names) > WIDTH_MAX:
        yield Finding(
            f"width of {table}",
            False,
            f"{table} has {len(shape.columns)} columns, at most {WIDTH_MAX // 2 - 1} are possible",
            "leave it out of `tables`",
        )
    yield from _indexes(connection, shape)


def _key(connection: sqlite3.Connection, shape: Shape) -> Finding:
    name = f"key of {shape.table}"
    if shape.keyless:
        return Finding(
            name,
            False,
            f"{shape.table} has no primary key: rows are known by rowid, and the whole table is "
            "read again after VACUUM or any change of the schema",
            f"recreate {shape.table} with a primary key",
        )
    keys = [quoted(shape.names[place]) for place in shape.key]
    null = " OR ".join(f"{key} IS NULL" for key in keys)
    count = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {quoted(shape.table)} WHERE {null} LIMIT 1000)"
    ).fetchone()[0]
    if count:
        return Finding(
            name,
            False,
            f"{shape.table} has rows whose primary key is null; readers cannot tell them apart",
            f"DELETE FROM {quoted(shape.table)} WHERE {null}",
        )
    return Finding(name, True, f"{shape.table} has the key {', '.join(keys)}")


def _indexes(connection: sqlite3.Connection, shape: Shape) -> Iterator[Finding]:
    rows = connection.execute(f"PRAGMA index_list({quoted(shape.table)})").fetchall()
    for _seq, index, unique, _origin, partial in rows:
        if not unique:
            continue
        parts = connection.execute(f"PRAGMA index_xinfo({quoted(index)})").fetchall()
        if partial or any(part[1] == -2 for part in parts):
            yield Finding(
                f"index {index}",
                False,
                f"{index} is unique over an expression or some rows only: rows that an OR REPLACE "
                "removes because of it are not noticed",
                "have writers say PRAGMA recursive_triggers=ON, or not use OR REPLACE there",
            )
        custom = {part[4] for part in parts if part[4]} - _BUILT_IN
        if custom:
            yield Finding(
                f"index {index}",
                False,
                f"{index} uses the collation {', '.join(sorted(custom))}, which only the "
                "application knows",
                "use one of BINARY, NOCASE and RTRIM",
            )
