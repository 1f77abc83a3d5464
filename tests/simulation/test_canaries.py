"""A harness that finds nothing proves nothing: here the log is broken on purpose, and it must be seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from headwater.log import recovery
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


BROKEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "commits that do not sync": lambda m: m.setattr(Commit, "_sync", _nothing),
    "directories that are not synced": lambda m: m.setattr(FaultyDisk, "sync_dir", _nothing),
    "a recovery that cuts nothing": lambda m: m.setattr(Segment, "truncate", _nothing),
    "a recovery that believes the cache": lambda m: m.setattr(recovery, "_write_again", _nothing),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_log_that_is_broken_on_purpose_is_found_out(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = plan.ORDINARY | plan.CRASHES | plan.FAILURES
    assert not failures(weights)
    BROKEN[how](monkeypatch)
    assert failures(weights), f"nobody noticed {how}"


def test_a_commit_that_skips_its_sync_loses_acknowledged_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Commit, "_sync", _nothing)
    lost = [error for error in failures(plan.ORDINARY | {"cut": 5}) if "lost" in error]
    assert any(error.startswith("acknowledged records lost: ") for error in lost)
