"""The disk threads: blocking work goes out, results come back to the event loop.

`Partition` sends its commits here. Like a thread pool, but made for many short jobs: a job is a pair
of plain functions, and those that come in one turn of the event loop travel together, there and back:
waking a thread costs more than many a job. Jobs of one caller may run side by side; whoever needs an
order sends the next job when the last one is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

from headwater.broker.supervisor import Supervisor
from headwater.log.store import LogStore

T = TypeVar("T")
Job = Callable[[], None]
Finished = Callable[[BaseException | None], None]

OPENERS = 8
"""So many threads open the partitions at start, and close them at a stop."""
TURN_S = 0.005
"""For so long results are delivered, or waiters told, in one turn of the event loop; then others have
theirs."""


class DiskThreads:
    """A few threads that wait for work."""

    def __init__(self, count: int, supervisor: Supervisor) -> None:
        self._loop = asyncio.get_running_loop()
        self.supervisor = supervisor
        self.write_failed: Finished = lambda error: None
        """Told of every write that failed, in the event loop."""
        self._submitted: list[tuple[Job, Finished]] = []
        self._batches: SimpleQueue[list[tuple[Job, Finished]] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"headwater-disk-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, finished: Finished) -> None:
        """Run `job` in a thread, then `finished` with its exception (or None) in the event loop."""
        if not self._submitted:
            self.supervisor.soon("disk", self._send)
        self._submitted.append((job, finished))

    def _send(self) -> None:
        """Hand out what this turn of the event loop has brought, a share to each thread."""
        submitted, self._submitted = self._submitted, []
        share = -(-len(submitted) // len(self._threads))
        for first in range(0, len(submitted), share):
            self._batches.put(submitted[first : first + share])

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            results = [(finished, _outcome(job)) for job, finished in batch]
            self._loop.call_soon_threadsafe(self._deliver, deque(results))

    def _deliver(self, results: deque[tuple[Finished, BaseException | None]]) -> None:
        """Each for itself: what one makes of its result must not keep the others from theirs."""
        until = self.supervisor.monotonic() + TURN_S
        while results:
            finished, error = results.popleft()
            self.supervisor.call("disk", finished, error)
            if results and self.supervisor.monotonic() > until:
                self.supervisor.soon("disk", self._deliver, results)
                return

    def stop(self) -> None:
        """End the threads once the work that was sent is done."""
        if self._submitted:
            self._send()
        for _ in self._threads:
            self._batches.put(None)
        for thread in self._threads:
            thread.join()


async def side_by_side(function: Callable[[int], T], count: int) -> list[T]:
    """What `function` makes of 0, 1, …, each in a thread of its own: for work that mostly waits for the disk.
    All of it comes to its end, then the first error is raised."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(count, "headwater-disk") as threads:
        work = [loop.run_in_executor(threads, function, number) for number in range(count)]
        await asyncio.gather(*work, return_exceptions=True)
    return [each.result() for each in work]


def closed(store: LogStore) -> bool:
    """At a stop: whether all of it was (disk work). Many logs wait for the disk side by side."""
    with ThreadPoolExecutor(OPENERS, "headwater-disk") as threads:
        return store.close(threads.map)


def _outcome(job: Job) -> BaseException | None:
    try:
        job()
    except BaseException as error:
        return error
    return None
