"""What tables look like: from the information schema, or from a table map of the log.

`read` asks the server how things are now; `describe` joins a table map (how things were at that row)
with what only the server can say. Called by `source`, `snapshot` and `stream`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headwater.capture.errors import Misconfigured, SchemaUnknown
from headwater.capture.mysql import charsets, flavor, system_versions
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.columns import Description, literal
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.table_map import MARIADB, Dialect, TableMap, Wire

SPECIAL = ("uuid", "inet4", "inet6")
_MEMBER = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\.", re.DOTALL)
_ESCAPES = {"''": "'", r"\n": "\n", r"\r": "\r", r"\0": "\0"}

_SIMPLE = {
    "tinyint": Wire(wire.TINY),
    "smallint": Wire(wire.SHORT),
    "mediumint": Wire(wire.INT24),
    "int": Wire(wire.LONG),
    "bigint": Wire(wire.LONGLONG),
    "float": Wire(wire.FLOAT, 4),
    "double": Wire(wire.DOUBLE, 8),
    "date": Wire(wire.DATE),
    "year": Wire(wire.YEAR),
    "tinytext": Wire(wire.BLOB, 1),
    "tinyblob": Wire(wire.BLOB, 1),
    "text": Wire(wire.BLOB, 2),
    "blob": Wire(wire.BLOB, 2),
    "mediumtext": Wire(wire.BLOB, 3),
    "mediumblob": Wire(wire.BLOB, 3),
    "longtext": Wire(wire.BLOB, 4),
    "longblob": Wire(wire.BLOB, 4),
    "uuid": Wire(wire.STRING, 16),
    "inet6": Wire(wire.STRING, 16),
    "inet4": Wire(wire.STRING, 4),
}
_Told = tuple[str, str | None, int | None, int | None, int]
"""Name, engine, rows, bytes of a row, whether it keeps its old rows."""
_TEMPORAL = {"datetime": wire.DATETIME2, "timestamp": wire.TIMESTAMP2, "time": wire.TIME2}
_GEOMETRIES = {
    *("geometry", "point", "linestring", "polygon"),
    *("multipoint", "multilinestring", "multipolygon"),
    *("geometrycollection", "geomcollection"),  # MariaDB says the one, MySQL the other
}


@dataclass(frozen=True)
class Table:
    """A table as the server describes it now."""

    name: str
    columns: tuple[Description, ...]
    key: tuple[int, ...]
    engine: str
    rows: int
    """The server's own estimate."""
    row_bytes: int = 0
    """So long is a row on average, likewise."""
    row_end: str = ""
    """The column that says until when a row holds, in a table that keeps its old rows (MariaDB)."""


def read(
    connection: Connection, database: str, names: Iterable[str], *, missing_ok: bool = False
) -> dict[str, Table]:
    """Those tables; none given: all base tables of the database."""
    wanted = set(names)
    tables = {
        row[0]: row
        for row in connection.execute(
            "SELECT TABLE_NAME, ENGINE, TABLE_ROWS, AVG_ROW_LENGTH, TABLE_TYPE = 'SYSTEM VERSIONED' "
            "FROM information_schema.TABLES "
            "WHERE TABLE_SCHEMA = %s AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')",
            [database],
        )
        if not wanted or row[0] in wanted
    }
    for name in () if missing_ok else sorted(wanted - set(tables)):
        raise Misconfigured(
            f"the database {database!r} has no table {name!r} that this user may see",
            hint="correct `tables`, or: GRANT SELECT ON the table TO the user",
        )
    columns: dict[str, list[Any]] = {name: [] for name in tables}
    for row in connection.execute(_COLUMNS, [database]):
        if row[0] in columns:
            columns[row[0]].append(row[1:])
    dialect = flavor.of(connection).dialect
    found = {name: _table(row, columns[name], dialect) for name, row in tables.items()}
    for name, table in [each for each in found.items() if not each[1].key]:
        shown = [column.name for column in table.columns]
        key = flavor.unique_key(connection, database, name, shown, table.row_end)
        found[name] = replace(table, key=key)
    return found


_COLUMNS = (
    "SELECT c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, c.IS_NULLABLE, "
    "c.CHARACTER_SET_NAME, c.CHARACTER_OCTET_LENGTH, c.NUMERIC_PRECISION, c.NUMERIC_SCALE, "
    "c.DATETIME_PRECISION, c.COLUMN_DEFAULT, c.EXTRA, c.GENERATION_EXPRESSION, k.SEQ_IN_INDEX "
    "FROM information_schema.COLUMNS c LEFT JOIN information_schema.STATISTICS k "
    "ON k.TABLE_SCHEMA = c.TABLE_SCHEMA AND k.TABLE_NAME = c.TABLE_NAME "
    "AND k.COLUMN_NAME = c.COLUMN_NAME AND k.INDEX_NAME = 'PRIMARY' "
    "WHERE c.TABLE_SCHEMA = %s ORDER BY c.TABLE_NAME, c.ORDINAL_POSITION"
)


def _table(row: _Told, columns: list[Any], dialect: Dialect) -> Table:
    name, engine, rows, row_bytes, keeps_old = row
    ends = [each[0] for each in columns if each[-2] == "ROW END"]
    row_end = (*ends, system_versions.ROW_END)[0] if int(keeps_old) else ""
    numbered = [(each[-1], n) for n, each in enumerate(columns) if each[-1] and each[0] != row_end]
    return Table(
        name,
        tuple(_description(row, dialect) for row in columns),
        tuple(place for _, place in sorted(numbered)),
        engine or "",
        int(rows or 0),
        int(row_bytes or 0),
        row_end,
    )


