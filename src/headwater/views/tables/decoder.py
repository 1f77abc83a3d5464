"""Change records to typed changes: one Spark job for all tables of a view.

Understood is what `hw.table` understands: Debezium's envelope (also inside `payload`), and plain rows, where
a record without a value deletes its key. The value is parsed once, for all of these forms together. A
value that does not fit that is parsed again, part by part: so a row that has a column named `op` is still a
row. What does not fit then either is bad, and is handed to `bad_values` instead of being a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.views.order import quoted
from headwater.views.tables import bad_values
from headwater.views.tables.bad_values import BadValue, Refuse, reason_for
from headwater.views.tables.json_parts import (
    is_broken,
    part,
)
from headwater.views.tables.record_keys import key_row, one_zero
from headwater.views.tables.spellings import is_whole
from headwater.views.tables.value_forms import (
    ENVELOPE,
    fits_one_parse,
    from_forms,
    may_be_quick,
    parsed,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
"""Of the log's records, those that are needed."""


@dataclass(frozen=True)
class Table:
    """A change stream understood as a table."""

    topic: str
    row: StructType
    key: tuple[str, ...]
    derived: tuple[str, ...] = ()
    """Spark's SQL over its columns; kept beside them in the state."""
    required: tuple[str, ...] = ()
    """Columns that are NOT NULL. In the row's type all may be null: rows that are gone have only a key."""
    tells_before: bool = False
    """Whether a change says as well what happened (`op`) and the whole row `before`."""

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(self.row.names.index(name) for name in self.key)

    @property
    def before(self) -> StructType:
        """What is read of a row before."""
        from pyspark.sql.types import StructType

        whole = self.row.names if self.tells_before else self.key
        return StructType([self.row[name] for name in whole])


class Decoder:
    """The changes of a view's tables in its batches of records.

    Spark's expressions are made once: they are thousands of calls into the JVM, which would cost a
    small batch more than all the rest.
    """

    def __init__(
        self, tables: Sequence[Table], refuse: Refuse = bad_values.stop, *, plainly: bool = False
    ) -> None:
        """`refuse` gets the values that cannot be read, before any change of the batch is handed out.
        `plainly`: each value is parsed once, and `doubt` says of which that does not decide; what such
        a record changes is then not told. Of tables that `may_be_quick` alone."""
        self._tables = tables
        self._refuse = refuse
        self._plainly = plainly
        self._prepared: tuple[list[Column], ...] | None = None

    def frame(self, records: DataFrame, *more: str) -> DataFrame:
        """topic, p, o, `bad` (the text of a value that cannot be read) and for each table tN, a change of it;
        and more of the records' columns."""
        from pyspark.sql import functions as F  # noqa: N812

        topics = {table.topic for table in self._tables}
        return self.read(records.where(F.col("topic").isin(*topics)), *more)

    def read(self, records: DataFrame, *more: str) -> DataFrame:
        """The same of records that are all of these tables' topics."""
        if self._prepared is None:
            self._prepared = self._parsing(), self._reading(), self._changing()
        for columns in self._prepared:
            records = records.select(*columns, *more)
        return records

    def __call__(self, records: DataFrame) -> list[pa.Table]:
        """The changes of each table, as `net_changes` takes them."""
        tables = self._tables
        changes = self.frame(records, "timestamp")
        for n, table in enumerate(tables):
            if table.derived:
                changes = with_derived(changes, n, table)
        names = [change_names(table) for table in tables]
        wanted = [f"t{n}.{name} AS t{n}{name}" for n in range(len(tables)) for name in names[n]]
        flat = self.good(
            changes.selectExpr("topic", "p", "o", "timestamp", "bad", *wanted).toArrow()
        )
        return [_of_table(flat, n, table, names[n]) for n, table in enumerate(tables)]

    def good(self, flat: pa.Table) -> pa.Table:
        """All but the bad ones, which are put away."""
        import pyarrow as pa
        import pyarrow.compute as pc

        bad = pc.is_valid(flat["bad"])
        lacking = pa.nulls(flat.num_rows, pa.string())
        for n, table in enumerate(self._tables):
            lacking = _lacking(flat, n, table, lacking)
        bad = pc.or_(bad, pc.is_valid(lacking))
        refused = flat.append_column("lacking", lacking).filter(bad)
        if not refused.num_rows:
            return flat
        known = {table.topic: table for table in self._tables}
        # As bytes: a value that is no text comes out of Spark as it went in.
        texts = refused["bad"].cast("binary").to_pylist()
        said = (refused[name].to_pylist() for name in ("topic", "p", "o", "lacking"))
        self._refuse(
            [
                BadValue(topic, p, o, _why(known[topic], value, lacks), value or b"")
                for topic, p, o, lacks, value in zip(*said, texts, strict=True)
            ]
        )
        return flat.filter(pc.invert(bad))

    def _parsing(self) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        columns = [
            F.col("topic"),
            F.col("partition").alias("p"),
            F.col("offset").alias("o"),
            # Bytes that are no text are no key: a state and a store would both refuse them.
            F.try_validate_utf8(F.col("key").cast("string")).alias("key"),
            F.col("value").cast("string").alias("value"),
            is_whole(F.col("value").cast("string")).alias("whole"),
        ]
        for n, table in enumerate(self._tables):
            if may_be_quick(table):
                own = F.when(F.col("topic") == table.topic, parsed(table))
                columns.append(own.alias(f"parsed{n}"))
        return columns

    def _reading(self) -> list[Column]:
        """What each value says, whatever its form: op, before, after, plain, and the key's columns."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = [F.col(name) for name in ("topic", "p", "o")]
        columns.append(F.col("value").isNull().alias("empty"))
        bad, doubt = ~F.col("whole"), F.lit(False)
        for n, table in enumerate(self._tables):
            said = _said(table, n, plainly=self._plainly)
            bad = bad | F.coalesce(said.pop("bad"), F.lit(False))
            if self._plainly:
                mine = (F.col("topic") == table.topic) & F.col("value").isNotNull()
                doubt = doubt | (mine & ~F.coalesce(fits_one_parse(table, n), F.lit(False)))
            columns += [each.alias(f"{name}{n}") for name, each in said.items()]
        columns.append(F.when(bad, F.col("value")).alias("bad"))
        return [*columns, doubt.alias("doubt")] if self._plainly else columns

    def _changing(self) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        own = [_change(table, n).alias(f"t{n}") for n, table in enumerate(self._tables)]
        names = ["topic", "p", "o", "bad", *(["doubt"] if self._plainly else [])]
        return [*(F.col(name) for name in names), *own]


def state_schema(table: Table, spark: object) -> StructType:
    """The columns of a table's state: c0, c1, …, and d0, … for what is derived."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    assert isinstance(spark, SparkSession)
    empty = spark.createDataFrame([], table.row)
    return empty.select(
        *(F.col(quoted(name)).alias(f"c{n}") for n, name in enumerate(table.row.names)),
        *(F.expr(text).alias(f"d{n}") for n, text in enumerate(table.derived)),
    ).schema


