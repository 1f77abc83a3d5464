"""`match` in Spark: in one batch, in any batches, after a kill, the same rows; and what it refuses."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pytest

import headwater as hw
from headwater.processing import event_stream
from headwater.processing.patterns import PatternError, match
from headwater.testing.rehearsal import Rehearsal
from tests.conftest import SOAK
from tests.processing.killing import forget_the_last_commit

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATENESS_S = 20
SEEDS = range(10) if SOAK else [11]


def tries() -> Any:
    schema = "card STRING, amount BIGINT, id BIGINT, at TIMESTAMP"
    return match(
        event_stream("payments", schema=schema, time="at", lateness=f"{LATENESS_S} seconds"),
        key="card",
        pattern="SMALL{2,} !(SMALL | LARGE)* LARGE | SMALL !LARGE* $",
        define={"SMALL": "amount < 10", "LARGE": "amount > 4 * avg(SMALL.amount)"},
        within="30 seconds",
        measures={
            "ids": "collect_list(id)",
            "mean": "avg(SMALL.amount)",
            "last_at": "last(at)",
            "quick": "LARGE.at - first(SMALL.at) < interval 20 seconds",
        },
        skip="to next row",
        timeouts=True,
        order="id",
        buckets=3,
    )


def second(number: float) -> str:
    return (START + dt.timedelta(seconds=number)).isoformat()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_batches_and_a_kill_give_the_rows_of_one_batch(headwater_test: Rehearsal, seed: int):
    choice = random.Random(seed)
    rows = [
        {
            "card": choice.choice(["a", "b", "c", None]),
            "amount": choice.choice([1, 2, 5, 12, 50, None]),
            "id": number,
            "at": second(choice.randrange(300)),
        }
        for number in range(600 if SOAK else 120)
    ]
    # In any order, as long as nobody is more than the lateness behind the newest.
    rows.sort(key=lambda row: (_of(row) + choice.uniform(0, LATENESS_S - 1), row["id"]))
    hw.view("tries")(tries)
    cuts = sorted(choice.sample(range(1, len(rows)), 12 if SOAK else 2))
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        headwater_test.send("payments", *rows[begin:end])
        headwater_test.run("tries")
        if begin == cuts[0]:
            forget_the_last_commit(headwater_test, "tries")
    headwater_test.send("payments", {"card": "end", "id": -1, "at": second(10_000)})
    headwater_test.run("tries")
    headwater_test.send("payments", {"card": "late", "amount": 50, "id": -2, "at": second(0)})
    headwater_test.run("tries")
    streamed = sorted(headwater_test.changes("tries"), key=repr)
    assert streamed == headwater_test.batch("tries")
    assert {row["timed_out"] for row in streamed} == {False, True} and len(streamed) > 20
    assert {row["card"] for row in streamed} == {"a", "b", "c", None}
    assert len(headwater_test.records("late.headwater-tries")) == 1, (
        "what comes too late is not lost"
    )
    state = headwater_test.query("tries").lastProgress["stateOperators"][0]
    assert state["numRowsTotal"] == 1, (
        "only the last row waits; keys with nothing open take no room"
    )


def _of(row: dict[str, Any]) -> float:
    return (dt.datetime.fromisoformat(row["at"]) - START).total_seconds()


@pytest.mark.timeout(900)
def test_columns_keep_their_types_and_their_nulls(headwater_spark: Any):
    at = [START + dt.timedelta(minutes=n) for n in range(3)]
    day = dt.date(2026, 2, 3)
    big = 2**53 + 1
    rows = [
        ("k", 7, at[0], big, Decimal("1.25"), day, "x", True, 0.5, b"\x01"),
        ("k", 7, at[1], None, Decimal("2.50"), None, None, None, None, b"\x01"),
        ("k", 7, at[2], 3, None, day, "z", False, 1.5, b"\x01"),
        (None, 7, at[0], 1, None, day, "other", False, 1.5, None),
        ("k", 7, None, 100, None, day, "without a time", False, 1.5, b"\x01"),
    ]
    schema = (
        "k STRING, j INT, at TIMESTAMP, n BIGINT, d DECIMAL(10,2), day DATE, s STRING, b BOOLEAN, "
        "f FLOAT, raw BINARY"
    )
    frame = headwater_spark.createDataFrame(rows, schema)
    measures = {
        "n0": "first(n)",
        "n1": "last(n, 1)",
        "sum": "sum(n)",
        "ds": "sum(A.d)",
        "mean": "avg(A.d)",
        "days": "collect_list(A.day)",
        "s": "A.s",
        "b": "first(A.b)",
        "f": "max(A.f)",
        "longest": "max(A.at) - min(A.at)",
        "over": "A.d / 0",
    }
    found = match(
        frame,
        key=["raw", "k", "j"],
        pattern="A+",
        within="1 hour",
        measures=measures,
        define={"A": frame["j"] == 7},
    )
    first = {row["k"]: row for row in found.collect()}["k"]
    (other,) = [row for row in found.collect() if row["k"] is None]
    assert (first["raw"], first["j"]) == (b"\x01", 7)
    assert (other["raw"], other["j"], other["s"]) == (None, 7, "other")
    assert (first["n0"], first["n1"], first["sum"]) == (big, None, big + 3)
    assert (first["ds"], first["mean"]) == (Decimal("3.75"), Decimal("1.875000"))
    assert (first["days"], first["s"], first["b"], first["f"]) == ([day, day], "z", True, 1.5)
    assert (first["longest"], first["over"]) == (dt.timedelta(minutes=2), None)
    kinds = {field.name: field.dataType.simpleString() for field in found.schema.fields}
    assert (kinds["ds"], kinds["f"], kinds["days"]) == ("decimal(20,2)", "float", "array<date>")


def test_a_call_that_cannot_mean_anything_is_refused_with_a_reason(headwater_spark: Any):
    frame = headwater_spark.createDataFrame(
        [("k", START, 1, [1])], "k STRING, at TIMESTAMP, x INT, list ARRAY<INT>"
    )

    def refusal(df: Any = frame, **words: Any) -> str:
        said = {"key": "k", "pattern": "A B", "within": "1 minute", **words}
        with pytest.raises(PatternError) as refused:
            match(df, **said)
        return str(refused.value)

    stream = headwater_spark.readStream.format("rate").load()
    assert "no watermark" in refusal(stream.withColumnRenamed("value", "k"))
    assert "no column 'card'" in refusal(key="card")
    assert "at least one column" in refusal(key=[])
    assert "define 'A' is not possible" in refusal(define={"A": "prize > 3"})
    assert "define 'B' is not possible" in refusal(define={"B": "x > A.prize"})
    assert "true or false, not int" in refusal(define={"A": "x + 1"})
    assert "true or false, not int" in refusal(define={"B": "x + A.x"})
    assert "no such variable" in refusal(define={"C": "x > 1"})
    assert "measures 'm' is not possible" in refusal(measures={"m": "A.x + A.list"})
    assert "cannot be compared with other rows" in refusal(measures={"m": "A.list"})
    assert "a column of that name" in refusal(measures={"k": "A.x"})
    assert "which column is the event time? There is" in refusal(frame.drop("at"))
    assert "cannot be a key" in refusal(key="list")
    assert refusal(pattern="A (B").endswith("    A (B\n      ^")
