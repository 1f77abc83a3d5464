"""Conditions and measures give what Spark's own expressions give on the same rows, to the last digit.

The oracle is Spark: its types, its nulls, its NaN, what it rounds, and when it says that there is no result.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F  # noqa: N812

from headwater.processing.patterns import NoResult, PatternError, match
from headwater.processing.patterns.analysis import Analysis
from headwater.processing.patterns.evaluator import Evaluator
from headwater.processing.patterns.expressions import measure
from headwater.processing.patterns.memory import binder, empty
from headwater.processing.patterns.numbers import EXACT, NAN
from headwater.processing.patterns.trees import (
    Row,
    RowsReference,
    Typed,
    as_sql,
    leaves,
    rows_references,
)
from headwater.processing.patterns.types import DAY_US
from tests.conftest import SOAK
from tests.processing.patterns.hurting import VALUES, Expressions, relation

EXPRESSIONS = 4_000 if SOAK else 120
ROWS = 4 if SOAK else 2
SEEDS = range(5) if SOAK else [7]
NONE = "no result"
MICROS = "CAST(CAST({} AS INTERVAL SECOND) AS DECIMAL(20,6)) * 1000000"
LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
SHORT_CUTS = ("NullPropagation", "ConstantFolding", "BooleanSimplification", "SimplifyConditionals")
SHORT_CUTS += ("SimplifyBinaryComparison", "NullDownPropagation", "ReorderAssociativeOperator")
AGGREGATES = ("first", "last", "count", "sum", "avg", "min", "max", "collect_list")
AS_A_NUMBER = {
    "timestamp": "unix_micros({})",
    "date": f"unix_date({{}}) * {DAY_US}",
    "timestamp_ntz": MICROS.format("({} - TIMESTAMP_NTZ '1970-01-01')"),
}


@pytest.fixture(autouse=True)
def plainly(headwater_spark: Any) -> Iterator[None]:
    """Spark computes what is asked, and does not find out before that an error can be left out, as of
    `1/0 + NULL`; and it does not log each expression that has no result, with a stack of the JVM's."""
    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    rules = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{name}" for name in SHORT_CUTS)
    headwater_spark.conf.set("spark.sql.optimizer.excludedRules", rules)
    for each in loggers:
        each.disabled = True
    yield
    for each in loggers:
        each.disabled = False
    headwater_spark.conf.unset("spark.sql.optimizer.excludedRules")


def plain(sql: str, type: str) -> str:
    """SQL of a value in which nothing is lost on the way to Python."""
    if type.startswith("interval"):
        return MICROS.format(sql)
    if type.startswith("array"):
        return f"transform({sql}, each -> {plain('each', type[6:-1])})"
    return AS_A_NUMBER.get(type, "{}").format(sql)


def shown(value: Any, type: str) -> str:
    """As text: NaN equals itself there, and 0.0 is not -0.0."""
    if isinstance(value, list):
        return str([shown(each, type[6:-1]) for each in value])
    if value is not None and (type.startswith("interval") or type in AS_A_NUMBER):
        return str(int(value))
    if isinstance(value, Decimal):
        # Spark hands out some with a zero more than the column's type has places.
        return format(value.normalize(EXACT), "f")
    return str(value)


class Ours:
    """One expression of the pattern language, over rows that are bound to A one after the other."""

    def __init__(self, typing: Analysis, text: str) -> None:
        self.text = text
        written = measure(text, frozenset("A"), "m")
        self.tree: Typed = typing(written, "m")
        self.sql = as_sql(written, {each: as_aggregate(each) for each in leaves(written)})
        self.slots = list(dict.fromkeys(rows_references(self.tree)))
        self.columns = list(dict.fromkeys(each.sql for each in self.slots if each.sql is not None))
        self.bind = binder(self.slots, "A", self.columns, typing.ansi)
        self.compute = Evaluator(self.columns, self.slots, typing.ansi).function(self.tree, "m")

    def over(self, rows: list[dict[str, Any]]) -> str:
        held = empty(self.slots)
        try:
            for number, row in enumerate(rows):
                if self.bind is not None:
                    held = self.bind(held, [row[name] for name in self.columns], number)
            return shown(self.compute((), held), self.tree.type)
        except NoResult:
            return NONE


