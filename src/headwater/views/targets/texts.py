"""Columns as texts and back, by Arrow type: for stores that know only texts, and for keys.

Called by targets while they stage, and when they read their rows back. What comes back equals what
was written, to the last digit; a null stays a null.

    integers, floats, decimals   as they are written in Python
    booleans                     true, false
    timestamps                   2026-11-15T12:30:00.000000Z in UTC; without the Z where there is no zone
    dates                        2026-11-15
    bytes                        base64
    times, durations             the number of their unit
    lists, structs, maps         JSON
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.targets.float_keys import one_zero

SEPARATOR = ":"
_JSON = json.JSONEncoder(ensure_ascii=False).encode


def texts(column: pa.Array) -> pa.Array:
    """A column of any type as strings."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        naive = pc.strftime(column.cast(pa.timestamp(kind.unit)), "%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(naive, "Z", "") if kind.tz else naive
    if _is_bytes(kind):
        return pa.array(_each(column, lambda v: base64.b64encode(v).decode()), pa.string())
    if pa.types.is_nested(kind):
        written = [None if v is None else _JSON(v) for v in plain_values(column)]
        return pa.array(written, pa.string())
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    return column.cast(pa.string())


def from_texts(values: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    """The reverse of `texts`."""
    column = pa.array(values, pa.string())
    if pa.types.is_null(kind):
        return pa.nulls(len(column))
    if _is_bytes(kind):
        return pa.array(_each(column, base64.b64decode), kind)
    if pa.types.is_nested(kind):
        return pa.array(_each(column, lambda v: restored(json.loads(v), kind)), kind)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return column.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind)
    return column.cast(kind)


def key_texts(rows: pa.RecordBatch | pa.Table, key: Sequence[str]) -> list[str]:
    """One text for each row's key: the parts with colons between them, those inside are escaped."""
    columns = [texts(one_zero(_whole(rows.column(name)))) for name in key]
    if len(columns) > 1:
        columns = [_escaped(column) for column in columns]
    joined = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, SEPARATOR)
    found: list[str] = joined.to_pylist()
    return found


def _escaped(column: pa.Array) -> pa.Array:
    slashes = pc.replace_substring(column, "\\", "\\\\")
    return pc.replace_substring(slashes, SEPARATOR, "\\" + SEPARATOR)


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _each(column: pa.Array, change: Any) -> list[Any]:
    return [None if value is None else change(value) for value in column.to_pylist()]


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )  # fmt: skip


# ---- single values inside lists, structs and maps ---------------------------------------------------


def plain_values(column: pa.Array) -> list[Any]:
    """A nested column's values as JSON can hold them."""
    try:
        return [plain(value, column.type) for value in column.to_pylist()]
    except (OverflowError, ValueError):  # a time that Python does not have (`years`)
        return [_plain_scalar(value, column.type) for value in column]


def _plain_scalar(value: Any, kind: pa.DataType) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _plain_scalar(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [[_plain_scalar(each[n], each[n].type) for n in (0, 1)] for each in value.values]
    if pa.types.is_nested(kind):
        return [_plain_scalar(item, kind.value_type) for item in value.values]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        number = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return texts(pa.array([value.value], number).cast(kind))[0].as_py()
    return plain(value.as_py(), kind)


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value as JSON can hold it; a map is a list of pairs."""
    if value is None or _is_json(kind):
        return value
    if pa.types.is_floating(kind):
        return value if math.isfinite(value) else str(value)
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [[plain(k, kind.key_type), plain(v, kind.item_type)] for k, v in value]
    if pa.types.is_nested(kind):
        return [plain(item, kind.value_type) for item in value]
    return texts(pa.array([value], kind))[0].as_py()


def restored(found: Any, kind: pa.DataType) -> Any:
    """The value that `plain` was given."""
    if found is None or _is_json(kind):
        return found
    if pa.types.is_floating(kind):
        return float(found)
    if pa.types.is_struct(kind):
        return {field.name: restored(found.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(restored(k, kind.key_type), restored(v, kind.item_type)) for k, v in found]
    if pa.types.is_nested(kind):
        return [restored(item, kind.value_type) for item in found]
    return from_texts([found], kind)[0].as_py()


def _is_json(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )  # fmt: skip
