"""Windows, aggregates and corrections of live events give what Spark's batch gives on the same rows."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater import processing as p
from headwater.processing.windows import Window
from headwater.testing.rehearsal import Rehearsal
from tests.values.operated import (
    EVENTS,
    OPERATED,
    SCHEMA,
    counted,
    differing,
    end,
    events,
    letters,
    seen,
    send,
)

pytestmark = pytest.mark.timeout(900)
COMPARED = ("double", "decimal_38_18", "day", "moment", "local", "text", "texts")
SUMMED = ("double", "decimal_20_4")
"""A few for each: every aggregate of every column would be a plan that Spark compiles for minutes."""
GROUPED = tuple(each.name for each in OPERATED if "MAP" not in each.ddl)
"""Whatever Spark can group by."""


def aggregates() -> dict[str, Any]:
    found = {"n": p.count(), "n_double": p.count("double"), "n_text": p.count("text")}
    for name in COMPARED:
        found |= {f"least_{name}": p.min(name), f"most_{name}": p.max(name)}
    for name in SUMMED:
        found |= {f"sum_{name}": p.sum(name), f"mean_{name}": p.mean(name)}
    return found


def by_spark() -> dict[str, Any]:
    found = {"n": F.count(F.lit(1)), "n_double": F.count("double"), "n_text": F.count("text")}
    for name in COMPARED:
        found |= {f"least_{name}": F.min(name), f"most_{name}": F.max(name)}
    for name in SUMMED:
        found |= {f"sum_{name}": F.sum(name), f"mean_{name}": F.avg(name).cast("double")}
    return found


def read(window: Window | None = None, **more: Any) -> DataFrame:
    return p.event_stream(
        EVENTS, schema=SCHEMA, time="at", lateness="1 minute", window=window, **more
    )


def flat(frame: DataFrame) -> DataFrame:
    return frame.select("window.start", "window.end", *(c for c in frame.columns if c != "window"))


def test_windows_give_what_spark_gives_in_batch(headwater_test: Rehearsal) -> None:
    named, hours = aggregates(), F.window("at", "1 hour")

    @hw.view("tumbled", mode="append")
    def tumbled() -> DataFrame:
        return flat(p.aggregate(read(p.tumbling("1 hour")), "k", **named))

    @hw.view("hopped", mode="append")
    def hopped() -> DataFrame:
        return flat(
            p.aggregate(read(p.hopping("1 hour", "30 minutes")), ["k", *GROUPED], n=p.count())
        )

    @hw.view("sessions", mode="append")
    def sessions() -> DataFrame:
        return flat(
            p.aggregate(read(p.session_window("5 minutes")), "k", n=p.count(), t=p.max("text"))
        )

    frame = events(headwater_test.spark)
    send(headwater_test, frame)
    headwater_test.run()
    end(headwater_test)
    headwater_test.run()
    expected = {
        "tumbled": frame.groupBy(hours.alias("window"), "k").agg(
            *(each.alias(name) for name, each in by_spark().items())
        ),
        "hopped": frame.groupBy(
            F.window("at", "1 hour", "30 minutes").alias("window"), "k", *GROUPED
        ).agg(F.count(F.lit(1)).alias("n")),
        "sessions": frame.groupBy(F.session_window("at", "5 minutes").alias("window"), "k").agg(
            F.count(F.lit(1)).alias("n"), F.max("text").alias("t")
        ),
    }
    for view, oracle in expected.items():
        compare(headwater_test, view, flat(oracle))


@pytest.mark.soak  # processing/windows/test_revised_values asks as much
def test_windows_that_can_be_revised_give_what_spark_gives_in_batch(
    headwater_test: Rehearsal,
) -> None:
    @hw.view("revised", mode="append")
    def revised() -> DataFrame:
        found = p.aggregate(read(p.tumbling("1 hour"), revise="2 hours"), "k", **aggregates())
        return flat(found)

    frame = events(headwater_test.spark)
    send(headwater_test, frame)
    headwater_test.run()
    end(headwater_test)
    headwater_test.run()
    named = (each.alias(name) for name, each in by_spark().items())
    oracle = frame.groupBy(F.window("at", "1 hour").alias("window"), "k").agg(*named)
    compare(headwater_test, "revised", flat(oracle))


def compare(test: Rehearsal, view: str, oracle: DataFrame) -> None:
    names = oracle.columns
    found, wanted = seen(test, view, names), counted(oracle, names)
    assert wanted and found == wanted, f"{view}:\n{differing(names, found, wanted)}"
    assert letters(test, view) == [], view