# ---- one value in all its forms -----------------------------------------------------------------------


def _said(table: Table, number: int, *, plainly: bool) -> dict[str, Column]:
    """The parts of a value, null in records of other topics and in those without a value; `plainly`: as if it
    fitted."""
    from pyspark.sql import functions as F  # noqa: N812

    mine = (F.col("topic") == table.topic) & F.col("value").isNotNull()
    if may_be_quick(table):
        said = {**from_forms(table, F.col(f"parsed{number}")), "bad": F.lit(False)}
        if not plainly:
            fits, strictly = fits_one_parse(table, number), _strictly(table)
            said = {name: F.when(fits, said[name]).otherwise(strictly[name]) for name in said}
    else:
        assert not plainly, table.topic
        said = _strictly(table)
    said = {name: F.when(mine, each) for name, each in said.items()}
    return {**said, "by": F.when(F.col("topic") == table.topic, _key_row(table))}


def _change(table: Table, number: int) -> Column:
    """struct<c0, c1, …, gone, emptied, m0, …>, null in records of other topics."""
    from pyspark.sql import functions as F  # noqa: N812

    op, before, after, plain, by = (F.col(f"{name}{number}") for name in (*ENVELOPE, "plain", "by"))
    change = F.when(F.col("empty"), _deleted_by_key(table, by))
    change = change.otherwise(_from_parts(table, op, before, after, plain, by))
    return F.when(F.col("topic") == table.topic, change)


def _lacking(flat: pa.Table, number: int, table: Table, found: pa.Array) -> pa.Array:
    """What the changes of a table do not say and must: a reason, or as `found`. Here and not in Spark's plan,
    which would compute every change once more for it."""
    import pyarrow.compute as pc

    mine = pc.and_not(
        pc.equal(flat["topic"], table.topic), pc.fill_null(flat[f"t{number}emptied"], False)
    )
    there = pc.and_not(mine, pc.fill_null(flat[f"t{number}gone"], False))
    for name in table.required:
        missing = pc.is_null(flat[f"t{number}c{table.row.names.index(name)}"])
        found = pc.if_else(pc.and_(there, missing), f"{name} is null, and it is NOT NULL", found)
    for n in table.keys:
        missing = pc.is_null(flat[f"t{number}c{n}"])
        found = pc.if_else(pc.and_(mine, missing), keyless(table), found)
    return found


