"""Weeks of events, sagas and keys beside a model; and canaries: what was wrong once is found out here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.events import aggregate, fence
from headwater.events.key_topic import KeyTopic
from headwater.events.saga import Saga
from tests.conftest import SOAK
from tests.events import long_life


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(12) if SOAK else [1])
def test_weeks_pass_and_the_log_says_what_the_model_says(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    long_life.live(seed, tmp_path, monkeypatch.setattr, count=120 if SOAK else 40)


def _blind(self: KeyTopic, start: int, end: int, read: Any = KeyTopic._read) -> bool:
    read(self, start, end)
    return True


async def _gives_up(self: Saga, message: Any, error: Exception) -> None:
    self._ending.set()  # as it was: the thread ends, and nobody is told
    raise error


Break = Callable[[pytest.MonkeyPatch], None]
CANARIES: dict[str, tuple[dict[str, int], str, Break]] = {
    "former owners that nobody fences": (
        {"command": 2, "replace_owner": 3, "wake": 2},
        "Withdraw",
        lambda patch: patch.setattr(fence, "raise_before", lambda *_: None),
    ),
    "keys that do not see what compaction took": (
        {"personal": 1},
        "a key that nobody has",
        lambda patch: patch.setattr(KeyTopic, "_read", _blind),
    ),
    "a fingerprint that does not see upcasters": (
        {"command": 2, "rush": 2, "deploy": 1},
        "the owner has",
        lambda patch: patch.setattr(aggregate, "fingerprint", lambda _: "always the same"),
    ),
    "a saga that ends at an event that it cannot handle": (
        {"transfer": 1},
        "the saga has stopped",
        lambda patch: patch.setattr(Saga, "_bury", _gives_up),
    ),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", CANARIES)
def test_what_is_broken_on_purpose_is_found_out(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    steps, seen, break_it = CANARIES[how]
    break_it(monkeypatch)
    with pytest.raises(AssertionError, match=seen):
        long_life.live(1, tmp_path, monkeypatch.setattr, steps, count=12)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", CANARIES)
def test_the_same_steps_pass_where_nothing_is_broken(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    steps, _, _ = CANARIES[how]
    long_life.live(1, tmp_path, monkeypatch.setattr, steps, count=12)
