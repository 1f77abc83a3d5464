"""Threads for what strangers ask for and what may take long: none of them has all.

Called by handlers whose work is bounded but slow: questions to the log, pages of topics, rows of views, large
bodies, the registry. Each sender has some of the threads at most, and what else it asks for waits in a line
of its own, so whoever asks for much holds up himself. Not the loop's own threads (`asyncio.to_thread`): what
watches, the keys of an issuer and the end of the process wait for those, and nothing of a request may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwater.edges.caller import SENDER
from headwater.edges.errors import Overloaded
from headwater.project.fair_threads import FairThreads, LineFull

WAITING_MAX = 2000
"""Requests of one sender that wait for a thread, or have one."""
LARGE_BYTES = 256 * 1024
"""From here on a body is taken apart in a thread, so that others are served meanwhile."""
ASKING, ASKING_AT_ONCE = 16, 4
PARSING, PARSING_AT_ONCE = 3, 2
"""Of CPU alone, which is one thread's at a time: the second has what it waits for."""
Result = TypeVar("Result")


class Workers:
    """For one event loop; `at_once`: of one sender."""

    def __init__(
        self, threads: int, at_once: int, name: str, waiting_max: int = WAITING_MAX
    ) -> None:
        self._threads = FairThreads(threads, at_once, name, waiting_max)

    async def run(self, function: Callable[[], Result]) -> Result:
        """For whoever asks (`SENDER`). Raises Overloaded."""
        try:
            return await self._threads.run(SENDER.get(), function)
        except LineFull:
            raise Overloaded("too many requests of one sender wait", 1.0) from None

    def close(self) -> None:
        self._threads.close()


class Parsers(Workers):
    """What is done with the bytes of a body: at once where they are few, in a thread where they are many."""

    def __init__(self) -> None:
        super().__init__(PARSING, PARSING_AT_ONCE, "bodies")

    async def parsed(self, size: int, function: Callable[[], Result]) -> Result:
        return function() if size < LARGE_BYTES else await self.run(function)


def asking() -> Workers:
    """For questions to the log, and to a registry, that a request waits for."""
    return Workers(ASKING, ASKING_AT_ONCE, "asking")
