"""The load, the same in every example: two clients that set the price of the same items.

Drawn from a seed, so that each run is the same. How the network mixes the four writes of two clients is
drawn as well; each client always writes in its own order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

SEED, ITEMS = 7, 200

Write = tuple[str, int]


def writes() -> Iterator[tuple[Write, Write]]:
    """For each item: what the one client writes and what the other writes at the same time."""
    chance = random.Random(SEED)
    for number in range(ITEMS):
        item = f"item-{number:03d}"
        yield (item, chance.randrange(100)), (item, 100 + chance.randrange(100))


def interleavings(steps: int) -> Iterator[list[int]]:
    """Endless orders of arrival: which of two clients takes its next step, `steps` each."""
    chance = random.Random(SEED)
    while True:
        order = [0] * steps + [1] * steps
        chance.shuffle(order)
        yield order
