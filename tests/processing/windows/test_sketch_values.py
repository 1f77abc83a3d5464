"""Every sketch over every type of column: the same answer whatever the width, or refused in words."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from headwater import processing as p
from headwater.processing.fingerprints import NotAsked

pytestmark = pytest.mark.timeout(900)

UTC = dt.UTC
MOMENTS = [dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(2026, 3, 29, 2, 30, 0, 123456),
           dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "TINYINT": [-128, -1, 0, 1, 127],
    "SMALLINT": [-32768, -1, 0, 1, 32767],
    "INT": [-(2**31), -1, 0, 1, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1],
    "FLOAT": [0.10000000149011612, 16777216.0, -0.0, float("inf"), float("nan"), 3.5],
    "DOUBLE": [0.1, 5.0, -0.0, 1e300, 5e-324, float("nan"), float("-inf"), 2.0**63],
    "DECIMAL(5,2)": [Decimal("9.99"), Decimal("5.00"), Decimal("-0.01")],
    "DECIMAL(38,18)": [Decimal("12345678901234567890.123456789012345678"), Decimal("1E-18")],
    "DECIMAL(38,0)": [Decimal("9" * 38), Decimal(2**63 - 1), Decimal(0)],
    "STRING": ["", "a", "é", "e\u0301", "😀", "1", "nul \x00 within"],
    "BINARY": [b"", b"\x00\xff", "😀".encode()],
    "DATE": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "TIMESTAMP": [each.replace(tzinfo=UTC) for each in MOMENTS],
    "TIMESTAMP_NTZ": MOMENTS,
    "BOOLEAN": [True],
}
STRANGERS: dict[str, list[Any]] = {
    "BOOLEAN": [False],
    "STRING": [f"stranger {n}" for n in range(200)],
    "BINARY": [f"stranger {n}".encode() for n in range(200)],
    "DATE": [dt.date(1800, 1, 1) + dt.timedelta(days=n) for n in range(200)],
    "TIMESTAMP": [dt.datetime(2000, 1, 1, n % 24, tzinfo=UTC) for n in range(24)],
    "TIMESTAMP_NTZ": [dt.datetime(2000, 1, 1, n % 24) for n in range(24)],
}
WHOLE = ["TINYINT", "SMALLINT", "INT", "BIGINT"]
SKETCHES = {
    "Distinct": lambda: p.Distinct.of("v"),
    "Sets": lambda: p.Sets.of("v"),
    "Percentiles": lambda: p.Percentiles.of("v", 0.5),
    "Top": lambda: p.Top.of("v", 100),
    "Frequencies": lambda: p.Frequencies.sketch("v"),
    "Members": lambda: p.Members.sketch("v", items=1000),
}
REFUSED = {
    "Distinct": set(VALUES) - {"INT", "BIGINT", "STRING", "BINARY"},
    "Sets": set(VALUES) - {"INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY"},
    "Percentiles": {"BINARY", "DATE", "TIMESTAMP_NTZ"},
    "Top": {"BINARY"},
    "Frequencies": set(VALUES) - {*WHOLE, "STRING", "BINARY"},
    "Members": set(),
}


def as_text(value: Any) -> str:
    return str(value).replace("+00:00", "Z") if isinstance(value, dt.datetime) else str(value)


def column(spark: Any, kind: str, values: list[Any]) -> Any:
    """Through texts, as Python's own way into Spark would change some of them; with a null."""
    if kind == "BINARY":
        return spark.createDataFrame([(each,) for each in [*values, None]], "v BINARY")
    texts = [(None if each is None else as_text(each),) for each in [*values, None]]
    return spark.createDataFrame(texts, "t STRING").select(F.col("t").cast(kind).alias("v"))


@pytest.mark.parametrize("kind", VALUES)
def test_a_member_is_known_whatever_the_type_of_its_column(headwater_spark: Any, kind: str) -> None:
    values = VALUES[kind]
    (found,) = column(headwater_spark, kind, values).agg(p.Members.sketch("v", items=100)).first()
    assert [each for each in values if not p.Members.contains(bytes(found), each)] == []
    others = STRANGERS.get(kind, [10_000 + n + 0.25 for n in range(200)])
    assert sum(p.Members.contains(bytes(found), each) for each in others) <= len(others) // 10


def test_a_number_is_asked_for_by_its_value(headwater_spark: Any) -> None:
    for kind in (*WHOLE, "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,18)"):
        (found,) = column(headwater_spark, kind, [5]).agg(p.Members.sketch("v", items=100)).first()
        for asked in (5, 5.0, Decimal("5.000")):
            assert p.Members.contains(bytes(found), asked), (kind, asked)
        assert not p.Members.contains(bytes(found), 6), kind
        assert not p.Members.contains(bytes(found), 2**70), kind


def test_filters_of_every_width_of_whole_numbers_are_one_filter(headwater_spark: Any) -> None:
    chance = random.Random(4)
    values = [chance.randrange(-128, 128) for _ in range(50)]
    made = {}
    for kind in WHOLE:
        frame = column(headwater_spark, kind, values)
        row = frame.agg(
            p.Members.sketch("v", items=100).alias("members"),
            p.Frequencies.sketch("v").alias("counts"),
            p.Percentiles.of("v", [0.1, 0.5, 0.9]).alias("ranks"),
            p.Top.of("v", 300).alias("top"),
        ).first()
        made[kind] = (
            bytes(row.members),
            bytes(row.counts),
            row.ranks,
            sorted((each["count"], each["item"]) for each in row.top if each["item"] is not None),
        )
        assert p.Frequencies.count(bytes(row.counts), values[0]) >= values.count(values[0])
    for kind in WHOLE:
        for one, other in zip(made[kind], made["BIGINT"], strict=True):
            assert one == other, kind
    for sketch in (p.Distinct, p.Sets):
        wide, narrow = (
            column(headwater_spark, kind, values).agg(sketch.sketch("v").alias("s")).first().s
            for kind in ("BIGINT", "INT")
        )
        assert bytes(wide) == bytes(narrow)


@pytest.mark.parametrize("name", SKETCHES)
def test_a_sketch_takes_a_type_or_says_that_it_does_not(headwater_spark: Any, name: str) -> None:
    for kind, values in VALUES.items():
        if name == "Percentiles" and kind == "STRING":
            values = ["1", "2"]
        frame = column(headwater_spark, kind, values)
        if kind in REFUSED[name]:
            with pytest.raises(AnalysisException, match="data type mismatch"):
                frame.agg(SKETCHES[name]())
            continue
        sketched = frame.agg(SKETCHES[name]().alias("s"))
        if name == "Top":  # Python has no TIMESTAMP of the year 1 in every zone
            there = sketched.selectExpr(
                "size(filter(s, each -> each.item IS NOT NULL)) AS n"
            ).first()
            assert there.n == len(values), kind
            continue
        (found,) = sketched.first()
        if name in ("Distinct", "Sets"):
            # An empty text or no bytes are nothing to the library that Spark has these of.
            assert found == len([each for each in values if each not in ("", b"")]), kind


def test_what_cannot_be_asked_for_is_refused(headwater_spark: Any) -> None:
    frame = column(headwater_spark, "BIGINT", [1])
    row = frame.agg(p.Members.sketch("v", items=9).alias("m"), p.Frequencies.sketch("v").alias("c"))
    members, counts = map(bytes, row.first())
    for asked in (None, [1], object()):
        with pytest.raises(NotAsked, match="cannot be asked for"):
            p.Members.contains(members, asked)  # type: ignore[arg-type]
    for asked in (None, 1.5, True, Decimal(1)):
        with pytest.raises(NotAsked, match="cannot be asked for"):
            p.Frequencies.count(counts, asked)  # type: ignore[arg-type]
    assert p.Frequencies.count(counts, 2**64) == 0
