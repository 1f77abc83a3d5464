"""Change records to typed changes: one Spark job for all tables of a view.

Understood is what `hw.table` understands: Debezium's envelope (also inside `payload`), and plain rows, where
a record without a value deletes its key. The value is parsed once, for all of these forms together. A
value that does not fit that is parsed again, part by part: so a row that has a column named `op` is still a
row. What does not fit then either is bad, and is handed to `bad_values` instead of being a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.views.tables import bad_values
from headwater.views.tables.bad_values import BadValue, Refuse, reason_for

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

COLUMNS = ("key", "value", "topic", "partition", "offset")
"""Of the log's records, those that are needed."""
_ENVELOPE = ("op", "before", "after")
_OURS = (*_ENVELOPE, "payload", "schema")
_BROKEN = "_headwater_broken"
_PERHAPS_MORE = r'\}\s*(,\s*[^"\s]|[^\s,\]\}])|[^}\s]\s*$'
"""Text that may go on after an object; a second look costs as much as the first."""


@dataclass(frozen=True)
class Table:
    """A change stream understood as a table."""

    topic: str
    row: StructType
    key: tuple[str, ...]
    derived: tuple[str, ...] = ()
    """Spark's SQL over its columns; kept beside them in the state."""

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(self.row.names.index(name) for name in self.key)


class Decoder:
    """The changes of a view's tables in its batches of records.

    Spark's expressions are made once: they are thousands of calls into the JVM, which would cost a
    small batch more than all the rest.
    """

    def __init__(self, tables: Sequence[Table], refuse: Refuse = bad_values.stop) -> None:
        """`refuse` gets the values that cannot be read, before any change of the batch is handed out."""
        self._tables = tables
        self._refuse = refuse
        self._prepared: tuple[list[Column], ...] | None = None

    def frame(self, records: DataFrame, *more: str) -> DataFrame:
        """topic, p, o, `bad` (the text of a value that cannot be read) and for each table tN, a change of it;
        and more of the records' columns."""
        from pyspark.sql import functions as F  # noqa: N812

        topics = {table.topic for table in self._tables}
        if self._prepared is None:
            self._prepared = self._parsing(), self._reading(), self._changing()
        changes = records.where(F.col("topic").isin(*topics))
        for columns in self._prepared:
            changes = changes.select(*columns, *more)
        return changes

    def __call__(self, records: DataFrame) -> list[pa.Table]:
        """The changes of each table, as `netting` takes them."""
        tables = self._tables
        changes = self.frame(records)
        for n, table in enumerate(tables):
            if table.derived:
                changes = _with_derived(changes, n, table)
        names = [_names(table) for table in tables]
        wanted = [f"t{n}.{name} AS t{n}{name}" for n in range(len(tables)) for name in names[n]]
        flat = self._good(changes.selectExpr("topic", "p", "o", "bad", *wanted).toArrow())
        return [_of_table(flat, n, table, names[n]) for n, table in enumerate(tables)]

    def _good(self, flat: pa.Table) -> pa.Table:
        """All but the bad ones, which are put away."""
        import pyarrow.compute as pc

        bad = pc.is_valid(flat["bad"])
        for n, table in enumerate(self._tables):
            bad = pc.or_(bad, _is_keyless(flat, n, table))
        refused = flat.filter(bad).select(["topic", "p", "o", "bad"])
        if not refused.num_rows:
            return flat
        known = {table.topic: table for table in self._tables}
        self._refuse(
            [
                BadValue(topic, p, o, _why(known[topic], value), (value or "").encode())
                for topic, p, o, value in zip(*refused.to_pydict().values(), strict=True)
            ]
        )
        return flat.filter(pc.invert(bad))

    def _parsing(self) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        columns = [
            F.col("topic"),
            F.col("partition").alias("p"),
            F.col("offset").alias("o"),
            F.col("key").cast("string").alias("key"),
            F.col("value").cast("string").alias("value"),
            _is_whole(F.col("value").cast("string")).alias("whole"),
        ]
        for n, table in enumerate(self._tables):
            if _may_be_quick(table):
                own = F.when(F.col("topic") == table.topic, _parsed(table))
                columns.append(own.alias(f"parsed{n}"))
        return columns

    def _reading(self) -> list[Column]:
        """What each value says, whatever its form: op, before, after, plain, and the key's columns."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = [F.col(name) for name in ("topic", "p", "o")]
        columns.append(F.col("value").isNull().alias("empty"))
        bad = ~F.col("whole")
        for n, table in enumerate(self._tables):
            said = _said(table, n)
            bad = bad | F.coalesce(said.pop("bad"), F.lit(False))
            columns += [each.alias(f"{name}{n}") for name, each in said.items()]
        return [*columns, F.when(bad, F.col("value")).alias("bad")]

    def _changing(self) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        own = [_change(table, n).alias(f"t{n}") for n, table in enumerate(self._tables)]
        return [*(F.col(name) for name in ("topic", "p", "o", "bad")), *own]


def state_schema(table: Table, spark: object) -> StructType:
    """The columns of a table's state: c0, c1, …, and d0, … for what is derived."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    assert isinstance(spark, SparkSession)
    empty = spark.createDataFrame([], table.row)
    return empty.select(
        *(F.col(f"`{name}`").alias(f"c{n}") for n, name in enumerate(table.row.names)),
        *(F.expr(text).alias(f"d{n}") for n, text in enumerate(table.derived)),
    ).schema


