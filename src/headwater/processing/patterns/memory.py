"""What a match remembers of its rows: one slot for each `first(A.price)`, `count(B)`, …

No row is kept: each slot is brought up to date as a row is bound, in the same time however many rows
there were (but for `collect_list`). Slots are never changed, only replaced, because several ways of
matching share them. Sums and averages are Spark's: whole numbers in 64 bits, decimals with ten digits more
than the rows have, fractions as doubles one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from headwater.processing.patterns import numbers
from headwater.processing.patterns.errors import NoResult
from headwater.processing.patterns.trees import RowsReference

Slots = tuple[Any, ...]
Values = Sequence[Any]
Bind = Callable[[Slots, Values, int], Slots]
"""(slots, values of the row, number of the row) → slots with the row in them."""

FIRST_ROW, LAST_ROW = "first row", "last row"
"""Two more kinds, for skipping: the number of the first and of the last row of a variable."""


def empty(slots: Sequence[RowsReference]) -> Slots:
    return tuple(0 if each.kind == "count" else () if _is_tuple(each) else None for each in slots)


def binder(
    slots: Sequence[RowsReference], variable: str | None, columns: Sequence[str], ansi: bool
) -> Bind | None:
    """How a row bound to `variable` (None: to none) changes the slots; None where it changes nothing."""
    changes = [
        (number, _update(each, ansi), None if each.sql is None else columns.index(each.sql))
        for number, each in enumerate(slots)
        if each.variable is None or each.variable == variable
    ]
    if not changes:
        return None

    def bind(slots: Slots, values: Values, row: int) -> Slots:
        new = list(slots)
        for number, update, column in changes:
            new[number] = update(new[number], row if column is None else values[column])
        return tuple(new)

    return bind


def reader(slot: RowsReference, ansi: bool) -> Callable[[Any], Any]:
    """What a slot's content means as a value."""
    if slot.kind == "avg":
        return _mean(slot, ansi)
    if slot.kind == "sum" and numbers.is_decimal(slot.type):
        return lambda held: None if held is None or held.is_infinite() else held
    if slot.kind == "collect_list":
        return list
    if slot.kind in ("first", FIRST_ROW):
        offset = slot.offset
        return lambda held: held[offset] if len(held) > offset else None
    if slot.kind == "last" and slot.offset:
        back = -1 - slot.offset
        return lambda held: held[back] if len(held) >= -back else None
    return lambda held: held


def _is_tuple(slot: RowsReference) -> bool:
    return slot.kind in ("first", "collect_list", FIRST_ROW) or (
        slot.kind == "last" and slot.offset > 0
    )


def _update(slot: RowsReference, ansi: bool) -> Callable[[Any, Any], Any]:
    if slot.kind in ("first", FIRST_ROW):
        kept = slot.offset + 1
        return lambda held, value: held if len(held) >= kept else (*held, value)
    if slot.kind == "last" and slot.offset:
        kept = slot.offset
        return lambda held, value: (*held[-kept:], value)
    if slot.kind in ("last", LAST_ROW):
        return lambda held, value: value
    if slot.kind == "count":
        return _count_rows if slot.sql is None else _count
    if slot.kind == "collect_list":
        return _append
    if slot.kind in ("sum", "avg"):
        add, zero = _adding(slot, ansi)
        return _summing(add, zero) if slot.kind == "sum" else _averaging(add, zero)
    return {"min": _min, "max": _max}[slot.kind]


# As SQL's aggregates, these pass over nulls.
def _count_rows(held: int, row: int) -> int:
    return held + 1


def _count(held: int, value: Any) -> int:
    return held if value is None else held + 1


def _min(held: Any, value: Any) -> Any:
    return held if value is None or (held is not None and held <= value) else value


def _max(held: Any, value: Any) -> Any:
    return held if value is None or (held is not None and held >= value) else value


def _append(held: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    return held if value is None else (*held, value)


# ---- sums -----------------------------------------------------------------------------------------------


def _adding(slot: RowsReference, ansi: bool) -> tuple[numbers.Binary, Any]:
    """How a value is added to a sum, and the sum of nothing."""
    if not numbers.is_decimal(slot.of):
        if slot.kind == "avg" or numbers.is_fraction(slot.of):
            limit = numbers.limits("double", ansi)
            return lambda total, value: limit(total + float(value)), 0.0
        add = numbers.binary("Add", "bigint", ansi)
        assert add is not None
        return _named(slot, add), 0
    precision, scale = numbers.digits(slot.of)
    fit = numbers.limits(f"decimal({min(precision + 10, numbers.DIGITS_MAX)},{scale})", ansi)

    def added(total: Decimal, value: Decimal) -> Decimal:
        # A sum that was too large once is null for good: that is what infinity stands for.
        if total.is_infinite():
            return total
        found = fit(numbers.EXACT.add(total, value))
        return Decimal("Infinity") if found is None else found

    return _named(slot, added), Decimal(0)


def _named(slot: RowsReference, add: numbers.Binary) -> numbers.Binary:
    def named(total: Any, value: Any) -> Any:
        try:
            return add(total, value)
        except OverflowError as error:
            of = slot.sql if slot.variable is None else f"{slot.variable}.{slot.sql}"
            raise NoResult(
                f"{slot.kind}({of}): {error}", hint="cast to a wider type before `match`"
            ) from None

    return named


def _summing(add: numbers.Binary, zero: Any) -> Callable[[Any, Any], Any]:
    def update(held: Any, value: Any) -> Any:
        return held if value is None else add(zero if held is None else held, value)

    return update


def _averaging(add: numbers.Binary, zero: Any) -> Callable[[Any, Any], Any]:
    def update(held: tuple[Any, int] | None, value: Any) -> tuple[Any, int] | None:
        if value is None:
            return held
        total, count = (zero, 0) if held is None else held
        return add(total, value), count + 1

    return update


def _mean(slot: RowsReference, ansi: bool) -> Callable[[Any], Any]:
    divide = numbers.binary("Divide", slot.type, ansi)
    assert divide is not None
    number: Callable[[int], Any] = Decimal if numbers.is_decimal(slot.type) else float

    def mean(held: tuple[Any, int] | None) -> Any:
        if held is None or (isinstance(held[0], Decimal) and held[0].is_infinite()):
            return None
        return divide(held[0], number(held[1]))

    return mean
