"""How much is done in one turn of the broker's event loop: counted, because time says little of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.broker.serving import Serving


def most_in_a_turn(
    broker: Serving, done: Callable[[], int], begin: Callable[[], object], many: int
) -> int:
    """How much of so many things was done in any one turn, at the most; returns when all are done."""

    async def watched() -> int:
        before, most = done(), 0
        begin()
        while before < many:
            most = max(most, done() - before)
            before = done()
            await asyncio.sleep(0)
        return most

    return broker.run(watched())
