"""Aggregates over ranges of sorted times, in compiled code: the inner loop of `sliding`.

Rows are sorted by key and time. For each row the range is that of its key, from just after `time - length`
to the last row of its own time. Called by `sliding_windows` for the rows that are to be given out.

Also here: sums over ranges without an error: of whole numbers, of decimals, of fractions with few digits.

Each number is cut into limbs of 32 bits, the last with the sign. A limb's running sums
fit into 64 bits for up to 2^31 rows, so that the sum of a range is the difference of two of them; what comes
out is rounded once, to the nearest DOUBLE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np

from headwater.processing.measures import FRACTION, WHOLE, Measure

Array = np.ndarray[Any, np.dtype[Any]]


class Measured(NamedTuple):
    there: Array
    """Whether there is a result."""
    values: Array


@dataclass(frozen=True)
class Ranges:
    """From where to where the rows are that each of the asked rows sees."""

    begins: Array
    ends: Array

    @classmethod
    def of(cls, keys: Array, times: Array, length: int, asked: Array) -> Ranges:
        begins, ends = _ranges(keys, times, length)
        return cls(begins[asked], ends[asked])

    def measured(self, measure: Measure, present: Array, sent: Any) -> Measured:
        """An aggregate for each asked row; `sent` is its column as `Measure.sent` made it, of all rows."""
        counts = differences(present.astype(np.int64), self.begins, self.ends)
        there = counts > 0
        if measure.kind == "count":
            return Measured(there, counts)
        if measure.kind in ("minimum", "maximum"):
            smallest = measure.kind == "minimum"
            column = sent.to_numpy(dtype=np.float64)
            return Measured(there, _extremes(column, present, self.begins, self.ends, smallest))
        values = self._totals(measure, sent)
        if values.dtype == object:  # a decimal that is too large, as Spark's own try_sum has it
            there &= np.array([each is not None for each in values], bool)
            values = np.where(there, values, 0.0).astype(np.float64)
        return Measured(there, values / np.maximum(counts, 1) if measure.kind == "mean" else values)

    def _totals(self, measure: Measure, sent: Any) -> Array:
        if measure.form != FRACTION:
            return totals(measure, sent, self.begins, self.ends)
        column = sent.to_numpy(dtype=np.float64)
        found = of_few_digits(column, self.begins, self.ends)
        return _sums_in_order(column, self.begins, self.ends) if found is None else found


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
def _sums_in_order(column: Array, begins: Array, ends: Array) -> Array:
    """From each range's first value to its last, as Spark adds them up: to take one away again leaves what
    it has rounded. A range that begins where the one before does goes on from there.
    """
    found = np.empty(len(begins), np.float64)
    total, begin, end = 0.0, -1, 0
    for row in range(len(begins)):
        if begins[row] != begin:
            total, begin = 0.0, begins[row]
            end = begin
        for index in range(end, ends[row]):
            total += column[index]
        end = ends[row]
        found[row] = total
    return found


@numba.njit(cache=True)
def _before(one: float, other: float) -> bool:
    """In Spark's order, in which NaN is the largest."""
    return one < other or (np.isnan(other) and not np.isnan(one))


@numba.njit(cache=True)
def _extremes(column: Array, present: Array, begins: Array, ends: Array, smallest: bool) -> Array:
    """By a queue of candidates: each value enters and leaves it once."""
    found = np.zeros(len(begins))
    queue = np.empty(len(column), np.int64)
    first, last, end = 0, 0, 0
    for row in range(len(begins)):
        if begins[row] >= end:
            first, last, end = 0, 0, begins[row]
        for index in range(end, ends[row]):
            if not present[index]:
                continue
            value = column[index]
            while last > first and not (
                _before(column[queue[last - 1]], value)
                if smallest
                else _before(value, column[queue[last - 1]])
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


BITS = 32
_LOW = (1 << BITS) - 1
DECIMAL_END = 10**38
"""Of decimals, without the point: what is not below it, Spark has no type for."""
_EXACT = 1 << 53
_POWERS_MOST = 22
"""10^22 is the last power of ten that is a DOUBLE."""


def differences(column: Array, begins: Array, ends: Array) -> Array:
    """Of each range, the sum of whole numbers that fit."""
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(column)))
    return running[ends] - running[begins]


def totals(measure: Measure, sent: Any, begins: Array, ends: Array) -> Array:
    """As DOUBLE; an array of objects with None where a decimal is too large."""
    limbs = (
        _limbs_of(sent.to_numpy(np.int64))
        if measure.form == WHOLE
        else _limbs_of_decimals(sent, measure.scale)
    )
    sums = [differences(limb, begins, ends) for limb in limbs]
    small = _as_longs(sums)
    if small is not None and measure.scale <= _POWERS_MOST:
        if measure.scale == 0:
            return small.astype(np.float64)
        if np.abs(small).max(initial=0) < _EXACT:
            return small / float(10**measure.scale)  # of two that are exact, so rounded once
    return _one_by_one(sums, measure)


def of_few_digits(column: Array, begins: Array, ends: Array) -> Array | None:
    """Of fractions, where no order of adding them up can round: all are multiples of a power of two, and
    together fewer than 2^52 of it.
    """
    if not np.isfinite(column).all():
        return None
    fractions, exponents = np.frexp(column)
    digits = np.ldexp(fractions, 53).astype(np.int64)
    used = digits != 0
    if not used.any():
        return np.zeros(len(begins))
    last_bits = np.frexp((digits & -digits)[used].astype(np.float64))[1] - 1
    least = int((exponents[used] - 53 + last_bits).min())
    with np.errstate(over="ignore"):
        fits = np.abs(column).sum() < np.ldexp(1.0, least + 52)
    if not fits:
        return None
    steps = np.ldexp(column, -least).astype(np.int64)
    return np.ldexp(differences(steps, begins, ends).astype(np.float64), least)


def _limbs_of(longs: Array) -> list[Array]:
    return [longs & _LOW, longs >> BITS]


def _limbs_of_decimals(texts: Any, scale: int) -> list[Array]:
    import pyarrow as pa

    decimals = pa.array(texts, pa.string()).cast(pa.decimal128(38, scale))
    halves = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)[: len(texts)]
    low, high = halves[:, 0], halves[:, 1]
    if (high == low >> 63).all():
        return _limbs_of(low)
    return [low & _LOW, (low >> BITS) & _LOW, high & _LOW, high >> BITS]


def _as_longs(sums: list[Array]) -> Array | None:
    if len(sums) > 2 or np.abs(sums[1]).max(initial=0) >= 1 << 29:
        return None
    return (sums[1] << BITS) + sums[0]


def _one_by_one(sums: list[Array], measure: Measure) -> Array:
    """In Python's whole numbers, whose division rounds once."""
    divisor = 10**measure.scale
    columns = [each.tolist() for each in sums]
    found = []
    for limbs in zip(*columns, strict=True):
        total = sum(limb << (BITS * n) for n, limb in enumerate(limbs))
        fits = measure.form == WHOLE or abs(total) < DECIMAL_END
        found.append(total / divisor if fits else None)
    return np.array(found, dtype=object)