def as_aggregate(leaf: Row | RowsReference) -> str:
    assert isinstance(leaf, RowsReference)
    return f"{leaf.kind}({'*' if leaf.sql is None else leaf.sql})"


def understood(typing: Analysis, text: str) -> Ours | None:
    try:
        return Ours(typing, text)
    except PatternError:
        return None


def rows_of(spark: Any, relation: str, asked: list[Ours]) -> list[dict[str, Any]]:
    """What the machine is given of the rows."""
    types = {slot.sql: slot.of for each in asked for slot in each.slots if slot.sql is not None}
    columns = [f"{plain(sql, type)} AS `{sql}`" for sql, type in types.items()]
    rows = spark.sql(f"SELECT {', '.join(columns)} FROM {relation}").collect()
    return [{sql: given(row[sql], type) for sql, type in types.items()} for row in rows]


def given(value: Any, type: str) -> Any:
    if isinstance(value, float) and value != value:
        return NAN
    return int(value) if value is not None and type in AS_A_NUMBER else value


def by_spark(spark: Any, relation: str, asked: list[Ours]) -> list[str]:
    """What Spark says, all at once where it says anything."""
    from pyspark.errors import PySparkException

    columns = [
        f"{plain(each.sql, each.tree.type)} AS c{number}" for number, each in enumerate(asked)
    ]
    if not asked:
        return []
    try:
        (found,) = spark.sql(f"SELECT * FROM {relation}").coalesce(1).selectExpr(*columns).collect()
    except PySparkException:
        if len(asked) == 1:
            return [NONE]
        middle = len(asked) // 2
        halves = asked[:middle], asked[middle:]
        return [each for half in halves for each in by_spark(spark, relation, half)]
    return [shown(value, each.tree.type) for value, each in zip(found, asked, strict=True)]


def differing(
    spark: Any, relation: str, rows: list[dict[str, Any]], asked: list[Ours]
) -> list[str]:
    """A sentence for each that Spark computes otherwise."""
    ours = [each.over(rows) for each in asked]
    results = [n for n, said in enumerate(ours) if said != NONE]
    theirs = dict(zip(results, by_spark(spark, relation, [asked[n] for n in results]), strict=True))
    # Those that should have no result would take their neighbours' along: each is asked alone.
    for n in set(range(len(asked))) - set(results):
        (theirs[n],) = by_spark(spark, relation, [asked[n]])
    return [
        f"{each.text} is {ours[n]}, in Spark {theirs[n]}, where {rows}"
        for n, each in enumerate(asked)
        if theirs[n] != ours[n]
    ]


def differences(spark: Any, choice: Random, asked: list[Ours], rows: int) -> list[str]:
    """Over single rows."""
    found = []
    for _ in range(rows):
        one = relation(choice, 1)
        found += differing(spark, one, rows_of(spark, one, asked), asked)
    return found


