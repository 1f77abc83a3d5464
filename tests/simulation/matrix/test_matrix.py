"""Every operation of the broker meets every fault of its disk; what was acknowledged is there afterwards.

Some hundreds of runs, ten thousand with HEADWATER_SOAK=1. HEADWATER_SEED=n runs only that seed,
HEADWATER_STEP=n only that step.
"""

from __future__ import annotations

import os

import pytest

from ..plan import SOAK
from .faults import FAULTS
from .operations import OPERATIONS
from .run import Run, steps_of

SEEDS = 60 if SOAK else 1
STRIDE = 1 if SOAK else 24
pytestmark = [
    pytest.mark.timeout(3600 if SOAK else 900),  # a cell of the soak is sixty runs
    # A process that is killed leaves work behind that it had not begun.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]
CELLS = [f"{operation}-{fault}" for operation in OPERATIONS for fault in FAULTS]


def seeds(cell: str) -> range | list[int]:
    """Others for each cell, so that few have the same history."""
    chosen = os.environ.get("HEADWATER_SEED")
    first = CELLS.index(cell) * 100
    return [int(chosen)] if chosen else range(first, first + SEEDS)


@pytest.mark.parametrize(
    ("operation", "fault"),
    [(operation, fault) for operation in OPERATIONS for fault in FAULTS],
    ids=CELLS,
)
def test_nothing_acknowledged_is_lost(operation: str, fault: str) -> None:
    for seed in seeds(f"{operation}-{fault}"):
        Run(operation, fault, seed)()


def test_a_transaction_of_which_a_power_cut_has_left_only_the_end_may_win_in_a_compaction() -> None:
    """With durability=os: what a client was told of it is worth nothing then, and what is on disk counts."""
    Run("compaction", "eio-on-read", 305841164)()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fault", ["kill", "torn"])
def test_nothing_acknowledged_is_lost_in_any_step(operation: str, fault: str) -> None:
    chosen = os.environ.get("HEADWATER_STEP")
    seed = int(os.environ.get("HEADWATER_SEED", list(OPERATIONS).index(operation)))
    steps = [int(chosen)] if chosen else range(1, steps_of(operation, seed) + 1, STRIDE)
    for step in steps:
        Run(operation, fault, seed, at=step)()
