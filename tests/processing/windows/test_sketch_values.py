"""Every sketch over every type of column: the same answer whatever the width, or refused in words."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
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
SKETCHES: dict[str, Callable[[str], Any]] = {
    "Distinct": lambda name: p.Distinct.of(name),
    "Sets": lambda name: p.Sets.of(name),
    "Percentiles": lambda name: p.Percentiles.of(name, 0.5),
    "Top": lambda name: p.Top.of(name, 100),
    "Frequencies": lambda name: p.Frequencies.sketch(name),
    "Members": lambda name: p.Members.sketch(name, items=1000),
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


def columns(spark: Any, values: dict[str, list[Any]]) -> Any:
    """A column for each type, called as that: one job asks them all. Through texts, as Python's own way into
    Spark would change some of them; with nulls."""
    length = 1 + max(map(len, values.values()))
    padded = [
        [each if kind == "BINARY" or each is None else as_text(each) for each in some]
        + [None] * (length - len(some))
        for kind, some in values.items()
    ]
    schema = ", ".join(f"`{kind}` {'BINARY' if kind == 'BINARY' else 'STRING'}" for kind in values)
    texts = spark.createDataFrame([*zip(*padded, strict=True)], schema)
    return texts.select(*(F.col(f"`{kind}`").cast(kind).alias(kind) for kind in values))


def sketched(frame: Any, made: dict[str, Any]) -> dict[str, Any]:
    row = frame.agg(*(each.alias(f"s{n}") for n, each in enumerate(made.values()))).first()
    return dict(zip(made, row, strict=True))


def members(spark: Any, values: dict[str, list[Any]]) -> dict[str, bytes]:
    made = {kind: p.Members.sketch(f"`{kind}`", items=100) for kind in values}
    return {kind: bytes(each) for kind, each in sketched(columns(spark, values), made).items()}


@pytest.fixture(scope="module")
def known(headwater_spark: Any) -> dict[str, bytes]:
    return members(headwater_spark, VALUES)


@pytest.mark.parametrize("kind", VALUES)
def test_a_member_is_known_whatever_the_type_of_its_column(
    known: dict[str, bytes], kind: str
) -> None:
    values, found = VALUES[kind], known[kind]
    assert [each for each in values if not p.Members.contains(found, each)] == []
    others = STRANGERS.get(kind, [10_000 + n + 0.25 for n in range(200)])
    assert sum(p.Members.contains(found, each) for each in others) <= len(others) // 10


def test_a_number_is_asked_for_by_its_value(headwater_spark: Any) -> None:
    kinds = (*WHOLE, "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,18)")
    for kind, found in members(headwater_spark, {kind: [5] for kind in kinds}).items():
        for asked in (5, 5.0, Decimal("5.000")):
            assert p.Members.contains(found, asked), (kind, asked)
        assert not p.Members.contains(found, 6), kind
        assert not p.Members.contains(found, 2**70), kind


def test_filters_of_every_width_of_whole_numbers_are_one_filter(headwater_spark: Any) -> None:
    chance = random.Random(4)
    values = [chance.randrange(-128, 128) for _ in range(50)]
    frame = columns(headwater_spark, dict.fromkeys(WHOLE, values))
    made = {
        kind: {
            "members": p.Members.sketch(kind, items=100),
            "counts": p.Frequencies.sketch(kind),
            "ranks": p.Percentiles.of(kind, [0.1, 0.5, 0.9]),
            "top": p.Top.of(kind, 300),
        }
        for kind in WHOLE
    }
    for kind in ("BIGINT", "INT"):
        made[kind] |= {"distinct": p.Distinct.sketch(kind), "sets": p.Sets.sketch(kind)}
    asked = {f"{name} {kind}": each for kind in WHOLE for name, each in made[kind].items()}
    found = sketched(frame, asked)
    for kind in WHOLE:
        counts = bytes(found[f"counts {kind}"])
        assert p.Frequencies.count(counts, values[0]) >= values.count(values[0])
        for name in made[kind]:
            assert told(found[f"{name} {kind}"]) == told(found[f"{name} BIGINT"]), (name, kind)


def told(sketch: Any) -> Any:
    """Bytes, ranks, or items with how often they were there."""
    if isinstance(sketch, bytes | bytearray):
        return bytes(sketch)
    if isinstance(sketch[0], float | int):
        return sketch
    return sorted((each["count"], each["item"]) for each in sketch if each["item"] is not None)


@pytest.mark.parametrize("name", SKETCHES)
def test_a_sketch_takes_a_type_or_says_that_it_does_not(headwater_spark: Any, name: str) -> None:
    values = {**VALUES, "STRING": ["1", "2"]} if name == "Percentiles" else VALUES
    frame, made = columns(headwater_spark, values), {}
    for kind in values:
        sketch = SKETCHES[name](f"`{kind}`")
        if kind in REFUSED[name]:
            with pytest.raises(AnalysisException, match="data type mismatch"):
                frame.agg(sketch)
        elif name == "Top":  # Python has no TIMESTAMP of the year 1 in every zone
            made[kind] = F.size(F.filter(sketch, lambda each: each["item"].isNotNull()))
        else:
            made[kind] = sketch
    for kind, found in sketched(frame, made).items():
        if name == "Top":
            assert found == len(values[kind]), kind
        if name in ("Distinct", "Sets"):
            # An empty text or no bytes are nothing to the library that Spark has these of.
            assert found == len([each for each in values[kind] if each not in ("", b"")]), kind


def test_what_cannot_be_asked_for_is_refused(headwater_spark: Any) -> None:
    frame = columns(headwater_spark, {"BIGINT": [1]})
    row = frame.agg(p.Members.sketch("BIGINT", items=9), p.Frequencies.sketch("BIGINT")).first()
    members, counts = map(bytes, row)
    for asked in (None, [1], object()):
        with pytest.raises(NotAsked, match="cannot be asked for"):
            p.Members.contains(members, asked)  # type: ignore[arg-type]
    for asked in (None, 1.5, True, Decimal(1)):
        with pytest.raises(NotAsked, match="cannot be asked for"):
            p.Frequencies.count(counts, asked)  # type: ignore[arg-type]
    assert p.Frequencies.count(counts, 2**64) == 0
