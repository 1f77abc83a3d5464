"""How much work one value may be: steps, which every loop takes whose length a schema decides.

A schema of a stranger may have tens of thousands of branches, symbols or fields, each of which is looked at
for each part of a value. So the loops of `fit` take steps for what they look at, by what it costs: an own
step is some microseconds. A value has `STEPS` of them, and `STEPS_OF_A_PART` more for each of its parts.
"""

from __future__ import annotations

from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.header import Json

STEPS = 500_000
STEPS_OF_A_PART = 4
SEARCHED = 64
"""Branches or fields that a library looks at in a step."""
COMPARED = 256
"""Symbols."""


class Allowance:
    """Of one value, once."""

    def __init__(self, value: Json) -> None:
        self._value = value
        self._left = STEPS
        self._is_whole = False

    def take(self, steps: int) -> None:
        """Raises NotOfItsSchema."""
        self._left -= steps
        if self._left < 0 and not self._is_whole:  # most need not be counted
            self._is_whole = True
            self._left += STEPS_OF_A_PART * parts_of(self._value)
        if self._left < 0:
            raise NotOfItsSchema(
                "to write it takes too many steps by its schema: make the value smaller, or the schema's "
                "unions, enums and records"
            )


def parts_of(value: Json) -> int:
    count, waiting = 0, [value]
    while waiting:
        inner = waiting.pop()
        count += 1
        if isinstance(inner, dict | list):
            waiting += inner.values() if isinstance(inner, dict) else inner
    return count
