"""The tree of a condition or a measure, and what can be read off it: types, columns, memories."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("first", "last", "count", "sum", "avg", "min", "max", "collect_list")
"""What can be remembered of the rows of a match."""
FUNCTIONS = ("abs", "coalesce", "greatest", "least")
"""Functions over anything. Any other function may only concern a row: Spark computes it."""


@dataclass(frozen=True)
class Literal:
    value: object
    sql: str


@dataclass(frozen=True)
class Row:
    """An expression over the row itself, as SQL."""

    sql: str


@dataclass(frozen=True)
class Remembered:
    """Something of the rows bound to a variable (of all rows of the match, without one)."""

    kind: str
    variable: str | None
    sql: str | None
    """Over each of these rows; None counts rows."""
    offset: int = 0


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Tree, ...]


Tree = Literal | Row | Remembered | Call


def refers(tree: Tree) -> bool:
    """Whether other rows than the current one have a part in it."""
    if isinstance(tree, Call):
        return any(map(refers, tree.arguments))
    return isinstance(tree, Remembered)


def remembered(tree: Tree) -> list[Remembered]:
    if isinstance(tree, Call):
        return [each for argument in tree.arguments for each in remembered(argument)]
    return [tree] if isinstance(tree, Remembered) else []


def rows(tree: Tree) -> list[str]:
    """The SQL of each expression over the row itself."""
    if isinstance(tree, Call):
        return [each for argument in tree.arguments for each in rows(argument)]
    return [tree.sql] if isinstance(tree, Row) else []


def as_aggregate(tree: Tree) -> str:
    """SQL of the same shape, from which Spark tells the type and whether it makes sense at all."""
    if isinstance(tree, Literal):
        return tree.sql
    if isinstance(tree, Row):
        return f"last({tree.sql})"
    if isinstance(tree, Remembered):
        return f"{tree.kind}({tree.sql if tree.sql is not None else 1})"
    inside = [as_aggregate(each) for each in tree.arguments]
    return _sql(tree.name, inside)


def _sql(name: str, inside: list[str]) -> str:
    if name in FUNCTIONS:
        return f"{name}({', '.join(inside)})"
    if name in ("not", "negative"):
        return f"({'NOT ' if name == 'not' else '-'}{inside[0]})"
    if name == "is null":
        return f"({inside[0]} IS NULL)"
    if name == "between":
        return f"({inside[0]} BETWEEN {inside[1]} AND {inside[2]})"
    if name == "in":
        return f"({inside[0]} IN ({', '.join(inside[1:])}))"
    return f"({inside[0]} {name} {inside[1]})"


def at_end(tree: Tree) -> Tree:
    if isinstance(tree, Row):
        return Remembered("last", None, tree.sql)
    if isinstance(tree, Call):
        return Call(tree.name, tuple(map(at_end, tree.arguments)))
    return tree
