"""The thread for regular expressions that are too much work for the event loop.

Heartbeats of consumer groups (their authorization, too) and ListTransactions ask here. It is a thread of its
own, so that no cold read waits for an expression that a stranger sent; one look at a time, and addresses
take turns at it. What a look may cost is bounded in `headwater.regex`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headwater.fair_queue import FairQueue

T = TypeVar("T")


class ExpressionThread:
    """One look after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "headwater-expression")
        self._turns = FairQueue()

    async def run(self, address: str, look: Callable[[], Callable[[], T] | None]) -> T | None:
        """Wait for a turn, then run what `look` has found to be left to do by then. Raises Busy."""
        async with self._turns.turn(address):
            job = look()
            if job is None:
                return None
            return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
