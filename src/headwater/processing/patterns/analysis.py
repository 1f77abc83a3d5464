"""What Spark makes of a tree: its own analysed expression, with every cast and every type in it.

`plan` asks it for each condition and measure that looks at other rows. Spark is shown the tree's SQL over
columns of the leaves' types. Nothing of its rules (that 9.99 is a DECIMAL(3,2), which casts a comparison
needs, how many digits a quotient has) is written down a second time here; what it computes without a row
is computed by it.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from headwater.processing.patterns import numbers
from headwater.processing.patterns.errors import PatternError
from headwater.processing.patterns.trees import (
    Constant,
    Operation,
    Row,
    RowsReference,
    Tree,
    Typed,
    as_sql,
    leaves,
)
from headwater.processing.patterns.types import DAY_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Leaf = Row | RowsReference
_TRANSPARENT = ("Alias", "DatetimeSub")
"""What only stands around what is computed."""
_AS_THEY_ARE = ("boolean", "timestamp", "timestamp_ntz")


class Analysis:
    """Of conditions and measures over the rows of a DataFrame."""

    def __init__(self, df: DataFrame) -> None:
        spark = df.sparkSession
        self._df = df
        self.ansi = str(spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
        zone = spark.conf.get("spark.sql.session.timeZone")
        jvm: Any = spark.sparkContext._jvm
        rules = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).getRules()
        epoch = jvm.java.time.Instant.EPOCH
        self._utc = rules.isFixedOffset() and rules.getOffset(epoch).getTotalSeconds() == 0

    def __call__(self, tree: Tree, where: str) -> Typed:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructField, StructType

        found = list(dict.fromkeys(leaves(tree)))
        kinds = [self._leaf_type(leaf, where) for leaf in found]
        names = {leaf: f"l{n}" for n, leaf in enumerate(found)}
        fields = [StructField(name, kind) for name, kind in zip(names.values(), kinds, strict=True)]
        frame = self._df.sparkSession.createDataFrame([], StructType(fields))
        plan = _asked(lambda: frame.select(F.expr(as_sql(tree, names))), where)
        typed = [self._typed_leaf(*each, where) for each in zip(found, kinds, strict=True)]
        read = _Reader(typed, self._utc, where).read(
            plan._jdf.queryExecution().analyzed().expressions().apply(0)
        )
        if where.startswith("define"):
            must_be_boolean(read.type, where)
        return read

    def _leaf_type(self, leaf: Leaf, where: str) -> DataType:
        if isinstance(leaf, Row):
            return type_of(self._df, leaf.sql, where)
        sql = "1" if leaf.sql is None else leaf.sql
        return type_of(self._df, f"{leaf.kind}({sql})", where)

    def _typed_leaf(self, leaf: Leaf, kind: DataType, where: str) -> Leaf:
        type = kind.simpleString()
        if isinstance(leaf, Row) or leaf.sql is None:
            return replace(leaf, type=type)
        of = type_of(self._df, leaf.sql, where).simpleString()
        if leaf.kind in ("sum", "avg") and not numbers.is_number(of):
            raise PatternError(f"{where}: {leaf.kind}({leaf.sql}) is over {of}, not over numbers")
        return replace(leaf, of=of, type=type)


def type_of(df: DataFrame, sql: str, where: str) -> DataType:
    """Spark's type of an expression, or its complaint."""
    from pyspark.sql import functions as F  # noqa: N812

    return _asked(lambda: df.select(F.expr(sql)), where).schema.fields[0].dataType


def must_be_boolean(type: str, where: str) -> None:
    if type not in ("boolean", "void"):
        raise PatternError(f"{where}: a condition is true or false, not {type}")


def _asked(ask: Any, where: str) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    try:
        found: DataFrame = ask()
    except (AnalysisException, ParseException) as error:
        raise PatternError(f"{where} is not possible: {_sentence(error)}") from None
    return found


def _sentence(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0].partition("] ")
    return first[2] or first[0]


class _Reader:
    """Of one of Spark's expressions in the JVM."""

    def __init__(self, leaves: list[Leaf], utc: bool, where: str) -> None:
        self._leaves, self._utc, self._where = leaves, utc, where

    def read(self, node: Any) -> Typed:
        name, type = str(node.getClass().getSimpleName()), str(node.dataType().simpleString())
        if name in _TRANSPARENT:
            return self.read(node.children().apply(0))
        if name == "AttributeReference":
            return self._leaves[int(node.name()[1:])]
        if node.foldable():
            return Constant(self._computed(node, type), type)
        children = node.children()
        arguments = tuple(self.read(children.apply(n)) for n in range(children.size()))
        found = Operation(name, arguments, type)
        return found if self._utc else self._in_zone(found)

    def _computed(self, node: Any, type: str) -> object:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            value = node.eval(None)
        except (PySparkException, Py4JJavaError) as error:
            raise PatternError(f"{self._where} is not possible: {_sentence(error)}") from None
        return _python(value, type, self._where)

    def _in_zone(self, operation: Operation) -> Typed:
        """Where days differ in length, Spark computes with times of the clock: it does so for each row."""
        name, kinds = operation.name, [each.type for each in operation.arguments]
        if name == "Cast" and operation.type == "timestamp" and kinds != ["timestamp"]:
            return self._by_spark(operation.arguments[0], "timestamp")
        if name == "SubtractTimestamps" and "timestamp" in kinds:
            local = [self._by_spark(each, "timestamp_ntz") for each in operation.arguments]
            return replace(operation, arguments=tuple(local))
        if name == "TimestampAddInterval" and kinds[0] == "timestamp":
            added = operation.arguments[1]
            if not isinstance(added, Constant) or abs(_number(added.value)) >= DAY_US:
                raise self._zoned("days are not always of 24 hours")
        return operation

    def _by_spark(self, tree: Typed, type: str) -> Typed:
        """A cast that Spark makes for each row, before the machine has it."""
        if isinstance(tree, Row):
            return Row(f"CAST({tree.sql} AS {type})", type)
        if isinstance(tree, RowsReference) and tree.kind in ("first", "last"):
            return replace(tree, sql=f"CAST({tree.sql} AS {type})", of=type, type=type)
        raise self._zoned("times are compared as its clocks show them")

    def _zoned(self, why: str) -> PatternError:
        return PatternError(
            f"{self._where}: this cannot be computed in the session's time zone, where {why}",
            hint="set spark.sql.session.timeZone to UTC, or make a column of it before `match`",
        )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _python(value: Any, type: str, where: str) -> object:
    """A value of Spark's JVM as the machine has it."""
    if value is None:
        return None
    if numbers.is_decimal(type):
        return Decimal(str(value.toString()))
    if type == "string":
        return str(value.toString())
    if type == "date":
        return int(value) * DAY_US
    if numbers.is_fraction(type):
        return numbers.limits(type, ansi=True)(float(value))
    if type in _AS_THEY_ARE or numbers.is_whole(type) or numbers.is_day_time(type):
        return value
    raise PatternError(f"{where}: a value of type {type} is not possible here")