# ---- one value in all its forms -----------------------------------------------------------------------


def _parsed(table: Table) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return _with_broken(F.col("value").cast("string"), _forms(table))


def _is_whole(text: Column) -> Column:
    """Whether nothing comes after the first JSON value: Spark reads that one, and not what follows."""
    from pyspark.sql import functions as F  # noqa: N812

    around = F.concat(F.lit("["), text, F.lit("]"))
    one = F.coalesce(F.size(F.from_json(around, "ARRAY<STRING>")) == 1, F.lit(False))
    return F.when(text.rlike(_PERHAPS_MORE), one).otherwise(F.lit(True))


def _forms(table: Table) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    key = StructType([table.row[name] for name in table.key])
    either = [
        *table.row.fields,
        StructField("op", StringType()),
        StructField("before", key),
        StructField("after", table.row),
    ]
    wrapped = [StructField("payload", StructType(either)), StructField("schema", StringType())]
    return StructType([*either, *wrapped])


def _said(table: Table, number: int) -> dict[str, Column]:
    """The parts of a value, null in records of other topics and in those without a value."""
    from pyspark.sql import functions as F  # noqa: N812

    mine = (F.col("topic") == table.topic) & F.col("value").isNotNull()
    said = _strictly(table)
    if _may_be_quick(table):
        parsed = F.col(f"parsed{number}")
        fits = parsed.isNotNull() & parsed[_BROKEN].isNull()
        quick = {**_from_forms(table, parsed), "bad": F.lit(False)}
        said = {name: F.when(fits, quick[name]).otherwise(said[name]) for name in said}
    said = {name: F.when(mine, each) for name, each in said.items()}
    return {**said, "by": F.when(F.col("topic") == table.topic, _key_row(table))}


def _change(table: Table, number: int) -> Column:
    """struct<c0, c1, …, gone, emptied, m0, …>, null in records of other topics."""
    from pyspark.sql import functions as F  # noqa: N812

    op, before, after, plain, by = (
        F.col(f"{name}{number}") for name in (*_ENVELOPE, "plain", "by")
    )
    change = F.when(F.col("empty"), _deleted_by_key(table, by))
    change = change.otherwise(_from_parts(table, op, before, after, plain, by))
    return F.when(F.col("topic") == table.topic, change)


def _is_keyless(flat: pa.Table, number: int, table: Table) -> pa.ChunkedArray:
    """Which changes of a table do not say of which row they are. Here and not in Spark's plan, which would
    compute every change once more for it."""
    import pyarrow.compute as pc

    missing = pc.is_null(flat[f"t{number}c{table.keys[0]}"])
    for n in table.keys[1:]:
        missing = pc.or_(missing, pc.is_null(flat[f"t{number}c{n}"]))
    emptied = pc.fill_null(flat[f"t{number}emptied"], False)
    return pc.and_(pc.equal(flat["topic"], table.topic), pc.and_not(missing, emptied))


def _why(table: Table, value: str | None) -> str:
    if value is None:
        return f"it does not say its key ({', '.join(table.key)})"
    return reason_for(value, table.row)


def _may_be_quick(table: Table) -> bool:
    """Whether one parse can tell all forms of a value apart."""
    return not any(name.lower() in _OURS for name in table.row.names)


def _names(table: Table) -> list[str]:
    """The columns of a table's changes."""
    return [
        *(f"c{n}" for n in range(len(table.row.names))),
        *(f"d{n}" for n in range(len(table.derived))),
        "gone",
        "emptied",
        *(f"m{n}" for n in range(len(table.key))),
    ]


def _from_forms(table: Table, parsed: Column) -> dict[str, Column]:
    from pyspark.sql import functions as F  # noqa: N812

    payload = parsed["payload"]
    # Debezium's converter says the schema beside; a row may have a column named payload by itself.
    wrapped = payload.isNotNull() & (parsed["schema"].isNotNull() | payload["op"].isNotNull())
    said = {name: F.when(wrapped, payload[name]).otherwise(parsed[name]) for name in _ENVELOPE}
    plain = F.when(wrapped, F.struct(*(payload[name].alias(name) for name in table.row.names)))
    plain = plain.otherwise(F.struct(*(parsed[name].alias(name) for name in table.row.names)))
    return {**said, "plain": plain}


