"""Threads for what many ask for and what may take long: nobody has all of them. Of edges and console.

Each has some of the threads at most, and what else he asks for waits in a line of his own, which ends. So
whoever asks for much holds up himself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headwater.errors import HeadwaterError

Result = TypeVar("Result")


class LineFull(HeadwaterError):
    """More of one's questions wait for a thread than may."""


class FairThreads:
    """For one event loop; `at_once` and `waiting_max`: of one who asks."""

    def __init__(self, threads: int, at_once: int, name: str, waiting_max: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._at_once, self._waiting_max = at_once, waiting_max
        self._waiting: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def run(self, who: str, function: Callable[[], Result]) -> Result:
        """Raises LineFull, and what the function raises."""
        if self._waiting[who] >= self._waiting_max:
            raise LineFull("too many of your questions wait", hint="try again in a moment")
        turn = self._turns.setdefault(who, asyncio.Semaphore(self._at_once))
        self._waiting[who] += 1
        try:
            async with turn:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, function)
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who], self._turns[who]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
