"""Spark's analysed plan to `algebra`: which of its parts decide where a row belongs.

Called once, when a view is built, with empty tables in place of the real ones; each is marked with a name
of its own, since Spark gives the second mention of a table other ids than the first. What is not
understood here is refused: a part that were passed over could hide rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.views.tables.algebra import (
    MARK,
    Column,
    Expression,
    First,
    Formula,
    Made,
    Matched,
    Node,
    Pair,
    Scan,
    Stacked,
    Static,
)
from headwater.views.tables.errors import NotByRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Java = Any  # an object of Spark's, on the other side of Py4J
TABLE = "headwater_table_"
"""With a number: the alias that marks a table in a plan."""

_PASSED = {
    "Filter",
    "Sort",
    "SubqueryAlias",
    "Repartition",
    "RepartitionByExpression",
    "RebalancePartitions",
    "ResolvedHint",
    "UnresolvedHint",
    "View",
}
_STATIC = {"LocalRelation", "LogicalRDD", "LogicalRelation", "Range", "OneRowRelation"}
_STATIC |= {"DataSourceV2Relation", "ExternalRDD", "HiveTableRelation", "InMemoryRelation"}
_WIDER = ("tinyint", "smallint", "int", "bigint")
_OF_THE_MOMENT = {
    "CurrentTimestamp",
    "CurrentTimestampLike",
    "CurrentDate",
    "CurrentTime",
    "LocalTimestamp",
    "Now",
}
_OF_CHANCE = {"First", "Last", "AnyValue"}
# Their order may differ from run to run, but not what is in them.
_UNORDERED = {"CollectList", "CollectSet"}
# Where a text gets its collation.
_TYPED = {"AttributeReference", "Cast", "Collate"}
_LIMITS = {"GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample", "LimitAll"}


@dataclass(frozen=True)
class Analysed:
    """What the plan of a view says: where its rows come from, and the columns of its result."""

    root: Node
    columns: dict[str, Expression]


_BY_ROW = {"Filter", "Generate", "Project", "StreamingRelationV2", "SubqueryAlias"}


def is_row_by_row(frame: DataFrame) -> bool:
    """Whether a stream's rows are picked, filtered and unfolded one by one, always in the same way."""
    return all(
        _kind(node) in _BY_ROW
        and not any(
            _has_python(each) or _has_subquery(each) or any(_unsteady(each, grouped=False))
            for each in _each(node.expressions())
        )
        for node in _tree(frame._jdf.queryExecution().analyzed())
    )


def analysed(frame: DataFrame) -> Analysed:
    """Read the plan of a view's result."""
    plan = frame._jdf.queryExecution().analyzed()
    root = _Reader(frame.sparkSession._jvm).node(plan)
    output = plan.output()
    names = [output.apply(n) for n in range(output.size())]
    return Analysed(root, {str(each.name()): Column(_id(each)) for each in names})


