"""Arrow columns as SQLite's values, and back. Called by `target` only.

Arrow                      SQLite     written as
integers, booleans         INTEGER
floats                     REAL       SQLite has no NaN: such a row is refused
strings                    TEXT
binary                     BLOB
decimals                   TEXT       digit by digit, as a float would lose some
timestamps, dates          TEXT       2026-11-15T15:45:00.123456Z; of one width, so they sort
durations                  INTEGER    in their own unit
structs, lists, maps       TEXT       JSON
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headwater.views.targets.texts import from_texts

if TYPE_CHECKING:
    import pyarrow as pa


def column_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    t = pa.types
    if t.is_integer(kind) or t.is_boolean(kind) or t.is_duration(kind):
        return "INTEGER"
    if t.is_floating(kind):
        return "REAL"
    return "BLOB" if t.is_binary(kind) or t.is_large_binary(kind) else "TEXT"


def to_sqlite(values: pa.Array) -> list[Any]:
    import pyarrow as pa

    from headwater.views.targets.texts import texts

    if pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    elif column_type(values.type) == "TEXT":
        values = texts(values)
    found: list[Any] = values.to_pylist()
    return found


def from_sqlite(values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return pa.array([None if value is None else bool(value) for value in values], kind)
    if pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return from_texts(values, kind) if column_type(kind) == "TEXT" else pa.array(values, kind)


def not_numbers(rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    """Rows that SQLite would silently change: it turns NaN into null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if pa.types.is_floating(column.type):
            for number in pc.indices_nonzero(pc.fill_null(pc.is_nan(column), False)).to_pylist():
                yield number, f"{name} is NaN, which SQLite does not have"
