"""Results that depend on the order in which Spark happens to see rows: refused when a view is built.

`row_number` over rows that its order does not tell apart, `max_by` of equal ones, `collect_list`: computed
again from the same rows, each may give something else. `verify` would report differences that are none, and a
rebuild would give other rows than the view that it replaces. So an order must end with what tells rows apart:
their table's key, the groups of an aggregate, or all the columns there are.

Called when a view over tables is built; in Spark's analysed plan each table is marked with its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.views.tables.analysis import (
    Java,
    _conjuncts,
    _each,
    _id,
    _ids,
    _is_column,
    _is_wider,
    _kind,
    _table,
    _tree,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AS_EQUAL = {"Rank", "DenseRank", "PercentRank", "CumeDist"}
"""Window functions that give rows of one place in the order the same value."""
_LISTS = {"CollectList", "CollectSet", "ListAgg"}
_WITHOUT_ORDER = {"SortArray", "ArraySort", "Size", "ArrayContains", "ArrayMin", "ArrayMax"}
"""What is made of a list, whatever its order."""
_EXTREMES = {"MaxBy", "MinBy"}
_ROWS_KEPT = {"Filter", "Sort", "SubqueryAlias", "Repartition", "RepartitionByExpression", "Window"}
_ROWS_KEPT |= {"RebalancePartitions", "ResolvedHint", "UnresolvedHint", "View", "Distinct"}
_ROWS_KEPT |= {"Deduplicate", "GlobalLimit", "LocalLimit"}


class Undecided(HeadwaterError):
    """Rows that nothing tells apart decide over a result, by chance."""


def refuse_ties(frame: DataFrame, keys: Sequence[Sequence[str]]) -> None:
    """Look at the plan of a view's result; `keys`: of the tables, by their numbers."""
    _check(frame._jdf.queryExecution().analyzed(), keys)


def _check(plan: Java, keys: Sequence[Sequence[str]]) -> None:
    kind = _kind(plan)
    if kind == "Window":
        _check_window(plan, keys)
    if kind == "Aggregate":
        _check_aggregate(plan, keys)
    for child in _each(plan.children()):
        _check(child, keys)


def _check_window(plan: Java, keys: Sequence[Sequence[str]]) -> None:
    child = plan.child()
    ordered = [each.child() for each in _each(plan.orderSpec())]
    decides = _columns(ordered) | _columns(_each(plan.partitionSpec()))
    for expression in _each(plan.windowExpressions()):
        for each in _tree(expression):
            if _kind(each) == "WindowExpression":
                function = each.windowFunction()
                _refuse_lists(function)
                if _has_ties(each) and not _tells_apart(decides, child, keys):
                    name = _name(function)
                    raise Undecided(
                        f"{name} depends on the order of rows that its orderBy does not tell apart",
                        hint=f"let the orderBy of {name} end with the key of the rows"
                        + _suggestion(child, keys),
                    )


def _has_ties(window: Java) -> bool:
    """Whether rows at one place in the order may be given different values."""
    function = window.windowFunction()
    if _kind(function) in _AS_EQUAL:
        return False
    if _kind(function) != "AggregateExpression":
        return True
    if _kind(function.aggregateFunction()) in ("First", "Last", "NthValue", "AnyValue"):
        return True
    frame = window.windowSpec().frameSpecification()
    by_rows = _kind(frame.frameType()) == "RowFrame$"
    whole = _kind(frame.lower()) == "UnboundedPreceding$" and (
        _kind(frame.upper()) == "UnboundedFollowing$"
    )
    return by_rows and not whole


def _check_aggregate(plan: Java, keys: Sequence[Sequence[str]]) -> None:
    groups = _columns(_each(plan.groupingExpressions()))
    for expression in _each(plan.aggregateExpressions()):
        _refuse_lists(expression)
        for each in _tree(expression):
            if _kind(each) == "Mode" and not each.reverseOpt().isDefined():
                raise Undecided(
                    "mode takes one of several values that are equally frequent",
                    hint="let it take the least of them: mode(value, True)",
                )
            if _kind(each) not in _EXTREMES:
                continue
            decides = groups | _columns([each.orderingExpr()])
            shown = {_id(e) for e in _tree(each.valueExpr()) if _is_column(e)}
            if not shown <= decides and not _tells_apart(decides, plan.child(), keys):
                name = str(each.prettyName())
                raise Undecided(
                    f"{name} takes one of several rows that its order does not tell apart",
                    hint=f"order by a struct that ends with the key of the rows, as in {name}(value, "
                    "struct(at, id))" + _suggestion(plan.child(), keys),
                )


