"""Weeks of transactions and of a share group beside a model; and canaries, which it must find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.broker.internal_topics import SHARE_GROUP_STATE, TABLE
from headwater.broker.transactions import transitions
from tests.broker import long_life
from tests.conftest import SOAK


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(20) if SOAK else [1])
def test_weeks_pass_and_the_broker_says_what_the_model_says(seed: int, tmp_path: Path) -> None:
    long_life.live(seed, tmp_path, count=300 if SOAK else 60)


def _forgotten_by_retention(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(TABLE, SHARE_GROUP_STATE, replace(TABLE[SHARE_GROUP_STATE], fixed={}))


def _forgotten_though_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transitions, "is_expired", lambda known, now_ms, after_ms: True)


CANARIES = {
    "state of share groups that retention takes": (
        {"put": 1, "work": 1, "pass_time": 1, "tidy": 1, "restart": 1},
        "delivered again|passed over",
        _forgotten_by_retention,
    ),
    "ids that are forgotten with their open transaction": (
        {"leave_open": 1},
        "waited .* for open transactions to end",
        _forgotten_though_open,
    ),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", CANARIES)
def test_what_is_broken_on_purpose_is_found_out(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, seen, break_it = CANARIES[how]
    break_it(monkeypatch)
    monkeypatch.setattr(long_life, "END_S", 2.0)
    with pytest.raises(AssertionError, match=seen):
        long_life.live(1, tmp_path, steps)
