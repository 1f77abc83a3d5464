"""Rows as JSON objects and back, by their Arrow schema: for documents, caches and dead letters.

Called by targets while they stage, and when they read back. Integers, floats, booleans and strings are
JSON's own; the rest is text as `texts` writes it, lists and structs hold such values. A float that is
no number has no place in JSON: it is the text `nan`, `inf` or `-inf`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.targets.texts import from_texts, plain_values, restored, texts

_DUMP = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def objects(rows: pa.RecordBatch) -> Iterator[dict[str, object]]:
    """Each row as an object that `json` can write."""
    names = rows.schema.names
    columns = [_plain(column) for column in rows.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def documents(rows: pa.RecordBatch) -> list[str]:
    """Each row as JSON."""
    return [_DUMP(row) for row in objects(rows)]


def from_objects(found: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.RecordBatch:
    """The reverse of `objects`; what an object lacks is null."""
    columns = [_column([row.get(field.name) for row in found], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_floating(kind):
        if pc.all(pc.is_finite(column), skip_nulls=True).as_py() is not False:
            return _listed(column)
        return [v if v is None or math.isfinite(v) else str(v) for v in column.to_pylist()]
    if _is_plain(kind):
        return _listed(column)
    if pa.types.is_nested(kind):
        return plain_values(column)
    return _listed(texts(column))


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        return pa.array([float(v) if isinstance(v, str) else v for v in values], kind)
    if _is_plain(kind):
        return pa.array(values, kind)
    if pa.types.is_nested(kind):
        return pa.array([restored(value, kind) for value in values], kind)
    return from_texts(values, kind)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
        or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )  # fmt: skip


def _listed(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values
