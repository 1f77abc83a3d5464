"""What a match remembers of its rows: one slot for each `first(A.price)`, `count(B)`, …

No row is kept: each slot is brought up to date as a row is bound, in the same time however many rows
there were (but for `collect_list`). Slots are never changed, only replaced, because several ways of
matching share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwater.processing.patterns.trees import Remembered

Slots = tuple[Any, ...]
Values = Sequence[Any]
Bind = Callable[[Slots, Values, int], Slots]
"""(slots, values of the row, number of the row) → slots with the row in them."""

FIRST_ROW, LAST_ROW = "first row", "last row"
"""Two more kinds, for skipping: the number of the first and of the last row of a variable."""


def empty(slots: Sequence[Remembered]) -> Slots:
    return tuple(0 if each.kind == "count" else () if _is_tuple(each) else None for each in slots)


def binder(
    slots: Sequence[Remembered], variable: str | None, columns: Sequence[str]
) -> Bind | None:
    """How a row bound to `variable` (None: to none) changes the slots; None where it changes nothing."""
    changes = [
        (number, _update(each), None if each.sql is None else columns.index(each.sql))
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


def reader(slot: Remembered) -> Callable[[Any], Any]:
    """What a slot's content means as a value."""
    if slot.kind == "avg":
        return lambda held: None if held is None else held[0] / held[1]
    if slot.kind == "collect_list":
        return list
    if slot.kind in ("first", FIRST_ROW):
        offset = slot.offset
        return lambda held: held[offset] if len(held) > offset else None
    if slot.kind == "last" and slot.offset:
        back = -1 - slot.offset
        return lambda held: held[back] if len(held) >= -back else None
    return lambda held: held


def _is_tuple(slot: Remembered) -> bool:
    return slot.kind in ("first", "collect_list", FIRST_ROW) or (
        slot.kind == "last" and slot.offset > 0
    )


def _update(slot: Remembered) -> Callable[[Any, Any], Any]:
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
    return {"sum": _sum, "avg": _average, "min": _min, "max": _max}[slot.kind]


# As SQL's aggregates, these pass over nulls.
def _count_rows(held: int, row: int) -> int:
    return held + 1


def _count(held: int, value: Any) -> int:
    return held if value is None else held + 1


def _sum(held: Any, value: Any) -> Any:
    return held if value is None else value if held is None else held + value


def _average(held: tuple[Any, int] | None, value: Any) -> tuple[Any, int] | None:
    if value is None:
        return held
    return (value, 1) if held is None else (held[0] + value, held[1] + 1)


def _min(held: Any, value: Any) -> Any:
    return held if value is None or (held is not None and held <= value) else value


def _max(held: Any, value: Any) -> Any:
    return held if value is None or (held is not None and held >= value) else value


def _append(held: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    return held if value is None else (*held, value)