def _refuse_lists(expression: Java) -> None:
    if _kind(expression) in _WITHOUT_ORDER:
        return
    if _kind(expression) in _LISTS:
        name = str(expression.prettyName())
        raise Undecided(
            f"the values that {name} gathers come in any order, another one each time",
            hint=f"sort them where they are gathered: sort_array({name}(…))"
            if name != "listagg"
            else "join a sorted list: array_join(sort_array(collect_list(…)), ',')",
        )
    for child in _each(expression.children()):
        _refuse_lists(child)


# ---- what tells rows apart ---------------------------------------------------------------------------


def _tells_apart(columns: frozenset[int], plan: Java, keys: Sequence[Sequence[str]]) -> bool:
    """Whether rows that agree in these columns are one row, or the same in all."""
    unique = _unique(plan, keys)
    return _ids(plan) <= columns or (unique is not None and unique <= columns)


def _unique(plan: Java, keys: Sequence[Sequence[str]]) -> frozenset[int] | None:
    """Columns of which no two rows have the same values; None where none are known."""
    kind = _kind(plan)
    if kind == "SubqueryAlias" and (number := _table(plan)) is not None:
        named = {str(each.name()): _id(each) for each in _each(plan.output())}
        return frozenset(named[name] for name in keys[number])
    if kind in _ROWS_KEPT:
        return _unique(plan.child(), keys)
    if kind == "Project":
        return _renamed(_unique(plan.child(), keys), plan)
    if kind == "Aggregate":
        return _groups(plan)
    return _joined(plan, keys) if kind == "Join" else None


def _renamed(unique: frozenset[int] | None, plan: Java) -> frozenset[int] | None:
    names = dict(_passed_on(plan.projectList()))
    if unique is None or not unique <= names.keys():
        return None
    return frozenset(names[each] for each in unique)


def _passed_on(expressions: Java) -> Iterator[tuple[int, int]]:
    """A column below, and what it is called above."""
    for each in _each(expressions):
        inner = each.child() if _kind(each) == "Alias" else each
        if _is_column(inner):
            yield _id(inner), _id(each)


def _groups(plan: Java) -> frozenset[int] | None:
    found = []
    for group in _each(plan.groupingExpressions()):
        shown = [
            _id(each)
            for each in _each(plan.aggregateExpressions())
            if (each.child() if _kind(each) == "Alias" else each).semanticEquals(group)
        ]
        if not shown:
            return None
        found.append(shown[0])
    return frozenset(found)


def _joined(plan: Java, keys: Sequence[Sequence[str]]) -> frozenset[int] | None:
    left, right = _unique(plan.left(), keys), _unique(plan.right(), keys)
    kind = str(plan.joinType().sql())
    if kind in ("LEFT SEMI", "LEFT ANTI"):
        return left
    same = frozenset(_compared(plan))
    if right is not None and right <= same and kind in ("INNER", "LEFT OUTER"):
        return left  # at most one row on the right
    if left is not None and left <= same and kind in ("INNER", "RIGHT OUTER"):
        return right
    return None if left is None or right is None else left | right


def _compared(join: Java) -> Iterator[int]:
    """Columns that a join finds by a value of the other side."""
    condition = join.condition()
    here, there = _ids(join.left()), _ids(join.right())
    for each in _conjuncts(condition.get()) if condition.isDefined() else ():
        if _kind(each) != "EqualTo":
            continue
        left, right = _widened(each.left()), _widened(each.right())
        if not (_is_column(left) and _is_column(right)):
            continue
        one, other = _id(left), _id(right)
        if (one in here and other in there) or (one in there and other in here):
            yield from (one, other)


def _widened(java: Java) -> Java:
    return java.child() if _kind(java) == "Cast" and _is_wider(java) else java


def _columns(expressions: Java) -> frozenset[int]:
    """Those of which the values themselves count, alone or in a struct."""
    found: set[int] = set()
    for each in expressions:
        if _is_column(each):
            found.add(_id(each))
        elif _kind(each) == "CreateNamedStruct":
            found |= _columns(_each(each.children()))
    return frozenset(found)


def _name(function: Java) -> str:
    inner = function.aggregateFunction() if _kind(function) == "AggregateExpression" else function
    return str(inner.prettyName())


def _suggestion(plan: Java, keys: Sequence[Sequence[str]]) -> str:
    unique = _unique(plan, keys) or frozenset()
    names = [str(each.name()) for each in _each(plan.output()) if _id(each) in unique]
    return f", here {', '.join(names)}" if names else ""