def _strictly(table: Table) -> dict[str, Column]:
    """As `hw.table` reads changes one by one: every part by itself, and whatever does not fit is bad."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    payload, beside = (F.get_json_object("value", f"$.{name}") for name in ("payload", "schema"))
    wrapped = payload.startswith("{") & (
        beside.isNotNull() | F.get_json_object(payload, "$.op").isNotNull()
    )
    inner = F.when(wrapped, payload).otherwise(F.col("value"))
    op, before, after = (F.get_json_object(inner, f"$.{name}") for name in _ENVELOPE)
    is_envelope = op.isNotNull() & (before.isNotNull() | after.isNotNull() | (op == "t"))
    is_envelope = F.coalesce(is_envelope, F.lit(False))
    key = StructType([table.row[name] for name in table.key])
    parts = {
        "before": (F.when(is_envelope, before), key),
        "after": (F.when(is_envelope, after), table.row),
        "plain": (F.when(~is_envelope, inner), table.row),
    }
    read = {name: _with_broken(text, row) for name, (text, row) in parts.items()}
    # Text of which nothing can be read (an empty one, `null`) has no struct to say so.
    broken = [
        text.isNotNull() & (read[name].isNull() | read[name][_BROKEN].isNotNull())
        for name, (text, _) in parts.items()
    ]
    return {
        "op": F.when(is_envelope, op),
        **{name: _only(read[name], row) for name, (_, row) in parts.items()},
        "bad": broken[0] | broken[1] | broken[2],
    }


def _with_broken(text: Column, row: StructType) -> Column:
    """Text as a row, with a column more that says whether it is broken."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([*row.fields, StructField(_BROKEN, StringType())])
    return F.from_json(text, schema, {"columnNameOfCorruptRecord": _BROKEN})


def _only(read: Column, row: StructType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(read.isNotNull(), F.struct(*(read[name].alias(name) for name in row.names)))


def _from_parts(
    table: Table, op: Column, before: Column, after: Column, plain: Column, by_key: Column
) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    emptied = (op == "t") & before.isNull() & after.isNull()
    envelope = op.isNotNull() & (before.isNotNull() | after.isNotNull() | emptied)
    envelope = F.coalesce(envelope, F.lit(False))
    gone = envelope & (op == "d")
    columns = []
    for name in table.row.names:
        value = F.when(envelope, after[name]).otherwise(plain[name])
        if name in table.key:
            value = F.when(gone, F.coalesce(before[name], by_key[name])).otherwise(value)
        columns.append(value)
    moved = envelope & ~gone & before.isNotNull() & ~_equal(table, before, after)
    return _struct(
        columns,
        gone,
        envelope & F.coalesce(emptied, F.lit(False)),
        [F.when(moved, before[name]) for name in table.key],
    )


def _equal(table: Table, before: Column, after: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    same = F.lit(True)
    for name in table.key:
        # A source that does not tell the row before says nothing of its key either.
        same = same & (before[name].isNull() | before[name].eqNullSafe(after[name]))
    return same


def _deleted_by_key(table: Table, by_key: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    columns = [
        by_key[name] if name in table.key else F.lit(None).cast(table.row[name].dataType)
        for name in table.row.names
    ]
    nothing = [F.lit(None).cast(table.row[name].dataType) for name in table.key]
    return _struct(columns, F.lit(True), F.lit(False), nothing)


def _struct(columns: list[Column], gone: Column, emptied: Column, moved: list[Column]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(
        *(column.alias(f"c{n}") for n, column in enumerate(columns)),
        gone.alias("gone"),
        emptied.alias("emptied"),
        *(column.alias(f"m{n}") for n, column in enumerate(moved)),
    )


def _key_row(table: Table) -> Column:
    """The key columns from the record's key: JSON, Debezium's JSON with a schema, or plain text."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    wanted = StructType([table.row[name] for name in table.key])
    text = F.col("key")
    inner = F.coalesce(F.get_json_object(text, "$.payload"), text)
    parsed = F.from_json(inner, wanted)
    if len(table.key) > 1:
        return parsed
    plain = F.trim(text, F.lit('"')).try_cast(wanted[0].dataType)
    return F.when(text.startswith("{"), parsed).otherwise(F.struct(plain.alias(table.key[0])))


# ---- to what the state takes --------------------------------------------------------------------------


def _with_derived(changes: DataFrame, number: int, table: Table) -> DataFrame:
    """Add d0, … to a table's changes: Spark's SQL over its columns under their own names."""
    from pyspark.sql import functions as F  # noqa: N812

    names = changes.columns
    # A table may have columns of the names that are used here.
    apart = {name: f"_headwater_{name}" for name in names}
    own = apart[f"t{number}"]
    spread = changes.select(
        *(F.col(name).alias(other) for name, other in apart.items()),
        *(F.col(f"t{number}.c{n}").alias(name) for n, name in enumerate(table.row.names)),
    )
    for n, text in enumerate(table.derived):
        spread = spread.withColumn(own, F.col(own).withField(f"d{n}", F.expr(text)))
    return spread.select(*(F.col(other).alias(name) for name, other in apart.items()))


def _of_table(found: pa.Table, number: int, table: Table, names: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    mine = found.filter(pc.equal(found["topic"], table.topic))
    columns = {name: mine[f"t{number}{name}"] for name in names}
    return pa.table({**columns, "p": mine["p"], "o": mine["o"]})
