"""Floats as keys, as Spark compares them: 0.0 and -0.0 are one key, and so is every NaN. For targets.

Spark groups and joins so, while stores, Arrow and texts tell the two zeros apart in their own ways. A key is
therefore made one of these before anything looks at it (`staged_files`), and when it becomes text (`texts`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def one_zero(column: pa.Array) -> pa.Array:
    """The same values with one zero and one NaN; other types as they are."""
    kind = column.type
    if not (pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        return column
    zero, no_number = pa.scalar(0.0, kind), pa.scalar(float("nan"), kind)
    plain = pc.if_else(pc.equal(column, zero), zero, column)
    return pc.if_else(pc.is_nan(plain), no_number, plain)


def with_one_zero(rows: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """The rows with such keys."""
    for name in key:
        place = rows.schema.get_field_index(name)
        column = rows.column(place)
        if (plain := one_zero(column)) is not column:
            rows = rows.set_column(place, rows.schema.field(place), plain)
    return rows
