"""A tree, as Spark reads it, as a Python function of a row and of what the match remembers.

What it gives must be what Spark's own expression gives on the same values, to the last digit: nulls, NaN,
overflows and divisions by zero as well. An operation that is not known here for its types is refused when
the machine is made, and one is made before the query starts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from headwater.processing.patterns import numbers
from headwater.processing.patterns.errors import NoResult, PatternError
from headwater.processing.patterns.memory import Slots, Values, reader
from headwater.processing.patterns.trees import Constant, Operation, Row, RowsReference, Typed
from headwater.processing.patterns.types import DAY_US, is_plain

Evaluate = Callable[[Values, Slots], Any]


class Evaluator:
    """`columns` and `slots` say where the values and memories of trees stand."""

    def __init__(self, columns: Sequence[str], slots: Sequence[RowsReference], ansi: bool) -> None:
        self._columns, self._slots, self._ansi = columns, slots, ansi

    def function(self, tree: Typed, where: str) -> Evaluate:
        """What computes a tree; `where` is how errors call it."""
        compute = self._function(tree, where)

        def evaluate(values: Values, held: Slots) -> Any:
            try:
                return compute(values, held)
            except (ArithmeticError, _BadShape) as error:
                hint = "guard it (`x / nullif(y, 0)`), or let the query start with wider types"
                raise NoResult(f"{where}: {error}", hint=hint) from None

        return evaluate if isinstance(tree, Operation | RowsReference) else compute

    def _function(self, tree: Typed, where: str) -> Evaluate:
        if isinstance(tree, Constant):
            value = tree.value
            return lambda values, held: value
        if isinstance(tree, Row):
            column = self._columns.index(tree.sql)
            return lambda values, held: values[column]
        if isinstance(tree, RowsReference):
            number, read = self._slots.index(tree), reader(tree, self._ansi)
            return lambda values, held: read(held[number])
        arguments = [self._function(each, where) for each in tree.arguments]
        if tree.name in ("And", "Or"):
            return _connected(arguments, tree.name == "Or")
        kinds = [each.type for each in tree.arguments]
        if tree.name in _WITH_NULLS and (tree.name in _ANY_TYPE or all(map(is_plain, kinds))):
            return _WITH_NULLS[tree.name](*arguments)
        strict = _strict(tree, kinds, self._ansi)
        if strict is None:
            raise PatternError(
                f"{where}: {tree.name} of {' and '.join(kinds)} is not possible over other rows",
                hint="make a column of it before `match`, or cast to another type there",
            )
        if len(arguments) == 1:
            return _one(strict, arguments[0])
        # As Spark does: a divisor that is null hides what is wrong with the dividend.
        backwards = tree.name in ("Divide", "Remainder")
        return _two_backwards(strict, *arguments) if backwards else _two(strict, *arguments)


def _one(strict: numbers.Unary, argument: Evaluate) -> Evaluate:
    def call(values: Values, held: Slots) -> Any:
        given = argument(values, held)
        return None if given is None else strict(given)

    return call


def _two(strict: numbers.Binary, first: Evaluate, second: Evaluate) -> Evaluate:
    def call(values: Values, held: Slots) -> Any:
        left = first(values, held)
        if left is None:
            return None
        right = second(values, held)
        return None if right is None else strict(left, right)

    return call


def _two_backwards(strict: numbers.Binary, first: Evaluate, second: Evaluate) -> Evaluate:
    return _two(lambda right, left: strict(left, right), second, first)


def _connected(arguments: list[Evaluate], decisive: bool) -> Evaluate:
    """AND and OR: decided by the first argument that is false, or true."""

    def call(values: Values, held: Slots) -> bool | None:
        unknown = False
        for each in arguments:
            found = each(values, held)
            if found is None:
                unknown = True
            elif found is decisive:
                return decisive
        return None if unknown else not decisive

    return call


# ---- operations that null makes null ----------------------------------------------------------------------


def _strict(tree: Operation, kinds: Sequence[str], ansi: bool) -> Callable[..., Any] | None:
    name = tree.name
    if name in _COMPARISONS:
        return _COMPARISONS[name] if all(map(is_plain, kinds)) else None
    if name in ("Add", "Subtract", "Multiply", "Divide", "Remainder"):
        return numbers.binary(name, tree.type, ansi)
    if name in ("UnaryMinus", "Abs"):
        return numbers.unary(name, tree.type, ansi)
    if name == "Cast":
        return numbers.cast(kinds[0], tree.type, ansi)
    if name == "Like":
        return _like if kinds == ["string", "string"] else None
    return _TIMES.get(name)


class _BadShape(Exception):
    """What LIKE cannot understand."""


def _like(value: str, shape: str) -> bool:
    return _expression(shape).fullmatch(value) is not None


@lru_cache(maxsize=1_000)
def _expression(shape: str) -> re.Pattern[str]:
    parts = re.findall(r"\\.|.", shape, re.DOTALL)
    if any(part == "\\" or (len(part) == 2 and part[1] not in "_%\\") for part in parts):
        raise _BadShape(
            f"in LIKE {shape!r}, a backslash stands before something else than _, % and \\"
        )
    wild = {"%": ".*", "_": "."}
    text = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.compile(text, re.DOTALL)


def _days_later(date: int, days: int) -> int:
    """Spark's dates are numbers of 32 bits, and wrap around."""
    return ((date // DAY_US + days + 2**31) % 2**32 - 2**31) * DAY_US


def _whole_days(interval: int) -> int:
    return interval // DAY_US if interval >= 0 else -(-interval // DAY_US)


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "EqualTo": operator.eq,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
}
_TIMES: dict[str, Callable[..., Any] | None] = {
    "Not": operator.not_,
    "SubtractDates": operator.sub,
    "SubtractTimestamps": operator.sub,
    "TimestampAddInterval": numbers.binary("Add", "bigint", ansi=True),
    "DateAdd": _days_later,
    "DateSub": lambda date, days: _days_later(date, -days),
    "ExtractANSIIntervalDays": _whole_days,
}


# ---- operations that know nulls ---------------------------------------------------------------------------


def _in(value: Evaluate, *others: Evaluate) -> Evaluate:
    def call(values: Values, held: Slots) -> bool | None:
        wanted = value(values, held)
        if wanted is None:
            return None
        unknown = False
        for each in others:
            found = each(values, held)
            if found is None:
                unknown = True
            elif found == wanted:
                return True
        return None if unknown else False

    return call


def _coalesce(*arguments: Evaluate) -> Evaluate:
    def call(values: Values, held: Slots) -> Any:
        for each in arguments:
            if (found := each(values, held)) is not None:
                return found
        return None

    return call


def _if(condition: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    def call(values: Values, held: Slots) -> Any:
        return then(values, held) if condition(values, held) else otherwise(values, held)

    return call


def _extreme(choose: Callable[..., Any]) -> Callable[..., Evaluate]:
    def extreme(*arguments: Evaluate) -> Evaluate:
        def call(values: Values, held: Slots) -> Any:
            given = [each(values, held) for each in arguments]
            return choose((each for each in given if each is not None), default=None)

        return call

    return extreme


def _same(one: Evaluate, two: Evaluate) -> Evaluate:
    return lambda values, held: one(values, held) == two(values, held)


_WITH_NULLS: dict[str, Callable[..., Evaluate]] = {
    "IsNull": lambda one: lambda values, held: one(values, held) is None,
    "EqualNullSafe": _same,
    "In": _in,
    "Coalesce": _coalesce,
    "Greatest": _extreme(max),
    "Least": _extreme(min),
    "If": _if,
}
_ANY_TYPE = ("IsNull", "Coalesce", "If")