@dataclass
class _Reader:
    jvm: Java
    scans: int = 0
    tables: dict[int, int] = field(default_factory=dict)

    def node(self, plan: Java) -> Node:
        kind = _kind(plan)
        self._check(plan, kind)
        if kind == "SubqueryAlias" and (number := _table(plan)) is not None:
            self.scans += 1
            columns = {_id(each): str(each.name()) for each in _each(plan.output())}
            return Scan(self.scans, number, columns)
        if kind in _STATIC:
            return Static(_ids(plan))
        if kind in _PASSED:
            return self.node(plan.child())
        read = getattr(self, f"_{kind.lower()}", None)
        if read is None:
            raise NotByRow(
                f"{kind} in its plan is not understood",
                hint="use selections, filters, joins, unions and grouped aggregates",
            )
        found: Node = read(plan)
        return found

    def _check(self, plan: Java, kind: str) -> None:
        if kind in _LIMITS:
            raise NotByRow(
                "it is cut off (limit), and a row that leaves the result lets another one in",
                hint="leave the limit out, and cut off where the view is read",
            )
        for expression in _each(plan.expressions()):
            for name in _unsteady(expression, grouped=kind == "Aggregate"):
                raise NotByRow(
                    f"{name} gives another value each time it is computed",
                    hint="leave it out, or take the value from a column of a table",
                )
            if _has_subquery(expression):
                raise NotByRow("a query stands inside an expression", hint="write it as a join")
            if any(_is_collated(each) for each in _tree(expression) if _kind(each) in _TYPED):
                raise _collated()
        if any(_is_collated(each) for each in _each(plan.output())):
            raise _collated()

    # ---- one method for each kind of node, named after Spark's ------------------------------------

    def _project(self, plan: Java) -> Node:
        return Made(self.node(plan.child()), self._named(plan.projectList()))

    def _aggregate(self, plan: Java) -> Node:
        grouping = _each(plan.groupingExpressions())
        made: dict[int, Expression] = {}
        for each in _each(plan.aggregateExpressions()):
            inner = each.child() if _kind(each) == "Alias" else each
            if any(inner.semanticEquals(group) for group in grouping):
                made[_id(each)] = self.expression(inner)
        return Made(self.node(plan.child()), made, "is the result of an aggregate")

    def _distinct(self, plan: Java) -> Node:
        child = self.node(plan.child())
        return Made(child, {each: Column(each) for each in _ids(plan)})

    def _deduplicate(self, plan: Java) -> Node:
        keys = {_id(each) for each in _each(plan.keys())}
        if keys != _ids(plan):
            raise NotByRow(
                "which of several rows dropDuplicates keeps is left to chance",
                hint="name no columns, or group by them and take the one with max_by",
            )
        return self._distinct(plan)

    def _window(self, plan: Java) -> Node:
        columns = [each for each in _each(plan.partitionSpec()) if _is_column(each)]
        child = self.node(plan.child())
        made: dict[int, Expression] = {_id(each): Column(_id(each)) for each in columns}
        return Made(child, made, "is not among the columns that divide a window function's rows")

    def _generate(self, plan: Java) -> Node:
        child = self.node(plan.child())
        made: dict[int, Expression] = {each: Column(each) for each in _ids(plan.child())}
        made |= {each: Formula(None, frozenset()) for each in _ids(plan) if each not in made}
        return Made(child, made)

    def _union(self, plan: Java) -> Node:
        children = list(_each(plan.children()))
        return Stacked(
            _ordered(plan),
            tuple(self.node(each) for each in children),
            tuple(_ordered(each) for each in children),
        )

    _intersect = _except = _union

    def _join(self, plan: Java) -> Node:
        left, right = plan.left(), plan.right()
        kind = str(plan.joinType().sql())
        condition = plan.condition()
        here, there = _ids(left), _ids(right)
        pairs = []
        for each in _conjuncts(condition.get()) if condition.isDefined() else ():
            if _kind(each) not in ("EqualTo", "EqualNullSafe"):
                continue
            one, other = each.left(), each.right()
            nulls = _kind(each) == "EqualNullSafe"
            if _looks_at(one) <= here and _looks_at(other) <= there:
                pairs.append(Pair(self.expression(one), self.expression(other), nulls))
            elif _looks_at(one) <= there and _looks_at(other) <= here:
                pairs.append(Pair(self.expression(other), self.expression(one), nulls))
        return Matched(
            self.node(left),
            self.node(right),
            tuple(pairs),
            kept_left=kind in ("LEFT OUTER", "FULL OUTER"),
            kept_right=kind in ("RIGHT OUTER", "FULL OUTER"),
            shows_right=kind not in ("LEFT SEMI", "LEFT ANTI"),
        )

    # ---- expressions ------------------------------------------------------------------------------

    def _named(self, expressions: Java) -> dict[int, Expression]:
        return {
            _id(each): self.expression(each.child() if _kind(each) == "Alias" else each)
            for each in _each(expressions)
        }

    def expression(self, java: Java) -> Expression:
        kind = _kind(java)
        if _is_column(java):
            return Column(_id(java))
        if kind == "Alias":
            return self.expression(java.child())
        if kind == "Cast" and _is_wider(java):
            return self.expression(java.child())
        if kind == "Coalesce":
            return First(tuple(self.expression(each) for each in _each(java.children())))
        text = None if _has_python(java) else str(self._marked(java).sql())
        return Formula(text, frozenset(_looks_at(java)))

    def _marked(self, java: Java) -> Java:
        """An expression whose columns have their ids as names."""
        if _is_column(java):
            nowhere = self.jvm.PythonUtils.toSeq(self.jvm.java.util.ArrayList())
            return java.withName(f"{MARK}{_id(java)}").withQualifier(nowhere)
        children = list(_each(java.children()))
        if not children:
            return java
        marked = self.jvm.java.util.ArrayList()
        for each in children:
            marked.add(self._marked(each))
        return java.withNewChildren(self.jvm.PythonUtils.toSeq(marked).toIndexedSeq())


