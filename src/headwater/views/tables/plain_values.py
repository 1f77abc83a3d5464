"""Values of Arrow columns as plain Python ones that are equal where the state's engine finds them equal.

Used by `memory`. Times and dates are numbers, so that none is out of Python's range; floating-point numbers
are their bits, so that every value is itself and no other: they may be kept, and not be compared with each
other. Nested values are not taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
Values = tuple[object, ...]


def can_be_kept(kind: pa.DataType) -> bool:
    return can_be_compared(kind) or kind in _BITS


def can_be_compared(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_signed_integer(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_decimal(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
    )


def rows_of(table: pa.Table) -> list[Values]:
    """The rows of a table, each as its values."""
    return list(zip(*(_plain(column) for column in table.columns), strict=True))


def table_of(rows: Sequence[Values], schema: pa.Schema) -> pa.Table:
    """The table of such rows."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [_arrow(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _plain(column: pa.ChunkedArray) -> list[object]:
    kind = _stored(column.type)
    if kind is None:
        return column.to_pylist()
    return [value for chunk in column.chunks for value in chunk.view(kind).to_pylist()]


def _arrow(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    stored = _stored(kind)
    return pa.array(values, kind) if stored is None else pa.array(values, stored).view(kind)


def _stored(kind: pa.DataType) -> pa.DataType | None:
    """The number that stands for a value; None where it is a plain one."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else _BITS.get(kind)
