"""An Arrow column of bytes as the plain arrays that compiled code reads, without copying the data.

`rows` makes them from what Spark hands to a task. Offsets are made 32-bit: Spark sends larger ones only
with `spark.sql.execution.arrow.useLargeVarTypes`, and a batch of rows is far below 2 GB even then.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Arrow's memory is read-only; so is all the rest, or numba would compile for each mixture."""
    array.flags.writeable = False
    return array


_NOTHING: NDArray[np.uint8] = _frozen(np.zeros(0, np.uint8))
_NO_NULLS: NDArray[np.bool_] = _frozen(np.zeros(0, np.bool_))


class Column(NamedTuple):
    """Row i is `data[offsets[i]:offsets[i + 1]]`, or null where `nulls[i]` (empty: no nulls)."""

    offsets: NDArray[np.int32]
    data: NDArray[np.uint8]
    nulls: NDArray[np.bool_]
    absent: bool
    """There is no such column: every row is null."""


class Headers(NamedTuple):
    """Row i has the headers from `offsets[i]` to `offsets[i + 1]`; a null row has none."""

    offsets: NDArray[np.int32]
    names: Column
    values: Column
    absent: bool


def column(array: Any) -> Column:
    """Of a string or binary array."""
    plain = array.cast(pa.binary())
    _, offsets, data = plain.buffers()
    count = len(plain)
    if offsets is None or count == 0:
        starts = _frozen(np.zeros(count + 1, np.int32))
    else:
        starts = np.frombuffer(offsets, np.int32, count + 1, plain.offset * 4)
    return Column(
        starts,
        _NOTHING if data is None else np.frombuffer(data, np.uint8),
        nulls(plain),
        False,
    )


def nulls(array: Any) -> NDArray[np.bool_]:
    """Which rows are null; empty if none is."""
    if array.null_count == 0:
        return _NO_NULLS
    return _frozen(array.is_null().to_numpy(zero_copy_only=False))


def absent() -> Column:
    return Column(_frozen(np.zeros(1, np.int32)), _NOTHING, _NO_NULLS, True)


def headers(array: Any) -> Headers:
    """Of a list of structs (key, value)."""
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int32)
    if array.null_count:
        # A null list may still span values: an empty span is what "no headers" looks like.
        lengths = np.diff(offsets)
        missing = nulls(array)
        if lengths[missing].any():
            array = pa.array(array.to_pylist(), array.type)
            offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int32)
    pairs = array.values
    if pairs.null_count or pairs.field("key").null_count:
        flat = array.flatten()  # without what no row refers to
        if flat.null_count or flat.field("key").null_count:
            raise ValueError("a header is null, or has no key")
    return Headers(
        _frozen(offsets), column(pairs.field("key")), column(pairs.field("value")), False
    )


def no_headers() -> Headers:
    return Headers(_frozen(np.zeros(1, np.int32)), absent(), absent(), True)
