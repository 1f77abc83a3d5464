"""Many values at once into the log, as record batches that are made here: several times the rate of a client
that is handed each record, at a fifth of its CPU.

    spans = await bulk.append("orders", values)

Called by `appender` for what has neither keys nor headers. The values of one call go to one partition, in
their order. One thread sends (`bulk_sender`) a batch of each call, round by round. Between two rounds those
that wait come in, senders in turn, up to a bound; a call whose topic takes nothing now waits beside them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headwater.client.errors import BrokerUnreachable
from headwater.client.log import Log
from headwater.edges.bulk_call import Call
from headwater.edges.bulk_sender import Sending
from headwater.edges.caller import SENDER
from headwater.edges.idempotency.index import Span
from headwater.edges.turns import Turns

GROUP_BYTES_MAX = 16 * 1024**2
"""Of the calls that are under way together, but for those whose topics take nothing now."""
BATCH_BYTES_MAX = 1024**2
"""What topics take at once, unless told."""
_log = logging.getLogger("headwater.edges")


@dataclass(eq=False)
class _Waiting:
    call: Call
    future: asyncio.Future[tuple[Span, ...]]


class Bulk:
    """A producer of whole batches, for one event loop. `close` it."""

    def __init__(self, log: Log) -> None:
        self._sending = Sending(log)
        self._waiting: Turns[_Waiting] = Turns()
        self._going: list[_Waiting] = []
        self._came = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        # Not the loop's own threads: these may all be waiting for somebody else.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bulk")

    async def append(
        self, topic: str, values: Sequence[bytes], batch_bytes_max: int = BATCH_BYTES_MAX
    ) -> tuple[Span, ...]:
        """On disk when this returns. Raises NotThere, RequestRefused, Overloaded, and BrokerUnreachable
        (stored or not). `batch_bytes_max`: what the topic takes at once, as far as is known."""
        future: asyncio.Future[tuple[Span, ...]] = asyncio.get_running_loop().create_future()
        waiting, sender = _Waiting(Call(topic, values, batch_bytes_max), future), SENDER.get()
        self._waiting.put(sender, waiting)
        self._came.set()
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        try:
            return await future
        finally:
            self._waiting.discard(
                sender, waiting
            )  # of who gives up before its turn, nothing is sent

    async def close(self) -> None:
        """After what waits."""
        if self._running is not None:
            await self._running
        self._thread.shutdown(wait=False)
        self._sending.close()

    async def _run(self) -> None:
        """As long as somebody waits."""
        while self._waiting or self._going:
            self._take()
            await self._round()
            for each in self._going:
                if each.call.is_over:
                    _tell(each.call, each.future)
            self._going = [each for each in self._going if not each.call.is_over]
            await self._pause()
        self._running = None

    async def _round(self) -> None:
        calls = [each.call for each in self._going]
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._sending.send_next, calls)
        except Exception as error:
            _log.exception("sending in bulk failed")
            self._sending.fail(calls, BrokerUnreachable(f"sending in bulk failed: {error}"))

    def _take(self) -> None:
        """Of those that wait, as many as there is room for, one of each in turn."""
        size = sum(call.size for call in _ready([each.call for each in self._going]))
        while self._waiting and size < GROUP_BYTES_MAX:
            taken = self._waiting.take(self._waiting.senders()[0])
            self._going.append(taken)
            size += taken.call.size

    async def _pause(self) -> None:
        """Where nothing can be sent now: until it can, or somebody comes."""
        calls = [each.call for each in self._going]
        if self._waiting or not calls or _ready(calls):
            return
        self._came.clear()
        again_at = min(call.again_at for call in calls if call.is_halted)
        try:
            async with asyncio.timeout(max(0.0, again_at - time.monotonic())):
                await self._came.wait()
        except TimeoutError:
            pass


def _ready(calls: Sequence[Call]) -> list[Call]:
    """Those that neither wait for their topic nor behind another that does."""
    halted = {call.place for call in calls if call.is_halted and call.is_placed}
    return [call for call in calls if not call.is_halted and call.place not in halted]


def _tell(call: Call, future: asyncio.Future[tuple[Span, ...]]) -> None:
    if future.done():
        return  # its caller has given up
    if call.error is not None:
        future.set_exception(call.error)
    else:
        future.set_result(call.spans())
