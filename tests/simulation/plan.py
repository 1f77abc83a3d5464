"""Plans of what to do to a log, from a seed; and how to find the few steps that matter in one that fails.

HEADWATER_SEED=n runs only that plan; HEADWATER_SOAK=1 runs many more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import NamedTuple

import pytest

from headwater.log.partition import StorageFailed
from headwater.testing.faulty_disk import PowerCut

from .world import World

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
STEPS = 40

ORDINARY = {
    "append": 12,
    "commit": 5,
    "take": 3,
    "run": 2,
    "write": 2,
    "finish": 2,
    "roll": 1,
    "wait": 2,
    "read": 2,
}
ORDINARY |= {"retain": 2, "delete": 1, "checkpoint": 1, "retry": 1, "close": 1}
COMPACTION = ORDINARY | {"compact": 6, "roll": 4, "retain": 1}
CRASHES = {"cut": 3, "kill": 2, "stop_soon": 3}
FAILURES = {"fail_write": 2, "fail_sync": 1, "fill_disk": 1}


class Step(NamedTuple):
    """What to do, with which dice."""

    name: str
    seed: int


def make(seed: int, weights: Mapping[str, int], count: int = STEPS) -> list[Step]:
    dice = Random(seed)
    names = dice.choices(list(weights), weights=list(weights.values()), k=count)
    return [Step(name, dice.getrandbits(32)) for name in names]


def run(world: World, steps: Iterable[Step]) -> World:
    for name, seed in steps:
        dice = Random(seed)
        try:
            getattr(world, f"do_{name}")(dice)
        except PowerCut:
            world.after_power_cut(dice)
        except (OSError, StorageFailed):
            world.after_failure(name, dice)
    last = Random(0)
    world.disk.heal()
    world.restart(last, power=world.config.durability == "disk")
    return world


def check(
    first_seed: int,
    count: int,
    weights: Mapping[str, int],
    durability: str,
    *,
    compact: bool = False,
) -> None:
    """Run many plans; where one fails, say which, and the fewest steps that fail too."""
    chosen = os.environ.get("HEADWATER_SEED")
    seeds = (
        [int(chosen)]
        if chosen
        else range(first_seed, first_seed + (count * 50 if SOAK else count // 3))
    )
    for seed in seeds:
        failing = partial(failure, partial(World, seed, durability, compact=compact))
        steps = make(seed, weights)
        if failing(steps) is not None:
            fewest = shrink(steps, failing)
            story = " → ".join(f"{step.name}:{step.seed}" for step in fewest)
            pytest.fail(f"HEADWATER_SEED={seed}: {failing(fewest)!r} after {story}")


def failure(make_world: Callable[[], World], steps: Iterable[Step]) -> Exception | None:
    try:
        run(make_world(), steps)
    except Exception as error:
        return error
    return None


def shrink(steps: list[Step], failing: Callable[[list[Step]], object | None]) -> list[Step]:
    """Leave out what can be left out, large pieces first."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if failing(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps
