"""Sliding windows over values that hurt: live, in batch and as Spark itself has it, to the last digit."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from headwater import processing as p
from headwater.pipelines.errors import PipelineError
from tests.conftest import SOAK

pytestmark = pytest.mark.timeout(900)

LONG_MOST, DOUBLE_MOST = str(2**63 - 1), "1.7976931348623157E308"
MOMENTS = ["0001-01-01 00:00:00.000001", "1883-11-18 12:03:57.123456", "2026-03-29 02:30:00.000001",
           "2026-10-25 02:30:00.999999", "9999-12-31 23:59:59.999999"]  # fmt: skip
NUMBERS = {
    "i8": ("TINYINT", ["-128", "127", "0", "5"]),
    "i16": ("SMALLINT", ["-32768", "32767", "7"]),
    "i32": ("INT", ["-2147483648", "2147483647", "9"]),
    "i64": ("BIGINT", [LONG_MOST, f"-{2**63}", str(2**53 + 1), "1", "-1"]),
    "f32": ("FLOAT", ["0.1", "-0.0", "3.4028235E38", "1.0E-45", "16777217"]),
    "f64": ("DOUBLE", ["1.0E17", "1", "2", "3", "0.1", "0.2", "-1.0E17", "5E-324", "-0.0"]),
    "far": ("DOUBLE", [DOUBLE_MOST, DOUBLE_MOST, f"-{DOUBLE_MOST}", "Infinity", "1", "1"]),
    "nan": ("DOUBLE", ["NaN", "-0.0", "0.0", "1", "2", "-Infinity"]),
    "few": ("DOUBLE", ["0.5", "-0.25", "4096", "1", "-7"]),
    "d5": ("DECIMAL(5,2)", ["999.99", "-0.01", "0.00", "9.99"]),
    "d18": ("DECIMAL(18,6)", ["999999999999.999999", "-0.000001", "1"]),
    "d28": ("DECIMAL(28,10)", ["123456789012345678.9123456789", "-0.0000000001"]),
    "d38": ("DECIMAL(38,18)", ["12345678901234567890.123456789012345678", "0.000000000000000001"]),
    "most": ("DECIMAL(38,0)", ["9" * 38, "-" + "9" * 38, "1"]),
}
COMPARED = {
    "ts": ("TIMESTAMP", MOMENTS),
    "yes": ("BOOLEAN", ["true", "false"]),
}
COUNTED = {
    "text": ("STRING", ["", "é", "e\u0301", "😀", 'a "quoted" \\ text', "NaN", "nul \x00"]),
    "bytes": ("BINARY", ["", "a\x00b"]),
    "day": ("DATE", ["0001-01-01", "1582-10-04", "9999-12-31"]),
    "ntz": ("TIMESTAMP_NTZ", MOMENTS),
}
# Of each: what is made of the columns above.
NESTED = {
    "by_day": "map(coalesce(day, DATE'2026-01-01'), d38)",
    "by_text": "map('a', d38, 'b', NULL)",
    "several": "array(ntz, NULL)",
    "inner": "IF(yes, NULL, named_struct('x', ntz, 'y', f64, 'z', map(1, array(d5, NULL))))",
}
KEYED = ["text_key STRING", "float_key DOUBLE", "ntz_key TIMESTAMP_NTZ"]
KEYS = [
    ("a", "-0.0", MOMENTS[2]),
    ("a", "NaN", MOMENTS[2]),
    ("b", "1", "2026-03-29 02:30:00.000002"),
]
LENGTH = "20 seconds"


def drawn(seed: int, count: int) -> list[dict[str, str | None]]:
    """As texts. Of key `ties`, several share a moment; of the others no two do."""
    chance = random.Random(seed)
    rows: list[dict[str, str | None]] = []
    for number in range(count):
        key = chance.choice([*KEYS, ("ties", "0.0", None)])
        second = 3 * (number // 8 * 8 if key[0] == "ties" else number)
        row: dict[str, str | None] = {"at": f"{1_700_000_000 + second}"}
        row |= dict(zip(("text_key", "float_key", "ntz_key"), key, strict=True))
        if key[1] == "-0.0" and chance.random() < 0.5:
            row["float_key"] = "0.0"
        for name, (_, values) in {**NUMBERS, **COMPARED, **COUNTED}.items():
            row[name] = None if chance.random() < 0.2 else chance.choice(values)
        rows.append(row)
    return rows


def typed(spark: Any, rows: list[dict[str, str | None]]) -> Any:
    kinds = {name: kind for name, (kind, _) in {**NUMBERS, **COMPARED, **COUNTED}.items()}
    kinds |= dict(each.split() for each in KEYED)
    texts = spark.createDataFrame(
        [tuple(row[name] for name in ("at", *kinds)) for row in rows],
        ", ".join(f"{name} STRING" for name in ("at", *kinds)),
    )
    casts = [f"CAST({name} AS {kind}) AS {name}" for name, kind in kinds.items()]
    flat = texts.selectExpr("timestamp_seconds(CAST(at AS DECIMAL(20,6))) AS at", *casts)
    return flat.selectExpr("*", *(f"{made} AS {name}" for name, made in NESTED.items()))


def seen(events: Any) -> Any:
    """Every aggregate over every column that it may be of."""
    found: dict[str, Any] = {"n": p.count()}
    for name in (*NUMBERS, *COMPARED, *COUNTED, *NESTED):
        found[f"{name}_n"] = p.count(name)
    for name in (*NUMBERS, *COMPARED):
        found |= {f"{name}_min": p.min(name), f"{name}_max": p.max(name)}
    for name in NUMBERS:
        found |= {f"{name}_sum": p.sum(name), f"{name}_avg": p.mean(name)}
    by = [each.split()[0] for each in KEYED]
    return p.sliding(events, by, LENGTH, time="at", buckets=3, **found)


def bits(value: Any) -> Any:
    """Equal where it is the same to the last bit; NaN is NaN."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack(">d", value)
    if isinstance(value, dict):
        return sorted((repr(key), bits(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    return repr(value)


AS_TEXT = ("at", "ts", "ntz", "ntz_key", "day", "several", "inner", "by_day")
"""Python's own types would lose something."""


def rows_of(frame: Any) -> list[Any]:
    plain = frame.withColumns({name: F.col(name).cast("string") for name in AS_TEXT})
    found = [{name: bits(value) for name, value in row.asDict().items()} for row in plain.collect()]
    return sorted(found, key=repr)


def streamed(spark: Any, folder: Path, pieces: list[Any]) -> Any:
    """Piece by piece, stopped after each; the second comes twice, as after a kill."""
    source, out, checkpoint = (str(folder / name) for name in ("in", "out", "checkpoint"))
    for number, piece in enumerate(pieces):
        piece.coalesce(1).write.mode("append").parquet(source)
        events = spark.readStream.schema(piece.schema).parquet(source)
        query = (
            seen(events.withWatermark("at", "30 seconds"))
            .writeStream.format("parquet")
            .option("path", out)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        query.processAllAvailable()
        query.stop()
        if number == 1:
            commits = [
                each for each in (folder / "checkpoint/commits").iterdir() if each.name.isdigit()
            ]
            last = max(commits, key=lambda each: int(each.name))
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
            last.unlink()
    return spark.read.parquet(out), spark.read.schema(pieces[0].schema).parquet(source)


@pytest.mark.parametrize("seed", range(20) if SOAK else [1])
def test_live_and_batch_and_spark_itself_say_the_same(
    headwater_spark: Any, tmp_path: Path, seed: int
) -> None:
    rows = drawn(seed, 120)
    last = {**rows[0], "at": "1800000000", "text_key": "last"}
    pieces = [typed(headwater_spark, some) for some in (rows[:50], rows[50:90], [*rows[90:], last])]
    live, source = streamed(headwater_spark, tmp_path, pieces)
    late = F.col("text_key") != "last"
    found = rows_of(live.where(late))
    assert len(found) == len(rows)
    in_batch = seen(source)
    assert in_batch.schema.simpleString() == live.select(in_batch.columns).schema.simpleString()
    assert found == rows_of(in_batch.where(late))
    alone = late & (F.col("text_key") != "ties")
    assert rows_of(live.where(alone)) == rows_of(by_spark(source, in_batch.columns).where(alone))


def by_spark(events: Any, names: list[str]) -> Any:
    """Spark's own aggregates; exact sums where its own would fail for being too large."""
    over = (
        Window.partitionBy(*(each.split()[0] for each in KEYED))
        .orderBy("us")
        .rangeBetween(1 - 20_000_000, 0)
    )
    found: dict[str, Any] = {"n": F.count(F.lit(1)).over(over)}
    for name in (*NUMBERS, *COMPARED, *COUNTED, *NESTED):
        found[f"{name}_n"] = F.count(name).over(over)
    for name in (*NUMBERS, *COMPARED):
        for short, best in (("min", F.min), ("max", F.max)):
            value = best(name).over(over).cast("double")
            found[f"{name}_{short}"] = F.when(value == 0, 0.0).otherwise(value)
    for name in NUMBERS:
        value = F.col(name).cast("decimal(38,0)") if name.startswith("i") else F.col(name)
        found[f"{name}_sum"] = F.try_sum(value).over(over).cast("double")
        if NUMBERS[name][0] in ("FLOAT", "DOUBLE"):
            found[f"{name}_avg"] = F.avg(name).over(over)
        else:
            found[f"{name}_avg"] = found[f"{name}_sum"] / found[f"{name}_n"]
    return events.withColumn("us", F.unix_micros("at")).withColumns(found).select(names)


def test_what_was_subtracted_leaves_nothing_behind(headwater_spark: Any, tmp_path: Path) -> None:
    #  1e17  1  2  3      of two seconds each: 1e17, 1e17, 3, 5; with the largest, an overflow ends again
    pieces = [
        headwater_spark.createDataFrame(some, "s BIGINT, v DOUBLE, m DOUBLE").selectExpr(
            "timestamp_seconds(s) AS at", "v", "m"
        )
        for some in (
            [(10, 1e17, 1.7e308), (11, 1.0, 1.7e308), (12, 2.0, 1.0)],
            [(13, 3.0, 1.0), (1000, 0.0, 0.0)],
        )
    ]
    source, checkpoint, out = (str(tmp_path / name) for name in ("in", "checkpoint", "out"))
    for piece in pieces:
        piece.coalesce(1).write.mode("append").parquet(source)
        events = headwater_spark.readStream.schema(piece.schema).parquet(source)
        slid = p.sliding(
            events.withWatermark("at", "1 second"), [], "2 seconds", time="at",
            v_sum=p.sum("v"), m_sum=p.sum("m"),
        )  # fmt: skip
        query = slid.writeStream.option("checkpointLocation", checkpoint).start(out)
        query.processAllAvailable()
        query.stop()
    found = headwater_spark.read.parquet(out).orderBy("at").select("v_sum", "m_sum").collect()
    assert [tuple(row) for row in found] == [
        (1e17, 1.7e308), (1e17, float("inf")), (3.0, 1.7e308), (5.0, 2.0)
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["text", "bytes", "day", "ntz", "several", "by_text"])
@pytest.mark.parametrize("aggregate", [p.sum, p.mean, p.min, p.max])
def test_what_is_no_number_is_refused_in_words(
    headwater_spark: Any, name: str, aggregate: Any
) -> None:
    events = typed(headwater_spark, drawn(1, 1))
    with pytest.raises(PipelineError, match=f"of {name}, which is .*, is no number"):
        p.sliding(events, "text_key", LENGTH, time="at", found=aggregate(name))


def test_an_aggregate_named_like_a_column_is_refused(headwater_spark: Any) -> None:
    events = typed(headwater_spark, drawn(1, 1))
    with pytest.raises(PipelineError, match="F64: the events have a column of this name already"):
        p.sliding(events, "text_key", LENGTH, time="at", F64=p.sum("f64"))
