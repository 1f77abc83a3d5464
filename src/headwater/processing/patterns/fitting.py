"""Whether a row fits a position, beyond its bits: conditions over earlier rows, and what is remembered.

While the condition of B is asked, the row counts as bound to B: `count(B)` includes it, `last(B.price, 1)`
is the B before it. A condition that is null does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.processing.patterns.evaluating import Evaluate
from headwater.processing.patterns.memory import Bind, Slots, Values

Check = Callable[[Slots, Values, int, int], Slots | None]
"""(slots, values, number and bits of the row) → the slots with the row in them, or None: does not fit."""


def check_one(bind: Bind | None, tests: Sequence[Evaluate]) -> Check | None:
    """For a row that is bound to a variable; None where every row with its bits fits."""
    if not tests:
        return _binding(bind)

    def check(slots: Slots, values: Values, row: int, mask: int) -> Slots | None:
        new = slots if bind is None else bind(slots, values, row)
        for test in tests:
            if not test(values, new):
                return None
        return new

    return check


def check_none(bind: Bind | None, others: Sequence[tuple[int, Check | None]]) -> Check | None:
    """For a row that fits none of some variables: (bit, check) of those that look at other rows."""
    if not others:
        return _binding(bind)

    def check(slots: Slots, values: Values, row: int, mask: int) -> Slots | None:
        for bit, other in others:
            if mask & bit and (other is None or other(slots, values, row, mask) is not None):
                return None
        return slots if bind is None else bind(slots, values, row)

    return check


def _binding(bind: Bind | None) -> Check | None:
    if bind is None:
        return None
    return lambda slots, values, row, mask: bind(slots, values, row)
