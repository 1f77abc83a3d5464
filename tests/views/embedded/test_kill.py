"""Embedded stores whose process is killed with -9 around commits: a batch is there whole, once, or not."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.testing.targets import at, rows_of, shape
from headwater.views.targets.registry import target_for
from tests.conftest import SOAK
from tests.views.embedded.writing import rows_after

KILLS = 12 if SOAK else 1
BATCHES = 4 + 3 * KILLS
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("scheme", ["duckdb", "delta", "search"])
def test_rows_and_position_agree_whenever_the_writer_is_killed(scheme: str, tmp_path: Path):
    to = f"{scheme}:{tmp_path / 'customers'}"
    seed = random.SystemRandom().getrandbits(32) if SOAK else 3
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(KILLS):
        run_until_killed(to, chance)
        target = target_for(to, shape())
        known = target.applied()
        if known is not None:
            assert known.position == at(known.batch + 1)
        assert rows_of(target) == rows_after(known.batch if known else -1)
    finish = [sys.executable, "-m", "tests.views.embedded.writing", to, str(BATCHES)]
    subprocess.run(finish, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=100)
    assert rows_of(target_for(to, shape())) == rows_after(BATCHES - 1)


def run_until_killed(to: str, chance: random.Random) -> None:
    """Killed within the third commit, at some moment."""
    command = [sys.executable, "-m", "tests.views.embedded.writing", to, str(BATCHES)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        commits = 0
        while commits < 3:
            line = process.stdout.readline()
            assert line, "the writer has ended too early"
            commits += line.startswith(b"commit")
        time.sleep(chance.uniform(0, 0.03))  # not to wait: this is the moment of the kill
        process.kill()