def keyless(table: Table) -> str:
    """Why a record is no change of the table that has no key."""
    return f"it does not say its key ({', '.join(table.key)})"


def _why(table: Table, value: bytes | None, lacks: str | None) -> str:
    if value is None:
        return lacks or ""
    return reason_for(value.decode(errors="replace"), table.row)


def change_names(table: Table) -> list[str]:
    """The columns of a table's changes."""
    return [
        *(f"c{n}" for n in range(len(table.row.names))),
        *(f"d{n}" for n in range(len(table.derived))),
        "gone",
        "emptied",
        *(f"m{n}" for n in range(len(table.key))),
    ]


def _strictly(table: Table) -> dict[str, Column]:
    """As `hw.table` reads changes one by one: every part by itself, and whatever does not fit is bad."""
    from pyspark.sql import functions as F  # noqa: N812

    payload, beside = (F.get_json_object("value", f"$.{name}") for name in ("payload", "schema"))
    wrapped = payload.startswith("{") & (
        beside.isNotNull() | F.get_json_object(payload, "$.op").isNotNull()
    )
    inner = F.when(wrapped, payload).otherwise(F.col("value"))
    op, before, after = (F.get_json_object(inner, f"$.{name}") for name in ENVELOPE)
    is_envelope = op.isNotNull() & (before.isNotNull() | after.isNotNull() | (op == "t"))
    is_envelope = F.coalesce(is_envelope, F.lit(False))
    parts = {
        "before": (F.when(is_envelope, before), table.before),
        "after": (F.when(is_envelope, after), table.row),
        "plain": (F.when(~is_envelope, inner), table.row),
    }

    def from_value(
        name: str, read: Callable[[Column, Sequence[str], StructType], Column]
    ) -> Column:
        path, row = () if name == "plain" else (name,), parts[name][1]
        return F.when(wrapped, read(F.col("value"), ("payload", *path), row)).otherwise(
            read(F.col("value"), path, row)
        )

    broken = [parts[name][0].isNotNull() & from_value(name, is_broken) for name in parts]
    return {
        "op": F.when(is_envelope, op),
        **{
            name: F.when(text.isNotNull(), from_value(name, part))
            for name, (text, _) in parts.items()
        },
        "bad": broken[0] | broken[1] | broken[2],
    }


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
            value = one_zero(value, table.row[name].dataType)
        columns.append(value)
    moved = envelope & ~gone & before.isNotNull() & ~_equal(table, before, after)
    old = [one_zero(before[name], table.row[name].dataType) for name in table.key]
    return _struct(
        columns,
        gone,
        envelope & F.coalesce(emptied, F.lit(False)),
        [F.when(moved, each) for each in old],
        {"op": F.when(envelope, op).otherwise(F.lit("u")), "before": F.when(envelope, before)}
        if table.tells_before
        else {},
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

    kinds = {field.name: field.dataType for field in table.row.fields}
    columns = [
        one_zero(by_key[name], kinds[name]) if name in table.key else F.lit(None).cast(kinds[name])
        for name in table.row.names
    ]
    nothing = [F.lit(None).cast(kinds[name]) for name in table.key]
    told = {"op": F.lit("d"), "before": F.lit(None).cast(table.before)}
    return _struct(columns, F.lit(True), F.lit(False), nothing, told if table.tells_before else {})


def _struct(
    columns: list[Column],
    gone: Column,
    emptied: Column,
    moved: list[Column],
    told: Mapping[str, Column],
) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(
        *(column.alias(f"c{n}") for n, column in enumerate(columns)),
        gone.alias("gone"),
        emptied.alias("emptied"),
        *(column.alias(f"m{n}") for n, column in enumerate(moved)),
        *(column.alias(name) for name, column in told.items()),
    )


def _key_row(table: Table) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    return key_row(F.col("key"), StructType([table.row[name] for name in table.key]))


# ---- to what the state takes --------------------------------------------------------------------------


def with_derived(changes: DataFrame, number: int, table: Table) -> DataFrame:
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
    place = {"p": mine["p"], "o": mine["o"], "ts": mine["timestamp"].cast(pa.int64())}
    return pa.table({**columns, **place})