def _description(row: Any, dialect: Dialect) -> Description:
    name, kind, full, nullable, charset, octets, precision, scale, digits, default, extra, _, _ = (
        row
    )
    full = full.lower() if kind not in ("enum", "set") else full
    shape = _wire(kind, full, octets, precision, scale, digits)
    special = kind if kind in SPECIAL else ""
    if kind == "vector":
        shape = Wire(dialect.vector, 4 if dialect.vector == wire.VECTOR else int(octets))
        special = kind if dialect.vector == wire.VARCHAR else ""
    return Description(
        name,
        shape,
        nullable == "YES",
        "unsigned" in full if kind not in ("enum", "set") else False,
        charset or (charsets.BINARY if _is_binary(kind) else None),
        members(full) if kind in ("enum", "set") else (),
        special,
        literal(default, extra, is_sql=dialect is MARIADB),
    )


def _is_binary(kind: str) -> bool:
    return kind.endswith(("binary", "blob", "vector")) or kind in SPECIAL or kind in _GEOMETRIES


def members(full: str) -> tuple[str, ...]:
    """The values of enum('a','b''c'), as the server writes them: with backslashes as well."""
    return tuple(
        _ESCAPED.sub(lambda found: _ESCAPES.get(found[0], found[0][1:]), text)
        for text in _MEMBER.findall(full)
    )


def _wire(kind: str, full: str, octets: Any, precision: Any, scale: Any, digits: Any) -> Wire:
    compressed = "compressed" in full
    if kind in _SIMPLE:
        found = _SIMPLE[kind]
        return Wire(wire.BLOB_COMPRESSED, found.first) if compressed else found
    if kind == "decimal":
        return Wire(wire.NEWDECIMAL, int(precision), int(scale))
    if kind in _TEMPORAL:
        return Wire(_TEMPORAL[kind], int(digits or 0))
    if kind in ("char", "binary"):
        return Wire(wire.STRING, int(octets))
    if kind in ("varchar", "varbinary"):
        shape = wire.VARCHAR_COMPRESSED if compressed else wire.VARCHAR
        return Wire(shape, int(octets) + compressed)  # a byte more says how it is compressed
    if kind == "bit":
        return Wire(wire.BIT, int(precision))
    if kind == "enum":
        return Wire(wire.ENUM, 1 if len(members(full)) < 256 else 2)
    if kind == "set":
        count = (len(members(full)) + 7) // 8
        return Wire(wire.SET, count if count <= 4 else 8)
    if kind in _GEOMETRIES:
        return Wire(wire.GEOMETRY, 4)
    if kind == "json":
        return Wire(wire.JSON, 4)
    return Wire(wire.NULL)  # refused by `values`, with the column's name


def describe(
    seen: TableMap,
    now: Table | None,
    charset_names: Mapping[int, str],
    trusted: Table | None = None,
) -> tuple[tuple[Description, ...], tuple[int, ...]]:
    """The columns and the key at the moment of a table map.

    With `binlog_row_metadata=FULL` the map says it all but for MariaDB's own types that look like
    BINARY or VARBINARY, which `now` tells apart. Rows that were logged with less have the columns of
    `trusted`, the table as it surely was then, if the map agrees; else they are refused: no guesses.
    """
    if seen.names is None or seen.members is None or not seen.has_key:
        if trusted is not None and _agrees(seen, trusted):
            ends = (n for n, each in enumerate(trusted.columns) if each.name == trusted.row_end)
            return trusted.columns, (*trusted.key, *ends)  # as the log has it
        raise SchemaUnknown(
            f"rows of {seen.database}.{seen.table} were logged without the names of their columns",
            hint="SET GLOBAL binlog_row_metadata = FULL, then take the snapshot again (--resnapshot)",
        )
    special = {column.name: column for column in now.columns} if now is not None else {}
    columns = []
    for place, name in enumerate(seen.names):
        shape = seen.wires[place]
        collation = None if seen.collations is None else seen.collations[place]
        charset = None if collation is None else charset_names.get(collation, f"#{collation}")
        known = each if (each := special.get(name)) and each.wire == shape else None
        columns.append(
            Description(
                name,
                shape,
                seen.nullable[place],
                bool(seen.unsigned and seen.unsigned[place]) and shape.type != wire.YEAR,
                charset,
                _decoded(seen.members[place], charset),
                known.special if known is not None and charset == charsets.BINARY else "",
                None if known is None else known.default,
            )
        )
    return tuple(columns), seen.key


def _agrees(seen: TableMap, table: Table) -> bool:
    """Whether what the map says is what the table has: types, what may be NULL, signs."""
    return (
        seen.wires == tuple(column.wire for column in table.columns)
        and seen.nullable == tuple(column.nullable for column in table.columns)
        and (
            seen.unsigned is None
            or all(
                flag == column.unsigned or column.wire.type == wire.YEAR
                for flag, column in zip(seen.unsigned, table.columns, strict=True)
            )
        )
    )


def _decoded(raw: tuple[bytes, ...] | None, charset: str | None) -> tuple[str, ...]:
    if raw is None:
        return ()
    decode = charsets.decoder(charset or "utf8mb4")
    return tuple(decode(text) for text in raw)
