"""Events with values that hurt, and the rows that views over them must give: for the tests of operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from headwater.testing import values
from headwater.testing.rehearsal import Rehearsal
from headwater.testing.values import Column, exact
from tests.values.known import is_out_of_years
from tests.values.records import Log, as_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = "events"
OVER = "over"
"""The key of an event long after the others: with it, all that was before is final."""


def _in_years(column: Column) -> Column:
    """Without the times that JSON cannot say: these are dead letters (`test_records`)."""
    there = [not is_out_of_years((column.name, each)) for each in exact(column.values)]
    return Column(column.name, column.ddl, column.values.filter(pa.array(there)))


OPERATED = tuple(_in_years(each) for each in values.COLUMNS if each.name != "by_number")
SCHEMA = f"{values.ddl(OPERATED)}, k STRING, at TIMESTAMP"
NAMES = [values.ID, *(each.name for each in OPERATED), "k", "at"]
Rows = Counter[tuple[Any, ...]]


def events(spark: Any) -> DataFrame:
    """One event a second from ten o'clock on, of three keys."""
    rows = spark.createDataFrame(values.rows(OPERATED), values.ddl(OPERATED))
    begin = F.lit("2026-01-01T10:00:00.000001Z").cast("timestamp")
    moved = F.timestamp_micros(F.unix_micros(begin) + F.col("id") * 1_000_000)
    return rows.withColumns({"k": F.concat(F.lit("k\u0301 "), F.col("id") % 3), "at": moved})


def send(test: Rehearsal, frame: DataFrame, topic: str = EVENTS, key: str = values.ID) -> None:
    test.topic(topic)
    Log(test.spark, test.bootstrap).write(as_topic(frame, key), topic)


def end(test: Rehearsal, topic: str = EVENTS, day: int = 3) -> None:
    test.send(topic, {"id": -1, "k": OVER, "at": f"2026-01-0{day}T00:00:00Z"})


def seen(test: Rehearsal, view: str, columns: Iterable[str]) -> Rows:
    """The rows that a view has written to its topic."""
    schema = test._seen(view).frame.schema
    records = Log(test.spark, test.bootstrap).read(view).where("value IS NOT NULL")
    read = F.from_json(F.col("value").cast("string"), schema)
    return counted(
        records.select(read.alias("row")).select("row.*").where(f"k != '{OVER}'"), columns
    )


def counted(frame: DataFrame, columns: Iterable[str]) -> Rows:
    """Rows as they can be compared, each as often as it is there."""
    table = frame.select(*(f"`{name}`" for name in columns)).toArrow()
    return Counter(zip(*(exact(each) for each in table.columns), strict=True))


def letters(test: Rehearsal, view: str) -> list[str]:
    """Why each dead letter of a view is one."""
    found = test.records(f"dlq.headwater-{view}")
    return [dict(each.headers())["__dlq.errors.message"].decode() for each in found]


def differing(names: list[str], found: Rows, expected: Rows) -> str:
    """The columns in which rows differ, with one example each."""
    lost, more = list((expected - found).elements()), list((found - expected).elements())
    if len(lost) != len(more):
        return f"{len(lost)} rows are missing, {len(more)} too many: {lost[:1]!r:.600} {more[:1]!r:.600}"
    said = []
    for n, name in enumerate(names):
        one, other = sorted(repr(row[n]) for row in lost), sorted(repr(row[n]) for row in more)
        if one != other:
            pairs = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
            said.append(f"{name}: {pairs[0][0]:.120} became {pairs[0][1]:.120}")
    return "\n".join(said)
