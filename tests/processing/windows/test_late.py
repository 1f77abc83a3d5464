"""What comes late, without a time, or ahead of it; clocks that are wrong; sources that fall silent."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from pyspark.sql import DataFrame

import headwater as hw
from headwater import processing as p
from headwater.errors import HeadwaterError
from headwater.testing.rehearsal import Rehearsal
from tests.processing.windows.feeding import EVENT, event, moment

pytestmark = pytest.mark.timeout(900)


def headers(test: Rehearsal, topic: str) -> list[dict[str, str]]:
    return [
        {name: (value or b"").decode() for name, value in each.headers() or ()}
        for each in test.records(topic)
    ]


def test_late_events_are_kept_with_how_late_they_were(headwater_test: Rehearsal) -> None:
    test = headwater_test

    @hw.view("hourly", mode="append")
    def hourly() -> DataFrame:
        events = p.event_stream(
            "events", schema=EVENT, time="at", lateness="10 minutes",
            window=p.tumbling("1 hour"), idle="5 minutes", ahead="1 day",
        )  # fmt: skip
        return p.aggregate(events, "user", n=p.count()).select("window.start", "user", "n")

    @hw.view("hops", mode="append")
    def hops() -> DataFrame:
        window = p.hopping("1 hour", "30 minutes")
        events = p.event_stream(
            "events", schema=EVENT, time="at", lateness="10 minutes", window=window, late="missed"
        )
        return p.aggregate(events, "user", n=p.count()).select("window.start", "user", "n")

    test.clock.advance(int(moment("11:30:00").timestamp() * 1000) - test.clock.now_ms())
    test.send("events", event("a", 1, "10:05:00"), event("a", 1, "10:59:00"))
    test.run(hourly, hops)
    test.send("events", event("a", 1, "11:30:00"))
    test.run()
    hour = {"start": moment("10:00:00"), "user": "a", "n": 2}
    assert test.rows(hourly) == [hour]

    #  10:00        11:00    ▼ 11:20 watermark
    #    │   a  a  b │ c          │    a    d: a day ahead   no time
    #    ├───────────┤╴╴╴╴╴╴╴╴╴╴╴╴╴╴╴╴╴┤                              hopping: also 10:30–11:30
    test.send("events", event("b", 1, "10:59:59"), event("c", 1, "11:00:00"))
    test.send("events", {**event("d", 1, "12:00:00"), "at": "2026-01-03T12:00:00Z"}, {"user": "e"})
    test.run()
    test.kill()
    late, ahead, without = headers(test, "late.headwater-hourly")
    assert late["late.by.ms"] == str((30 * 60 + 1) * 1000)
    assert late["late.watermark"] == "2026-01-01T11:20:00Z"
    assert json.loads(late["late.windows"]) == [["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]]
    assert (late["__dlq.errors.topic"], late["__dlq.errors.offset"]) == ("events", "5")
    assert "ahead" in ahead["__dlq.errors.message"] and "late.by.ms" not in ahead
    assert without["__dlq.errors.message"] == "it has no time in at"
    letters = [json.loads(each.value() or b"") for each in test.records("late.headwater-hourly")]
    assert [each["user"] for each in letters] == ["b", "d", "e"]

    # b has missed one of its hops and is counted in the other.
    missed = headers(test, "missed")
    assert [len(json.loads(each.get("late.windows", "[]"))) for each in missed] == [1, 0]

    # Nothing comes any more: time goes on by the clock, five minutes behind it.
    assert test.rows(hourly) == [hour]
    test.advance("1 hour")
    assert {"start": moment("11:00:00"), "user": "c", "n": 1} in test.rows(hourly)
    test.advance("1 day")  # and the one ahead is not in any window
    assert {row["user"] for row in test.rows(hourly)} == {"a", "c"}
    # Where nothing is said of events ahead, the one of the day after closes all.
    counted = {(row["start"].strftime("%H:%M"), row["user"]): row["n"] for row in test.rows(hops)}
    assert counted == {
        ("09:30", "a"): 1, ("10:00", "a"): 2, ("10:30", "a"): 1, ("10:30", "b"): 1,
        ("10:30", "c"): 1, ("11:00", "a"): 1, ("11:00", "c"): 1, ("11:30", "a"): 1,
    }  # fmt: skip


def test_late_events_correct_their_window(headwater_test: Rehearsal) -> None:
    test = headwater_test

    @hw.view("hourly", mode="append")
    def hourly() -> DataFrame:
        events = p.event_stream(
            "events", schema=EVENT, time="at", lateness="10 minutes",
            window=p.tumbling("1 hour"), revise="3 hours",
        )  # fmt: skip
        return p.aggregate(
            events, "user", n=p.count(), amount=p.sum("amount"), least=p.min("amount"),
            usual=p.mean("amount"), users=p.approx_count_distinct("amount"),
            half=p.approx_percentile("amount", 0.5),
        )  # fmt: skip

    def changes() -> list[tuple[Any, ...]]:
        marks = ("n", "amount", "least", "usual", "users", "half", "revision", "retracted")
        return [tuple(row[name] for name in ("user", *marks)) for row in test.changes(hourly)]

    test.send("events", event("a", 4, "10:05:00"), event("a", 6, "10:10:00"))
    test.run(hourly)
    test.send("events", event("-", 0, "11:30:00"))
    test.run()
    first = ("a", 2, 10, 4, 5.0, 2, 4.0)
    assert changes() == [(*first, 0, False)]

    #   10:00 ─a─a──╮   11:00      11:30 ▼ watermark 11:20: the window is over
    #               ╰───────────────────── 10:20, 10:30: late by an hour
    test.send("events", event("a", 2, "10:20:00"), event("a", None, "10:30:00"))
    test.send("events", event("b", 1, "10:40:00"))
    test.run()
    test.kill()
    test.send("events", event("-", 0, "11:31:00"))  # the next step of the watermark gives them out
    test.run()
    second = ("a", 4, 12, 2, 4.0, 3, 4.0)
    other = ("b", 1, 1, 1, 1.0, 1, 1.0)
    expected = [(*first, 0, True), (*second, 1, False), (*other, 0, False)]
    assert sorted(changes()[1:]) == sorted(expected)
    assert changes().index(expected[0]) < changes().index(expected[1])

    test.send("events", event("a", 1, "10:50:00"), event("-", 0, "15:00:00"))
    test.run()
    third = [row for row in changes() if row[0] == "a" and row[-2] == 2]
    assert third == [("a", 5, 13, 1, 13 / 4, 4, 2.0, 2, False)]

    # Three hours after its end a window is forgotten, and what comes is kept as late.
    test.send("events", event("a", 1, "10:55:00"))
    test.run()
    assert len(test.records("late.headwater-hourly")) == 1
    assert [row for row in changes() if row[0] == "a" and row[-2] > 2] == []


def test_a_device_with_a_wrong_clock_is_corrected(headwater_test: Rehearsal) -> None:
    test = headwater_test
    schema = EVENT + ", sent_at TIMESTAMP"

    @hw.view("corrected")
    def corrected() -> DataFrame:
        time = p.corrected("at", sent="sent_at")
        events = p.event_stream(
            "events", schema=schema, time=time, lateness="1 hour", ahead="1 minute"
        )
        return events.select("user", "at")

    # By the device's clock, which is a year behind: the event at 10:00, sent at 10:03.
    wrong = {"at": "2022-11-14T10:00:00Z", "sent_at": "2022-11-14T10:03:00Z"}
    test.send("events", {"user": "a", "amount": 1, **wrong})
    test.send("events", {"user": "b", "amount": 1, "at": test.now})
    test.run(corrected)
    expected = [
        {"user": "a", "at": test.now - dt.timedelta(minutes=3)},
        {"user": "b", "at": test.now},
    ]
    assert test.rows(corrected) == expected
    assert test.batch(corrected) == expected


def test_what_cannot_be_is_told(headwater_test: Rehearsal) -> None:
    @hw.view("sessions")
    def sessions() -> DataFrame:
        return p.event_stream(
            "e", schema=EVENT, time="at", window=p.session_window("1 hour"), revise=True
        )

    @hw.view("slid")
    def slid() -> DataFrame:
        events = p.event_stream("e", schema=EVENT, time="at")
        return p.sliding(events, "user", "1 hour", time="at", users=p.approx_count_distinct("user"))

    @hw.view("nowhere")
    def nowhere() -> DataFrame:
        return p.aggregate(p.event_stream("e", schema=EVENT, time="at"), "user", n=p.count())

    for view, sentence in [
        (sessions, "can be revised"),
        (slid, "no sketches"),
        (nowhere, "no window"),
    ]:
        with pytest.raises(HeadwaterError, match=sentence):
            headwater_test.run(view)
