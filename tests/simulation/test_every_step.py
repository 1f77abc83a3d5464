"""The power goes in every single step of a log's life, one after the other; no step may be the wrong one."""

from __future__ import annotations

from random import Random

import pytest

from headwater.testing.faulty_disk import PowerCut

from .plan import SOAK
from .world import World

LIFE = (
    "append append commit append write append finish commit roll append append commit wait append "
    "commit checkpoint retain append commit delete append commit close append commit kill append "
    "commit roll append commit"
)
COMPACTED_LIFE = (
    "append append append commit roll append append commit roll append compact append commit roll "
    "append commit compact checkpoint wait roll append append commit compact close append commit"
)
OUTCOMES = 100 if SOAK else 2
"""Of each step; the first is a kill, the others are power cuts."""


def live(world: World, life: str, seed: int) -> bool:
    """Whether the world came to its end without a power cut."""
    for number, name in enumerate(life.split()):
        try:
            getattr(world, f"do_{name}")(Random(1000 * seed + number))
        except PowerCut:
            return False
    return True


@pytest.mark.parametrize(("life", "compact"), [(LIFE, False), (COMPACTED_LIFE, True)])
@pytest.mark.parametrize("durability", ["disk", "os"])
@pytest.mark.parametrize("seed", range(20 if SOAK else 1))
def test_a_power_cut_in_any_step_loses_nothing_that_was_acknowledged(
    life: str, compact: bool, durability: str, seed: int
) -> None:
    step = 0
    over = False
    while not over:
        step += 1
        for outcome in range(OUTCOMES):
            world = World(seed, durability, compact=compact)
            world.disk.stop_after(step)
            over = live(world, life, seed)
            if over:
                break
            world.restart(Random(outcome), power=outcome % 3 != 0)
            world.do_append(Random(outcome))
            world.do_commit(Random(outcome))
            world.restart(Random(outcome), power=durability == "disk")
    assert step > 50, "a life of fifty steps at least, or this shows little"
