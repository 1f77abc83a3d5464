"""Times that only Arrow can hold: before the year 1 or after 9999, as Spark has them too. For targets.

Texts, JSON and Python end there, so stores that are reached by them (SQLite, Redis, PostgreSQL by psycopg,
documents, the statistics of Delta Lake) refuse such a row in words. DuckDB takes Arrow and keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

FIRST_S, AFTER_S = -62_135_596_800, 253_402_300_800
"""Seconds since 1970: of 0001-01-01, and of 10000-01-01."""
DAY_S = 86_400
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def far_times(rows: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Rows with such a time in one of these columns: number and reason."""
    for name in names:
        for number in _far(rows.column(name)):
            yield number, f"{name} is not between the years 1 and 9999"


def _far(column: pa.Array) -> list[int]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _outside(column.cast(pa.int64()), _PER_SECOND[kind.unit])
    if pa.types.is_date32(kind):
        return _outside(pc.multiply(column.cast(pa.int32()).cast(pa.int64()), DAY_S), 1)
    if pa.types.is_date64(kind):
        return _outside(column.cast(pa.int64()), 1000)
    if not pa.types.is_nested(kind) or not _has_times(kind) or _fits(column):
        return []
    return [number for number in range(len(column)) if not _fits(column.slice(number, 1))]


def _outside(numbers: pa.Array, per_second: int) -> list[int]:
    if per_second == _PER_SECOND["ns"]:
        return []  # an int64 of them does not reach so far
    early = pc.less(numbers, FIRST_S * per_second)
    late = pc.greater_equal(numbers, AFTER_S * per_second)
    found: list[int] = pc.indices_nonzero(pc.or_(early, late).fill_null(False)).to_pylist()
    return found


def _fits(column: pa.Array) -> bool:
    """Whether Python has every value: its years are the same ones."""
    try:
        column.to_pylist()
    except (OverflowError, ValueError):
        return False
    return True


def _has_times(kind: Any) -> bool:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    return pa.types.is_nested(kind) and any(
        _has_times(kind.field(n).type) for n in range(kind.num_fields)
    )
