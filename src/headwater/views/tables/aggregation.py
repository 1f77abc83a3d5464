"""Whether a view is an aggregate that running totals can keep: read from Spark's analysed plan.

Called by `planner` when a view is built; `totals` keeps what is found here. It must be `groupBy` over
columns of one table, and every measure one that is exact in whatever order rows come and go: counts, sums of
integers and decimals, averages of integers, the least and the greatest value. A filter, a computed column, a
join, a sum of floating-point numbers: such a view is computed from the rows of the groups that are touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from headwater.views.tables.analysis import TABLE, _each, _id, _is_column, _kind, _table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNT, SUM, AVERAGE, LEAST, GREATEST = "count", "sum", "average", "least", "greatest"
_MEASURES = {"Sum": SUM, "Average": AVERAGE, "Min": LEAST, "Max": GREATEST}
DIGITS_MAX = 28
"""Of a decimal that is summed: Spark's sum has ten more, and 38 is the most there is."""


@dataclass(frozen=True)
class Measure:
    """What is told of the rows of a group."""

    kind: str
    column: str | None = None
    """Of the table's state; None: the rows themselves are counted."""


@dataclass(frozen=True)
class Aggregation:
    """A view with one row for each group of one table's rows."""

    table: int
    groups: tuple[str, ...]
    """Columns of the table's state."""
    shown: tuple[int | Measure, ...]
    """For every column of the result: the number of a group's column, or a measure."""

    def measured(self, *kinds: str) -> list[str]:
        """The columns that have a measure of these kinds, each once."""
        found = (m.column for m in self.shown if isinstance(m, Measure) and m.kind in kinds)
        return list(dict.fromkeys(column for column in found if column is not None))


def aggregation(
    frame: DataFrame, columns: Sequence[pa.Schema], key: Sequence[str]
) -> Aggregation | None:
    """What totals have to keep of a view; None where they cannot. `columns`: of each table's state."""
    plan = frame._jdf.queryExecution().analyzed()
    output = [(_id(each), str(each.name())) for each in _each(plan.output())]
    names: dict[int, int] = {each: each for each, _ in output}
    plan, names = _through_selections(plan, names)
    if _kind(plan) != "Aggregate":
        return None
    grouping, made = list(_each(plan.groupingExpressions())), _made(plan)
    below, inner = _through_selections(
        plan.child(), {_id(each): _id(each) for each in _each(plan.child().output())}
    )
    if _kind(below) != "SubqueryAlias" or (table := _table(below)) is None:
        return None
    places = {_id(each): f"c{n}" for n, each in enumerate(_each(below.output()))}
    known = {outer: places[there] for outer, there in inner.items() if there in places}
    if not all(_is_column(each) and _id(each) in known for each in grouping):
        return None
    groups = tuple(known[_id(each)] for each in grouping)
    shown = [_shown(made.get(names.get(each, -1)), known, groups) for each, _ in output]
    found = [each for each in shown if each is not None]
    if len(found) != len(shown):
        return None
    keyed = {name: each for (_, name), each in zip(output, found, strict=True) if name in key}
    is_keyed = sorted(map(str, keyed.values())) == sorted(map(str, range(len(groups))))
    made_of = Aggregation(table, groups, tuple(found))
    return made_of if is_keyed and _is_exact(made_of, columns[table]) else None


def _through_selections(plan: Any, names: Mapping[int, int]) -> tuple[Any, dict[int, int]]:
    """Down through what only chooses and renames columns; `names` are followed, as far as they can be."""
    found = dict(names)
    while True:
        if _kind(plan) == "Project":
            below = {}
            for each in _each(plan.projectList()):
                inner = each.child() if _kind(each) == "Alias" else each
                if _is_column(inner):
                    below[_id(each)] = _id(inner)
            found = {outer: below[there] for outer, there in found.items() if there in below}
        elif _kind(plan) != "SubqueryAlias" or str(plan.alias()).startswith(TABLE):
            return plan, found
        plan = plan.child()


def _made(aggregate: Any) -> dict[int, Any]:
    return {
        _id(each): each.child() if _kind(each) == "Alias" else each
        for each in _each(aggregate.aggregateExpressions())
    }


def _shown(
    java: Any | None, known: Mapping[int, str], groups: tuple[str, ...]
) -> int | Measure | None:
    if java is None:
        return None
    if _is_column(java):
        column = known.get(_id(java))
        return groups.index(column) if column in groups else None
    if _kind(java) != "AggregateExpression" or java.isDistinct() or java.filter().isDefined():
        return None
    function = java.aggregateFunction()
    inputs = list(_each(function.children()))
    kind = COUNT if _kind(function) == "Count" else _MEASURES.get(_kind(function))
    if kind is None or len(inputs) != 1:
        return None
    if kind == COUNT and _kind(inputs[0]) == "Literal" and not inputs[0].nullable():
        return Measure(COUNT)
    if _is_column(inputs[0]) and (column := known.get(_id(inputs[0]))) is not None:
        return Measure(kind, column)
    return None


def _is_exact(found: Aggregation, columns: pa.Schema) -> bool:
    """Whether the state's engine says of every value exactly what Spark says."""
    ordered = [*found.groups, *found.measured(LEAST, GREATEST)]
    return (
        all(_is_plain(columns.field(each).type) for each in ordered)
        and all(_can_be_summed(columns.field(each).type) for each in found.measured(SUM))
        and all(types.is_integer(columns.field(each).type) for each in found.measured(AVERAGE))
    )


def _is_plain(kind: pa.DataType) -> bool:
    """A kind of value that both compare by its bytes or its number: no floats, whose zeros are two."""
    tests = (types.is_integer, types.is_boolean, types.is_string, types.is_binary, types.is_date)
    return any(test(kind) for test in (*tests, types.is_timestamp, types.is_decimal))


def _can_be_summed(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or (types.is_decimal(kind) and kind.precision <= DIGITS_MAX))
