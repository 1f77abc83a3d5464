"""Many values at once into the log, as record batches that are made here: several times the rate of a client
that is handed each record, at a fifth of its CPU.

    spans = await bulk.append("orders", values)

Called by `appender` for what has neither keys nor headers. The values of one call go to one partition, in
their order. Calls wait for one thread at a time, which takes all that wait and sends them (`bulk_sender`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from headwater.client.errors import BrokerUnreachable
from headwater.client.log import Log
from headwater.edges.bulk_sender import Call, Sending
from headwater.edges.once_index import Span

GROUP_BYTES_MAX = 16 * 1024**2
"""Of the calls that are taken together."""
_log = logging.getLogger("headwater.edges")


class Bulk:
    """A producer of whole batches, for one event loop. `close` it."""

    def __init__(self, log: Log) -> None:
        self._sending = Sending(log)
        self._waiting: deque[tuple[Call, asyncio.Future[tuple[Span, ...]]]] = deque()
        self._running: asyncio.Task[None] | None = None
        # Not the loop's own threads: these may all be waiting for somebody else.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bulk")

    async def append(self, topic: str, values: Sequence[bytes]) -> tuple[Span, ...]:
        """On disk when this returns. Raises NotThere, RequestRefused, BrokerUnreachable (stored or not)."""
        future: asyncio.Future[tuple[Span, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((Call(topic, values), future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """After what waits."""
        if self._running is not None:
            await self._running
        self._thread.shutdown(wait=False)
        self._sending.close()

    async def _run(self) -> None:
        """As long as somebody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            group: list[tuple[Call, asyncio.Future[tuple[Span, ...]]]] = []
            size = 0
            while self._waiting and (not group or size < GROUP_BYTES_MAX):
                group.append(self._waiting.popleft())
                size += sum(map(len, group[-1][0].values))
            calls = [call for call, _ in group]
            try:
                await loop.run_in_executor(self._thread, self._sending.send, calls)
            except Exception as error:
                _log.exception("sending in bulk failed")
                self._sending.fail(calls, BrokerUnreachable(f"sending in bulk failed: {error}"))
            for call, future in group:
                _tell(call, future)
        self._running = None


def _tell(call: Call, future: asyncio.Future[tuple[Span, ...]]) -> None:
    if future.done():
        return  # its caller has given up
    if call.error is not None:
        future.set_exception(call.error)
    else:
        future.set_result(call.spans())
