"""A tree as a Python function of a row and of what the match remembers, with SQL's nulls.

Null in, null out, but for AND, OR, IS NULL, <=> and coalesce. A division by zero gives null.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from headwater.processing.patterns.memory import Slots, Values, reader
from headwater.processing.patterns.trees import Literal, Remembered, Row, Tree

Evaluate = Callable[[Values, Slots], Any]


def function(tree: Tree, columns: Sequence[str], slots: Sequence[Remembered]) -> Evaluate:
    """What computes a tree; `columns` and `slots` say where its values and memories stand."""
    if isinstance(tree, Literal):
        value = tree.value
        return lambda values, held: value
    if isinstance(tree, Row):
        column = columns.index(tree.sql)
        return lambda values, held: values[column]
    if isinstance(tree, Remembered):
        number, read = slots.index(tree), reader(tree)
        return lambda values, held: read(held[number])
    arguments = [function(each, columns, slots) for each in tree.arguments]
    return _call(tree.name, arguments)


def _call(name: str, arguments: list[Evaluate]) -> Evaluate:
    if name == "and":
        return _all(arguments)
    if name == "or":
        return _any(arguments)
    if name in _WITH_NULLS:
        found = _WITH_NULLS[name]
        return lambda values, held: found(*[each(values, held) for each in arguments])
    strict = _STRICT[name]

    def call(values: Values, held: Slots) -> Any:
        given = [each(values, held) for each in arguments]
        return None if None in given else strict(*given)

    return call


def _all(arguments: list[Evaluate]) -> Evaluate:
    def call(values: Values, held: Slots) -> bool | None:
        unknown = False
        for each in arguments:
            found = each(values, held)
            if found is None:
                unknown = True
            elif not found:
                return False
        return None if unknown else True

    return call


def _any(arguments: list[Evaluate]) -> Evaluate:
    def call(values: Values, held: Slots) -> bool | None:
        unknown = False
        for each in arguments:
            found = each(values, held)
            if found is None:
                unknown = True
            elif found:
                return True
        return None if unknown else False

    return call


def _number(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Python does not mix decimals and floats; SQL makes both doubles."""

    def call(left: Any, right: Any) -> Any:
        if isinstance(left, Decimal) != isinstance(right, Decimal) and (
            isinstance(left, float) or isinstance(right, float)
        ):
            left, right = float(left), float(right)
        return compute(left, right)

    return call


def _divide(left: Any, right: Any) -> Any:
    return None if right == 0 else left / right


def _remainder(left: Any, right: Any) -> Any:
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return int(math.copysign(abs(left) % abs(right), left))
    return math.fmod(left, right)


def _in(value: Any, *others: Any) -> bool | None:
    if value is None:
        return None
    return True if value in [each for each in others if each is not None] else _unknown(others)


def _unknown(others: tuple[Any, ...]) -> bool | None:
    return None if None in others else False


def _coalesce(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        return choose((each for each in values if each is not None), default=None)

    return call


def _like(value: str, shape: str) -> bool:
    parts = re.findall(r"\\.|.", shape, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    text = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(text, value, re.DOTALL) is not None


_WITH_NULLS: dict[str, Callable[..., Any]] = {
    "is null": lambda value: value is None,
    "<=>": operator.eq,
    "in": _in,
    "coalesce": _coalesce,
    "greatest": _extreme(max),
    "least": _extreme(min),
}
_STRICT: dict[str, Callable[..., Any]] = {
    "not": operator.not_,
    "negative": operator.neg,
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "between": lambda value, least, most: least <= value <= most,
    "like": _like,
    "+": _number(operator.add),
    "-": _number(operator.sub),
    "*": _number(operator.mul),
    "/": _number(_divide),
    "%": _number(_remainder),
    "abs": abs,
}
