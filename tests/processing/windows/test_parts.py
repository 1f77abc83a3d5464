"""The inner loop of sliding windows against the plainest possible computation."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headwater.processing import windows
from headwater.processing.measures import DECIMAL, FRACTION, WHOLE, Measure
from headwater.processing.ranges import Ranges
from headwater.processing.windows import BadWindow, Window

MINUTE = 60_000_000


def plainly(rows: list[tuple[int, int, Any]], kind: str, length: int) -> list[Any]:
    """One value after the other, in whole numbers and fractions of Python's."""
    found: list[Any] = []
    for key, time, _ in rows:
        near = [
            value
            for other, at, value in rows
            if other == key and time - length < at <= time and value is not None
        ]
        results = {
            "count": lambda near: len(near),
            "total": lambda near: float(sum(near)),
            "mean": lambda near: float(sum(near)) / len(near),
            "minimum": lambda near: float(min(near)),
            "maximum": lambda near: float(max(near)),
        }
        found.append(results[kind](near) if near or kind == "count" else None)
    return found


VALUES: dict[str, list[Any]] = {
    FRACTION: [1e17, 1.0, 2.0, 3.0, 0.1, -0.1, 5e-324, 1.7e308, -1.7e308, float("inf")],
    WHOLE: [2**63 - 1, -(2**63), 2**53 + 1, 1, 0, -7],
    DECIMAL: [Fraction(n, 1000) for n in (10**37, -(10**37), 2**63, 1, -999, 123456789)],
}


@pytest.mark.parametrize("kind", ["count", "total", "minimum", "maximum", "mean"])
@pytest.mark.parametrize("form", VALUES)
def test_each_event_sees_its_key_s_last_events(form: str, kind: str) -> None:
    if form != FRACTION and kind in ("minimum", "maximum"):
        form = FRACTION
    for seed in range(40):
        chance = random.Random(seed)
        some = chance.sample(VALUES[form], chance.randrange(1, 5))
        rows = sorted((chance.randrange(3), chance.randrange(60)) for _ in range(40))
        drawn = [
            (*row, None if chance.random() < 0.2 else chance.choice(some))
            for row in rows[: chance.randrange(1, 40)]
        ]
        keys, times = (np.array([row[n] for row in drawn]) for n in (0, 1))
        asked = np.array([chance.random() < 0.7 for _ in drawn])
        measure = Measure(kind, form, scale=3 if form == DECIMAL else 0, column="v")
        present = np.array([row[2] is not None for row in drawn])
        sent = pd.Series([_sent(row[2] or 0, form) for row in drawn])
        found = Ranges.of(keys, times, 10, asked).measured(measure, present, sent)
        expected = [
            each for each, is_asked in zip(plainly(drawn, kind, 10), asked, strict=True) if is_asked
        ]
        values = [
            v if t or kind == "count" else None
            for t, v in zip(found.there, found.values, strict=True)
        ]
        assert list(map(repr, map(_plain, values))) == list(map(repr, expected)), f"seed {seed}"


def _sent(value: Any, form: str) -> Any:
    if form == DECIMAL:
        return str(Decimal(int(value * 1000)).scaleb(-3, Context(prec=60)))
    return float(value) if form == FRACTION else value


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def test_a_decimal_that_is_too_large_is_none_and_the_next_is_there_again() -> None:
    times = np.array([0, 1, 20])
    sent = pd.Series(["9" * 38, "9" * 38, "9" * 38])
    ranges = Ranges.of(np.zeros(3, int), times, 10, np.ones(3, bool))
    found = ranges.measured(Measure("total", DECIMAL, column="v"), np.ones(3, bool), sent)
    assert found.there.tolist() == [True, False, True]
    assert found.values[[0, 2]].tolist() == [1e38, 1e38]


@pytest.mark.parametrize(
    "window",
    [
        windows.tumbling("1 hour"),
        windows.tumbling("1 hour", offset="7 minutes"),
        windows.hopping("1 hour", "20 minutes"),
        windows.hopping("50 minutes", "20 minutes", offset="3 minutes"),
        windows.session_window("30 minutes"),
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
        windows.session_window("0 seconds")
