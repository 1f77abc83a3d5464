"""Whether no value can meet both of two schemas, as far as it can be proven; pure.

`compatibility` asks where a value has to meet exactly one of several (`oneOf`).
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.schemas.json_schema.rules.attributes import (
    enum_values,
    is_of,
    properties_of,
    texts_of,
)
from headwater.schemas.json_schema.rules.keywords import is_same
from headwater.schemas.json_schema.shapes import SEVERAL, Node, Shape, shape_of

Step = Callable[[], None]
"""Called for each: `effort`."""
_LEVELS_MAX = 5
_SCALARS = ("string", "number", "boolean", "null", "object", "array")


class Only:
    """Of `oneOf`: whether what meets one part of the writer's meets just one of the reader's."""

    def __init__(self, was: Shape, now: Shape, step: Step) -> None:
        self._was, self._now, self._step = was, now, step
        self._same: dict[tuple[int, int], bool] = {}
        self._apart: dict[tuple[int, int], bool] = {}

    def holds(self, mine: int, met: int) -> bool:
        """As it met no other before, or because it cannot."""
        others = (each for each in range(len(self._now.parts)) if each != met)
        return all(self._was_unmet(mine, each) or self._is_apart(mine, each) for each in others)

    def _was_unmet(self, mine: int, other: int) -> bool:
        if self._was.kind != "oneOf":
            return False
        numbers = range(len(self._was.parts))
        likely = sorted(numbers, key=lambda each: each != other)
        return any(self._is_same(each, other) for each in likely if each != mine)

    def _is_same(self, before: int, after: int) -> bool:
        if (before, after) not in self._same:
            pair = self._was.parts[before], self._now.parts[after]
            self._same[before, after] = is_same(*pair, set())
        return self._same[before, after]

    def _is_apart(self, mine: int, other: int) -> bool:
        if (mine, other) not in self._apart:
            pair = self._was.parts[mine], self._now.parts[other]
            self._apart[mine, other] = disjoint(*pair, self._step)
        return self._apart[mine, other]


def disjoint(one: Node, other: Node, step: Step, levels: int = _LEVELS_MAX) -> bool:
    """False: nobody knows."""
    step()
    if levels == 0:
        return False
    first, second = shape_of(one), shape_of(other)
    if "none" in (first.kind, second.kind):
        return True
    for this, that in ((first, second), (second, first)):
        if this.kind in SEVERAL:
            found = (disjoint(each, that.node, step, levels - 1) for each in this.parts)
            if any(found) if this.kind == "allOf" else all(found):
                return True
    if first.kind == second.kind == "enum":
        return not enum_values(first).keys() & enum_values(second).keys()
    types = _types(first), _types(second)
    if types[0] is not None and types[1] is not None:
        if not types[0] & types[1]:
            return True
        if types[0] == types[1] == {"object"}:
            return _are_disjoint_objects(first, second, step, levels)
    return False


def _types(shape: Shape) -> set[str] | None:
    """Those that its values can have; None: any, for all that is known."""
    if shape.kind == "enum":
        return {
            each for each in _SCALARS for value in enum_values(shape).values() if is_of(value, each)
        }
    given = shape.value.get("type")
    return {shape.kind} if shape.kind in _SCALARS and isinstance(given, str) else None


def _are_disjoint_objects(first: Shape, second: Shape, step: Step, levels: int) -> bool:
    mine, others = properties_of(first), properties_of(second)
    needed = texts_of(first, "required"), texts_of(second, "required")
    for name in needed[0] & needed[1]:
        if name in mine and name in others:
            both = first.node.inside(mine[name]), second.node.inside(others[name])
            if disjoint(*both, step, levels - 1):
                return True
    return any(_lacks(first, each) for each in needed[1]) or any(
        _lacks(second, each) for each in needed[0]
    )


def _lacks(shape: Shape, name: str) -> bool:
    """Whether it takes no property of this name."""
    value = shape.value
    return (
        value.get("additionalProperties") is False
        and name not in properties_of(shape)
        and "patternProperties" not in value
    )