def some(spark: Any, choice: Random, number: int) -> list[Ours]:
    make = Expressions(choice)
    typing = Analysis(spark.sql(f"SELECT * FROM {relation(choice, 1)}"))
    texts = [make.any() for _ in range(number)]
    found = [each for text in texts if (each := understood(typing, text)) is not None]
    assert len(found) > number // 2, "most of them can be computed"
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_operator_gives_what_spark_gives(headwater_spark: Any, seed: int):
    choice = Random(seed)
    asked = some(headwater_spark, choice, EXPRESSIONS)
    different = differences(headwater_spark, choice, asked, ROWS)
    assert not different, "\n".join(different[:20])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("setting", "value"),
    [("spark.sql.ansi.enabled", "false"), ("spark.sql.session.timeZone", "Europe/Berlin")],
)
def test_spark_may_be_set_otherwise(headwater_spark: Any, setting: str, value: str):
    choice = Random(3)
    before = headwater_spark.conf.get(setting)
    headwater_spark.conf.set(setting, value)
    try:
        asked = some(headwater_spark, choice, EXPRESSIONS // 3)
        different = differences(headwater_spark, choice, asked, 2)
    finally:
        headwater_spark.conf.set(setting, before)
    assert not different, "\n".join(different[:20])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_aggregate_gives_what_spark_gives(headwater_spark: Any, seed: int):
    choice = Random(seed)
    typing = Analysis(headwater_spark.sql(f"SELECT * FROM {relation(choice, 1)}"))
    texts = [f"{kind}(A.{name})" for kind in AGGREGATES for name in VALUES] + ["count(*)"]
    asked = [each for text in texts if (each := understood(typing, text)) is not None]
    assert {each.text for each in asked} >= {f"sum(A.{name})" for name in "yhilfxcdgme"}
    different = []
    for rows in (1, 2, 3, 5):
        several = relation(choice, rows)
        different += differing(
            headwater_spark, several, rows_of(headwater_spark, several, asked), asked
        )
    assert not different, "\n".join(different[:20])


ROWS_OF_ONE_KEY = (
    "VALUES ('k', TIMESTAMP '2026-01-01 00:00:00', 9.99, 0.5D), ('k', TIMESTAMP '2026-01-01 00:00:01', 3.00, "
    "double('NaN')), ('k', TIMESTAMP '2026-01-01 00:00:02', 10.00, 1.5D) AS r(k, at, v, x)"
)
HOLD = ("A.v >= 9.99", "A.v = 9.99", "A.v in (9.99, 1)", "A.v between 9.98 and 9.99")
HOLD += (
    "sum(A.v) = 9.99",
    "A.v % 0.1 = 0.09",
    "last(x, 1) = 'NaN'",
    "max(x) > 1e300 and x < max(x)",
)


@pytest.mark.timeout(900)
def test_a_condition_of_a_match_compares_as_spark_does(headwater_spark: Any):
    small = headwater_spark.sql(
        f"SELECT k, at, CAST(v AS DECIMAL(12,2)) v, x FROM {ROWS_OF_ONE_KEY}"
    )
    large = small.withColumn("e", F.expr("CAST(v + 10000000000000000000 AS DECIMAL(38,18))"))
    (found,) = match(
        large,
        key="k",
        pattern="A B C",
        within="1 minute",
        define={"A": "v = 9.99", "C": " and ".join(HOLD)},
        measures={
            "e": "A.e",
            "all": "sum(e)",
            "mean": "avg(v)",
            "largest": "max(x)",
            "smallest": "min(x)",
            "every": "collect_list(x)",
        },
    ).collect()
    assert found.e == Decimal("10000000000000000009.990000000000000000")
    assert found["all"] == Decimal("30000000000000000022.990000000000000000")
    assert found["mean"] == Decimal("7.663333")
    assert (str(found.largest), found.smallest, str(found.every)) == ("nan", 0.5, "[0.5, nan, 1.5]")


def test_what_cannot_be_computed_as_spark_does_is_refused_before_anything_runs(
    headwater_spark: Any,
):
    frame = headwater_spark.sql(
        "SELECT 'k' k, TIMESTAMP '2026-01-01' at, '5' s, DATE '2026-01-01' d"
    )

    def refusal(measure: str) -> str:
        with pytest.raises(PatternError) as refused:
            match(
                frame, key="k", pattern="A", within="1 minute", measures={"m": measure}, time="at"
            )
        return str(refused.value)

    assert "Cast of string is not possible over other rows" in refusal("A.s > 5")
    assert "MultiplyDTInterval of interval day to second" in refusal("(A.at - first(at)) * 2")
    assert "sum(s) is over string, not over numbers" in refusal("sum(A.s)")
    assert "EqualTo of array<string>" in refusal("collect_list(A.s) = collect_list(A.s)")
    assert "cannot be cast" in refusal("A.at > 'x'")


def test_a_division_by_zero_stops_the_query_and_says_where(headwater_spark: Any):
    frame = headwater_spark.sql("SELECT 'k' k, TIMESTAMP '2026-01-01' at, 5 n, 0 z")
    words = {"key": "k", "pattern": "A", "within": "1 minute"}
    guarded = match(frame, measures={"m": "A.n / nullif(A.z, 0)"}, **words)
    assert [row.m for row in guarded.collect()] == [None]
    with pytest.raises(Exception, match="measures 'm': a division by zero"):
        match(frame, measures={"m": "A.n / A.z"}, **words).collect()
