"""The inner loop of sliding windows against the plainest possible computation."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headwater.processing import windows
from headwater.processing.ranges import aggregated
from headwater.processing.windows import BadWindow, Window

MINUTE = 60_000_000


def plainly(rows: list[tuple[int, int, float]], length: int) -> list[tuple[float, ...]]:
    found = []
    for key, time, _ in rows:
        near = [
            value
            for other, at, value in rows
            if other == key and time - length < at <= time and not np.isnan(value)
        ]
        empty = float("nan")
        total = sum(near) if near else empty
        mean = total / len(near) if near else empty
        found.append((len(near), total, min(near, default=empty), max(near, default=empty), mean))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_each_event_sees_its_key_s_last_events(seed: int) -> None:
    chance = random.Random(seed)
    rows = sorted(
        (
            chance.randrange(4),
            chance.randrange(60),
            float("nan") if chance.random() < 0.2 else float(chance.randrange(-9, 9)),
        )
        for _ in range(chance.randrange(1, 80))
    )
    keys, times = (np.array([row[n] for row in rows]) for n in (0, 1))
    kinds = ("count", "total", "minimum", "maximum", "mean")
    values = np.array([[row[2]] * len(kinds) for row in rows])
    found = aggregated(keys, times, values, kinds, 10)
    np.testing.assert_allclose(np.column_stack(found), np.array(plainly(rows, 10)))


@pytest.mark.parametrize(
    "window",
    [
        windows.tumbling("1 hour"),
        windows.tumbling("1 hour", offset="7 minutes"),
        windows.hopping("1 hour", "20 minutes"),
        windows.hopping("50 minutes", "20 minutes", offset="3 minutes"),
        windows.session("30 minutes"),
    ],
    ids=lambda window: f"{window.kind}-{window.offset // MINUTE}",
)
def test_an_event_misses_the_windows_that_are_over(window: Window) -> None:
    for time in range(0, 300 * MINUTE, 7 * MINUTE):
        every = window.missed(time, 10**15)  # all that it is in
        assert all(start <= time < end for start, end in every)
        assert [every[0][1], every[-1][1]] == [window.first_end(time), window.last_end(time)]
        if window.kind != windows.SESSION:
            starts = range(window.offset - 100 * window.every, 300 * MINUTE, window.every)
            near = [s for s in starts if time - window.size < s <= time]
            assert [start for start, _ in every] == near
        for watermark in (time, every[0][1], every[-1][1] - 1, every[-1][1]):
            missed = window.missed(time, watermark)
            assert missed == [each for each in every if each[1] <= watermark]
    assert Window.from_json(window.to_json()) == window


def test_windows_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadWindow, match="leaves events out"):
        windows.hopping("10 minutes", "1 hour")
    with pytest.raises(BadWindow, match="longer than nothing"):
        windows.session("0 seconds")
