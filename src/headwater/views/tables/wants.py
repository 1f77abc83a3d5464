"""Values that are asked for, and where in a query they come from.

Used by `program`, which follows the columns of a view's key from the result down to the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.views.tables.algebra import (
    Column,
    Expression,
    First,
    Made,
    Matched,
    Node,
    Pair,
    Stacked,
    refs,
    substituted,
)
from headwater.views.tables.errors import NotByRow


@dataclass(frozen=True)
class Want:
    """An expression whose values are asked for."""

    expression: Expression
    nulls: bool
    """Whether "no value" is one of them; where not, values are only compared with others."""
    place: int = 0
    """Of the column of the relation that the values are compared with."""


def has_scan(node: Node, number: int) -> bool:
    return any(scan.number == number for scan in node.scans)


def compared(pairs: Sequence[Pair], side: str) -> list[Want]:
    return [Want(getattr(pair, side), pair.nulls, n) for n, pair in enumerate(pairs)]


def below(node: Made, wants: Sequence[Want]) -> list[Want]:
    """Wants in terms of the columns under a node."""
    found = []
    for want in wants:
        if not refs(want.expression) <= node.outputs:
            raise NotByRow(node.rest)
        found.append(Want(substituted(want.expression, node.made), want.nulls, want.place))
    return found


def in_child(node: Stacked, number: int, wants: Sequence[Want]) -> list[Want]:
    names = {
        outer: Column(inner) for outer, inner in zip(node.columns, node.below[number], strict=True)
    }
    return [Want(substituted(w.expression, names), w.nulls, w.place) for w in wants]


def comes_from_left(node: Matched, want: Want) -> bool:
    """Whether a value comes from the left; NotByRow if from both, or from rows that may be missing."""
    looked_at = refs(want.expression)
    if not looked_at:
        raise NotByRow("is the same in all rows")
    for is_left, side, may_miss in (
        (True, node.left, node.kept_right),
        (False, node.right, node.kept_left),
    ):
        if looked_at <= side.outputs and (is_left or node.shows_right):
            if not side.scans:
                raise NotByRow("comes from rows that are in no table")
            if may_miss and (want.nulls or not isinstance(want.expression, Column)):
                raise NotByRow("comes from a side of an outer join that may have no row")
            return is_left
    if looked_at <= node.left.outputs | node.right.outputs:
        raise NotByRow("is computed from both sides of a join")
    raise NotByRow("is the result of an aggregate")


def is_split(node: Matched, wants: Sequence[Want]) -> bool:
    """Whether every value is the first one of both sides, as in a full join by a common name."""
    return all(
        isinstance(want.expression, First)
        and len(want.expression.choices) == 2
        and not refs(want.expression) <= node.left.outputs
        and not refs(want.expression) <= node.right.outputs
        and all(
            refs(each) <= node.left.outputs or refs(each) <= node.right.outputs
            for each in want.expression.choices
        )
        for want in wants
    )


def halves(node: Matched, wants: Sequence[Want]) -> tuple[list[Want], list[Want]]:
    left: list[Want] = []
    right: list[Want] = []
    for want in wants:
        assert isinstance(want.expression, First)
        for each in want.expression.choices:
            half = Want(each, want.nulls, want.place)
            (left if refs(each) <= node.left.outputs else right).append(half)
    return left, right


def united(*found: Mapping[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    together: dict[int, tuple[str, ...]] = {}
    for each in found:
        for number, tables in each.items():
            together[number] = (*together.get(number, ()), *tables)
    return together


def are_compared(node: Matched, left: Sequence[Want], right: Sequence[Want]) -> bool:
    """Whether a join compares each of these with its counterpart: partners then have the same values."""
    both = {(pair.left, pair.right) for pair in node.pairs}
    return all(
        (mine.expression, other.expression) in both for mine, other in zip(left, right, strict=True)
    )
