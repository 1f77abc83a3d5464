"""Live and replay give the same rows: many batches, in any order that may be, killed in between."""

from __future__ import annotations

import datetime as dt
import os
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater import processing as p
from headwater.processing.windows import Window
from headwater.testing.rehearsal import Rehearsal
from tests.processing.windows.feeding import EVENT, START, at_random, disturbed, event, in_pieces

pytestmark = pytest.mark.timeout(900)
LATENESS = dt.timedelta(minutes=10)
OVER = "23:00:00"
"""An event long after the others, of nobody: with it, all that was before is final."""
SOAK = os.environ.get("HEADWATER_SOAK") == "1"
SEEDS = range(1, 20) if SOAK else [1]

Rows = list[dict[str, Any]]


def declare() -> list[Any]:
    """One view for each operator, all of the same topic; tumbling windows are those that are revised."""

    def read(window: Window | None = None, **more: Any) -> DataFrame:
        return p.event_stream(
            "events", schema=EVENT, time="at", lateness=LATENESS, window=window, **more
        )

    def summed(window: Window) -> DataFrame:
        sums = p.aggregate(read(window), "user", n=p.count(), amount=p.sum("amount"))
        return sums.select("window.start", "window.end", "user", "n", "amount")

    @hw.view("hopping", mode="append")
    def hopping() -> DataFrame:
        return summed(p.hopping("30 minutes", "10 minutes", offset="5 minutes"))

    @hw.view("sessions", mode="append")
    def sessions() -> DataFrame:
        return summed(p.session_window("4 minutes"))

    @hw.view("sliding")
    def sliding() -> DataFrame:
        seen = p.sliding(
            read(), "user", "20 minutes", time="at",
            n=p.count(), known=p.count("amount"), amount_sum=p.sum("amount"),
            least=p.min("amount"), most=p.max("amount"), usual=p.mean("amount"),
        )  # fmt: skip
        return seen.drop("_key", "_topic", "_partition", "_timestamp")

    @hw.view("revised", mode="append")
    def revised() -> DataFrame:
        events = read(p.tumbling("15 minutes"), revise="2 hours")
        return p.aggregate(events, "user", n=p.count(), amount=p.sum("amount"))

    return [hopping, sessions, sliding, revised]


def whole(rows: Rows) -> Rows:
    """Without what the last event, of nobody, has made."""
    found = [{k: v for k, v in row.items() if k != "_offset"} for row in rows if row["user"] != "-"]
    return sorted(found, key=repr)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_batches_in_any_order_give_the_rows_of_one_batch(
    headwater_test: Rehearsal, seed: int
) -> None:
    views = declare()
    headwater_test.topic("events", partitions=2)
    events = disturbed(seed, at_random(seed, 200, minutes=100), LATENESS)
    for number, some in enumerate(in_pieces(seed, events, 9 if SOAK else 2)):
        headwater_test.send("events", *some, key="user")
        headwater_test.run(*views)
        if number == 0:
            headwater_test.kill()
    headwater_test.send("events", event("-", 0, OVER), partition=0)
    headwater_test.run()
    for view in views:
        name = view.__name__
        expected, found = whole(headwater_test.batch(view)), whole(headwater_test.rows(view))
        assert len(expected) > 10, name
        assert found == expected, name
        assert headwater_test.records(f"late.headwater-{name}") == [], name
    # Spark itself has dropped nothing either.
    for view in views:
        progress = headwater_test.query(view).recentProgress
        assert (
            sum(s.numRowsDroppedByWatermark for each in progress for s in each.stateOperators) == 0
        )


def test_catching_up_with_uneven_partitions_gives_the_rows_that_were_given_live(
    headwater_test: Rehearsal,
) -> None:
    """Each of eight partitions has most of its events in another part of the day:

    0 ▇▇▇▁▁▁▁▁▁▁▁▁▁
    1 ▁▁▁▇▇▁▁▁▁▁▁▁▁      by count, 7 would be at the evening
    …                    while 0 is in the morning yet
    7 ▁▁▁▁▁▁▁▁▁▁▁▇▇
    """

    def declared(name: str) -> Any:
        @hw.view(name, mode="append")
        def summed() -> DataFrame:
            events = p.event_stream(
                "events", schema=EVENT, time="at", lateness=LATENESS, window=p.tumbling("5 minutes"),
                options={"maxOffsetsPerTrigger": "40"},
            )  # fmt: skip
            sums = p.aggregate(events, "user", n=p.count(), amount=p.sum("amount"))
            return sums.select("window.start", "user", "n", "amount")

        return summed

    test, minutes = headwater_test, 240
    test.topic("events", partitions=8)
    live, again = declared("live"), declared("again")
    events = disturbed(3, at_random(3, 120, minutes), LATENESS)
    for number, some in enumerate(in_pieces(3, events, 2)):
        for each in some:
            passed = (each["at"] - START) / dt.timedelta(minutes=minutes)
            busy = random.Random(str(each)).random() < 0.85
            test.clock.advance(60_000)
            test.send("events", each, partition=int(passed * 8) if busy else number)
        test.run(live)
    test.send("events", event("-", 0, OVER), partition=0)
    test.run(live, again)
    assert len(test.rows(live)) > 50
    assert test.records("late.headwater-again") == []
    assert whole(test.rows(again)) == whole(test.rows(live)) == whole(test.batch(live))


def test_the_last_events_of_a_key_are_counted_with_each_event(headwater_spark: Any) -> None:
    #   1──────2──3────────4      the last ten minutes of each: (10:07, 10:17] for the last
    at = ["10:00:00", "10:06:00", "10:08:00", "10:17:00"]
    rows = [event("a", n, time) for n, time in enumerate(at)] + [event("b", 50, "10:08:00")]
    frame = headwater_spark.createDataFrame(rows, "user STRING, amount BIGINT, at STRING")
    frame = frame.withColumn("at", F.to_timestamp("at"))
    seen = p.sliding(frame, "user", "10 minutes", time="at", n=p.count(), most=p.max("amount"))
    found = seen.orderBy("user", "at").select("n", "most").collect()
    assert [tuple(row) for row in found] == [(1, 0.0), (2, 1.0), (3, 2.0), (2, 3.0), (1, 50.0)]
