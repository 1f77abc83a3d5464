"""A table's rows in the order of its key, some at a time; called by `snapshot` and `incremental`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.capture.errors import Misconfigured
from headwater.capture.mysql import charsets
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.columns import Description
from headwater.capture.mysql.connection import Packet, text_values
from headwater.capture.mysql.tables import CapturedTable
from headwater.capture.source import Range

ROWS_MIN = 10
_INTEGERS = {wire.TINY, wire.SHORT, wire.INT24, wire.LONG, wire.LONGLONG}
_ORDERED = {
    *(*_INTEGERS, wire.NEWDECIMAL, wire.DATE),
    *(wire.DATETIME2, wire.TIMESTAMP2, wire.TIME2, wire.YEAR, wire.STRING, wire.VARCHAR),
}


def query(
    database: str,
    table: CapturedTable,
    after: Any,
    limit: int | None,
    last: Any = None,
    where: str | None = None,
    *,
    ordered: bool = True,
) -> tuple[str, list[Any] | None]:
    """The statement for what follows a key, up to `last`, so many rows at most."""
    names = [_quoted(column.name) for column in table.descriptions]
    shown = [field.select.format(name) for field, name in zip(table.fields, names, strict=True)]
    # Key columns once more, as they are: an expression may stand in their place before.
    keys = [names[place] for place in table.key]
    source = f"{_quoted(database)}.{_quoted(table.name)}"
    condition, parameters = _between(table, after, last, where)
    order = f" ORDER BY {', '.join(keys)}" if ordered else ""
    order += f" LIMIT {limit}" if limit is not None else ""
    return f"SELECT {', '.join([*shown, *keys])} FROM {source}{condition}{order}", parameters


def rows_within(bytes_max: int, row_bytes: int, rows_max: int) -> int:
    """So many rows, of so many bytes by the server's estimate, are read at a time."""
    return min(rows_max, max(ROWS_MIN, bytes_max // max(row_bytes, 1)))


def boundary(
    database: str, table: CapturedTable, after: Any, rows: int
) -> tuple[str, list[Any] | None]:
    """The statement for the key of the last of so many rows behind `after`; no row: fewer are left."""
    keys = ", ".join(_quoted(table.descriptions[place].name) for place in table.key)
    condition, parameters = _between(table, after, None, None)
    source = f"{_quoted(database)}.{_quoted(table.name)}"
    order = f"ORDER BY {keys} LIMIT 1 OFFSET {rows - 1}"
    return f"SELECT {keys} FROM {source}{condition} {order}", parameters


def boundary_key(table: CapturedTable, row: Packet) -> list[str]:
    return _key_of(table, text_values(row, [bytes] * len(table.key)))


def condition(table: CapturedTable, within: Range) -> str:
    """Which rows, in SQL."""
    parts = [f"({within.where})"] if within.where is not None else []
    column = table.descriptions[table.key[0]]
    for sign, value in ((">=", within.first), ("<=", within.last)):
        if value is not None:
            parts.append(
                f"{_quoted(column.name).replace('%%', '%')} {sign} {_literal(column, value)}"
            )
    return " AND ".join(parts)


def _literal(column: Description, value: str) -> str:
    if column.wire.type in _INTEGERS:
        try:
            return str(int(value))
        except ValueError:
            raise Misconfigured(
                f"{value!r} is no number, and {column.name} has numbers", hint="give a number"
            ) from None
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def key_of(table: CapturedTable, row: Packet) -> list[str]:
    """A row's key, for a position."""
    texts = text_values(row, [bytes] * (len(table.fields) + len(table.key)))
    return _key_of(table, texts[len(table.fields) :])


def continues(table: CapturedTable) -> bool:
    """Whether reading can go on after a key: there is one, and its text compares as it sorts."""
    columns = [table.descriptions[place] for place in table.key]
    return bool(columns) and all(column.wire.type in _ORDERED for column in columns)


def _between(
    table: CapturedTable, after: Any, last: Any, where: str | None
) -> tuple[str, list[Any] | None]:
    conditions = [] if where is None else [f"({where.replace('%', '%%')})"]
    parameters: list[Any] = []
    for key, sign, end in ((after, ">", ">"), (last, "<", "<=")):
        if key is not None:
            condition, given = _compared(table, key, sign, end)
            conditions.append(condition)
            parameters += given
    text = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return text, parameters or None


def _compared(table: CapturedTable, key: Any, sign: str, end: str) -> tuple[str, list[Any]]:
    """The condition for what follows a key: a > x OR (a = x AND (b > y OR …)).

    Written out, because the server uses no index for a comparison of whole rows.
    """
    condition = ""
    parameters: list[Any] = []
    for place, value in reversed(list(zip(table.key, key, strict=True))):
        column = table.descriptions[place]
        name, given = _quoted(column.name), _parameter(column, value)
        if condition:
            condition = f"({name} {sign} %s OR ({name} = %s AND {condition}))"
            parameters = [given, given, *parameters]
        else:
            condition, parameters = f"{name} {end} %s", [given]
    return condition, parameters


def _key_of(table: CapturedTable, texts: Sequence[bytes]) -> list[str]:
    """The key's values for a position: text, or hexadecimal where they are bytes."""
    return [
        text.hex() if _is_bytes(table.descriptions[place]) else text.decode()
        for place, text in zip(table.key, texts, strict=True)
    ]


def _is_bytes(column: Description) -> bool:
    return column.charset == charsets.BINARY and column.special in ("", "vector")


def _parameter(column: Description, value: str) -> Any:
    if _is_bytes(column):
        return bytes.fromhex(value)
    if column.wire.type in _INTEGERS:
        return int(value)
    return value


def _quoted(name: str) -> str:
    # Statements go through the driver's own formatting, where a percent sign stands for itself doubled.
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"