# ---- Spark's objects, as far as they are needed -------------------------------------------------------


def _kind(java: Java) -> str:
    return str(java.getClass().getSimpleName())


def _each(sequence: Java) -> Iterator[Java]:
    for n in range(sequence.size()):
        yield sequence.apply(n)


def _id(named: Java) -> int:
    return int(named.exprId().id())


def _ids(plan: Java) -> frozenset[int]:
    return frozenset(_ordered(plan))


def _ordered(plan: Java) -> tuple[int, ...]:
    return tuple(_id(each) for each in _each(plan.output()))


def _is_column(java: Java) -> bool:
    return _kind(java) == "AttributeReference"


def _tree(java: Java) -> Iterator[Java]:
    yield java
    for each in _each(java.children()):
        yield from _tree(each)


def _looks_at(java: Java) -> frozenset[int]:
    return frozenset(_id(each) for each in _tree(java) if _is_column(each))


def _conjuncts(java: Java) -> Iterator[Java]:
    if _kind(java) == "And":
        yield from _conjuncts(java.left())
        yield from _conjuncts(java.right())
    else:
        yield java


def _is_wider(cast: Java) -> bool:
    """Whether a cast only makes room: the state compares numbers of all sizes."""
    before, after = (str(each.dataType().simpleString()) for each in (cast.child(), cast))
    return before in _WIDER and after in _WIDER and _WIDER.index(before) <= _WIDER.index(after)


def _is_collated(java: Java) -> bool:
    return " collate " in str(java.dataType().sql()).lower()


def _collated() -> NotByRow:
    return NotByRow(
        "it compares text by a collation, and the rows of its tables are found by their bytes",
        hint="compare lower(…) of the columns, and leave COLLATE out of the schemas",
    )


def _table(alias: Java) -> int | None:
    name = str(alias.alias())
    return int(name.removeprefix(TABLE)) if name.startswith(TABLE) else None


def _has_python(java: Java) -> bool:
    return any("PythonUD" in _kind(each) or "ScalaUDF" in _kind(each) for each in _tree(java))


def _has_subquery(java: Java) -> bool:
    return any(_kind(e) == "Exists" or _kind(e).endswith("Subquery") for e in _tree(java))


def _unsteady(java: Java, *, grouped: bool) -> Iterator[str]:
    """Functions that give something else for the same rows."""
    for each in _tree(java):
        kind = _kind(each)
        if kind in _OF_THE_MOMENT or (grouped and kind in _OF_CHANCE):
            yield str(each.prettyName())
        elif kind not in _UNORDERED and not each.deterministic():
            # An expression is unsteady as well where one below it is: only that one is named.
            if all(below.deterministic() for below in _each(each.children())):
                yield str(each.prettyName())
