"""A harness that finds nothing proves nothing: here the log is broken on purpose, and it must be seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from headwater.log import tail_scan
from headwater.log.commit import Commit
from headwater.log.segment import Segment
from headwater.testing.faulty_disk import FaultyDisk

from . import plan
from .world import World


def failures(weights: dict[str, int], count: int = 100) -> list[str]:
    """What goes wrong in that many plans."""
    found = []
    for seed in range(count):
        error = plan.failure(partial(World, seed, "disk"), plan.make(seed, weights))
        if error is not None:
            found.append(str(error))
    return found


def _nothing(*_: object, **__: object) -> None:
    return None


ANYTHING = plan.ORDINARY | plan.CRASHES | plan.FAILURES
FAILED_SYNCS = {"append": 6, "write": 6, "finish": 3, "fail_sync": 4, "kill": 4, "cut": 4}

Break = Callable[[pytest.MonkeyPatch], None]
BROKEN: dict[str, tuple[dict[str, int], Break]] = {
    "commits that do not sync": (
        ANYTHING,
        lambda patch: patch.setattr(Commit, "_sync", _nothing),
    ),
    "directories that are not synced": (
        ANYTHING,
        lambda patch: patch.setattr(FaultyDisk, "sync_dir", _nothing),
    ),
    "a recovery that cuts nothing": (
        ANYTHING,
        lambda patch: patch.setattr(Segment, "truncate", _nothing),
    ),
    "a recovery that believes the cache": (
        FAILED_SYNCS,
        lambda patch: patch.setattr(tail_scan, "_write_again", _nothing),
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_log_that_is_broken_on_purpose_is_found_out(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, break_it = BROKEN[how]
    assert not failures(weights)
    break_it(monkeypatch)
    assert failures(weights), f"nobody noticed {how}"


def test_a_commit_that_skips_its_sync_loses_acknowledged_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Commit, "_sync", _nothing)
    lost = [error for error in failures(plan.ORDINARY | {"cut": 5}) if "lost" in error]
    assert any(error.startswith("acknowledged records lost: ") for error in lost)
