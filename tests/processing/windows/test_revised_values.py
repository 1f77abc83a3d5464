"""Corrections of windows over values that hurt: the last row of each window is the one of a batch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater import processing as p
from headwater.testing.rehearsal import Rehearsal

pytestmark = pytest.mark.timeout(900)

SCHEMA = (
    "by_ntz TIMESTAMP_NTZ, text STRING, i BIGINT, d DECIMAL(38,18), f DOUBLE, day DATE, ts TIMESTAMP, "
    "ntz TIMESTAMP_NTZ, at TIMESTAMP"
)
NAMES = ("text", "i", "d", "f", "day", "ts", "ntz")
# Two keys that are a microsecond apart, where Europe's summer time begins.
KEYS = ("2026-03-29T02:30:00.000001", "2026-03-29T02:30:00.000002")
DIGITS = "1234567890123456789.012345678901234567"


def event(key: str, at: str, **values: Any) -> str:
    told = json.dumps({"by_ntz": key, **values, "at": f"2026-01-01T{at}Z"})
    return told.replace('"DIGITS"', DIGITS)


EARLY = [
    event(KEYS[0], "10:05:00", text="é", i=2**62, d="DIGITS", f=0.5, day="0001-01-01",
          ts="0001-01-01T00:00:00.000001Z", ntz="0001-01-01T00:00:00.000001"),
    event(KEYS[1], "10:06:00", text=None, i=-1, f=-0.25, ntz="2026-10-25T02:30:00.999999"),
]  # fmt: skip
LATE = [
    event(KEYS[0], "10:20:00", text="e\u0301", i=-(2**62) + 1, d="DIGITS", f=1e300, day="9999-12-31",
          ts="9999-12-31T23:59:59.999999Z", ntz="9999-12-31T23:59:59.999999"),
    event(KEYS[1], "10:30:00", text="😀", ntz="1883-11-18T12:03:57.123456"),
]  # fmt: skip


def test_a_corrected_window_keeps_every_digit(headwater_test: Rehearsal) -> None:
    test = headwater_test

    @hw.view("hourly", mode="append")
    def hourly() -> DataFrame:
        events = p.event_stream(
            "events", schema=SCHEMA, time="at", lateness="10 minutes",
            window=p.tumbling("1 hour"), revise="3 hours",
        )  # fmt: skip
        found: dict[str, Any] = {f"{name}_n": p.count(name) for name in NAMES}
        for name in NAMES:
            found |= {f"{name}_min": p.min(name), f"{name}_max": p.max(name)}
        for name in ("i", "d", "f"):
            found |= {f"{name}_sum": p.sum(name), f"{name}_avg": p.mean(name)}
        rows = p.aggregate(events, "by_ntz", **found).drop("window")
        return rows.select(*(F.col(name).cast("string") for name in rows.columns))

    test.send("events", *EARLY)
    test.run(hourly)
    test.send("events", event(KEYS[0], "11:30:00"))
    test.run()
    test.kill()
    test.send("events", *LATE)
    test.run()
    test.send("events", event(KEYS[0], "11:31:00"))
    test.run()
    changes = test.changes(hourly)
    last = {row["by_ntz"]: row for row in changes if row["retracted"] == "false"}
    assert [row["revision"] for row in last.values()] == ["1", "1"]
    marks = ("revision", "retracted")
    expected = {
        row["by_ntz"]: row
        for row in test.batch(hourly)
        if (row["text_n"], row["ntz_n"]) != ("0", "0")
    }
    assert set(last) == set(expected) == {key.replace("T", " ") for key in KEYS}
    for key, row in last.items():
        plain = {name: value for name, value in row.items() if name not in marks}
        assert plain == {name: expected[key][name] for name in plain}, key
    assert last["2026-03-29 02:30:00.000001"]["ntz_min"] == "0001-01-01 00:00:00.000001"
    assert last["2026-03-29 02:30:00.000001"]["i_sum"] == "1"
