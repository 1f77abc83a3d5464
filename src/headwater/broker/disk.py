"""The disk threads: blocking work goes out, results come back to the event loop.

`Partition` sends its commits here. Like a thread pool, but made for many short jobs: a job is a pair
of plain functions, and however many finish at once, the event loop is woken once. Jobs of one caller
may run side by side; whoever needs an order sends the next job when the last one is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]
Finished = Callable[[BaseException | None], None]


class DiskThreads:
    """A few threads that wait for work."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job, Finished] | None] = SimpleQueue()
        self._finished: deque[tuple[Finished, BaseException | None]] = deque()
        self._waking = False
        self._threads = [
            threading.Thread(target=self._work, name=f"headwater-disk-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, finished: Finished) -> None:
        """Run `job` in a thread, then `finished` with its exception (or None) in the event loop."""
        self._jobs.put((job, finished))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, finished = item
            error: BaseException | None = None
            try:
                job()
            except BaseException as raised:
                error = raised
            self._finished.append((finished, error))
            if not self._waking:
                self._waking = True
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Cleared first: whatever is appended from here on is either seen below or wakes us again.
        self._waking = False
        while self._finished:
            finished, error = self._finished.popleft()
            finished(error)

    def stop(self) -> None:
        """End the threads once the work that was sent is done."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
