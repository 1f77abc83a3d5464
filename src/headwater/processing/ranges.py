"""Aggregates over ranges of sorted times, in compiled code: the inner loop of `sliding`.

Rows are sorted by key and time. For each row the range is that of its key, from just after `time - length`
to the last row of its own time. Nothing but numbers comes in and goes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def aggregated(
    keys: Array, times: Array, values: Array, kinds: Sequence[str], length: int
) -> list[Array]:
    """One column for each kind; `values` has one for each of them too. A missing value is a NaN."""
    begins, ends = _ranges(keys, times, length)
    found = []
    for number, kind in enumerate(kinds):
        column = np.ascontiguousarray(values[:, number])
        counts = _differences(np.cumsum(~np.isnan(column)), begins, ends)
        if kind == "count":
            found.append(counts)
            continue
        if kind in ("total", "mean"):
            result = _sums(column, begins, ends)
            result = result / np.maximum(counts, 1) if kind == "mean" else result
        else:
            result = _extremes(column, begins, ends, kind == "minimum")
        found.append(np.where(counts > 0, result, np.nan))
    return found


def _differences(running: Array, begins: Array, ends: Array) -> Array:
    full = np.concatenate(([0], running)).astype(np.int64)
    return full[ends] - full[begins]


@numba.njit(cache=True)
def _ranges(keys: Array, times: Array, length: int) -> tuple[Array, Array]:
    rows = len(times)
    begins, ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
    begin, end = 0, 0
    for row in range(rows):
        while keys[begin] != keys[row] or times[begin] <= times[row] - length:
            begin += 1
        end = max(end, row)
        while end < rows and keys[end] == keys[row] and times[end] <= times[row]:
            end += 1
        begins[row], ends[row] = begin, end
    return begins, ends


@numba.njit(cache=True)
def _sums(column: Array, begins: Array, ends: Array) -> Array:
    """Added up from nothing where a range does not overlap the one before; else moved along.

    Where a value leaves that is not finite, nothing can be taken away from the sum: it is added anew.
    """
    found = np.empty(len(begins), np.float64)
    total, begin, end = 0.0, 0, 0
    for row in range(len(begins)):
        anew = begins[row] >= end
        for index in range(begin, min(begins[row], end)):
            if np.isfinite(column[index]):
                total -= column[index]
            elif not np.isnan(column[index]):
                anew = True
        begin = begins[row]
        if anew:
            total, end = 0.0, begin
        for index in range(end, ends[row]):
            if not np.isnan(column[index]):
                total += column[index]
        end = ends[row]
        found[row] = total
    return found


@numba.njit(cache=True)
def _extremes(column: Array, begins: Array, ends: Array, smallest: bool) -> Array:
    """By a queue of candidates: each value enters and leaves it once."""
    rows = len(begins)
    found = np.full(rows, np.nan)
    queue = np.empty(rows, np.int64)
    first, last, end = 0, 0, 0
    for row in range(rows):
        if begins[row] >= end:
            first, last, end = 0, 0, begins[row]
        for index in range(end, ends[row]):
            value = column[index]
            if np.isnan(value):
                continue
            while last > first and (
                column[queue[last - 1]] >= value if smallest else column[queue[last - 1]] <= value
            ):
                last -= 1
            queue[last] = index
            last += 1
        end = max(end, ends[row])
        while first < last and queue[first] < begins[row]:
            first += 1
        if last > first:
            found[row] = column[queue[first]]
    return found
