"""A topic of one partition, followed from some offset on: what it says is handed to the event loop, in order.

Called by `directory` and `history`, whose state is a view of their topics. The topic is made where it is not
there. While the broker is away it is waited for. A view that is run again starts over; so it must be where
somebody has deleted the topic, which is noticed within `LOOK_S`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from headwater.client import ranges, topics
from headwater.client.errors import BrokerUnreachable, NotThere
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.records import Cursor, Record
from headwater.client.tail import follow
from headwater.edges.errors import Overloaded

Take = Callable[[list[Record]], None]
AGAIN_S = 2.0
LOOK_S = 5.0
"""How soon it is noticed that the topic is gone: librdkafka goes on asking, in silence."""


class TopicView:
    """`back`: so many of the newest records are read at the start; None: all."""

    def __init__(
        self, log: Log, topic: str, configs: Mapping[str, str], take: Take, back: int | None = None
    ) -> None:
        self._log, self._topic, self._configs = log, topic, configs
        self._take, self._back = take, back
        self._through = -1
        """The next offset; what is before it was taken."""
        self._moved = asyncio.Condition()
        self.is_current = False
        """Whether all was read that was there at the start."""

    async def run(self) -> None:
        """Until it is cancelled; raises what the reading raised."""
        self._through, self.is_current = -1, False
        stopped = threading.Event()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix=self._topic) as threads:
            reading = loop.run_in_executor(threads, self._read, stopped, loop)
            try:
                await asyncio.shield(reading)
            finally:
                stopped.set()
                await asyncio.gather(reading, return_exceptions=True)

    async def reached(self, offset: int) -> None:
        """Until the record there was taken. Raises Overloaded."""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._moved:
                await self._moved.wait_for(lambda: self._through > offset)
        except TimeoutError:
            raise Overloaded(f"{self._topic} is not read to its end yet", AGAIN_S) from None

    async def current(self) -> None:
        """Until all was read that was there at the start. Raises Overloaded."""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._moved:
                await self._moved.wait_for(lambda: self.is_current)
        except TimeoutError:
            raise Overloaded(f"{self._topic} is not read to its end yet", AGAIN_S) from None

    def _read(self, stopped: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread."""
        topics.ensure(self._log, self._topic, 1, **self._configs)
        first, end = self._log.ranges(self._topic)[0]
        at = first if self._back is None else max(first, end - self._back)

        def tell(records: list[Record], current: bool) -> None:
            asyncio.run_coroutine_threadsafe(self._took(records, at, current), loop).result()

        # To the end that is there: silence is none, the broker may be slow.
        for records in ranges.read(self._log, self._topic, {0: (at, end)}):
            if stopped.is_set():
                return
            at = records[-1].offset + 1 if records else at
            tell(records, False)
        at = end
        tell([], True)
        looked = time.monotonic()
        for records in follow(self._log, self._topic, Cursor({0: end}), partitions_fixed=True):
            if stopped.is_set():
                return
            at = records[-1].offset + 1 if records else at
            tell(records, True)
            if time.monotonic() - looked > LOOK_S:
                self._check(at)
                looked = time.monotonic()

    def _check(self, at: int) -> None:
        """Raises NotThere where the topic is gone, or is another by now."""
        with suppress(BrokerUnreachable):
            if self._log.ranges(self._topic)[0][1] < at:
                raise NotThere(f"the topic {self._topic} was recreated")

    async def _took(self, records: list[Record], at: int, current: bool) -> None:
        began = current and not self.is_current
        self.is_current = current
        if records or began:
            self._take(records)
        if at != self._through or began:
            async with self._moved:
                self._through = at
                self._moved.notify_all()
