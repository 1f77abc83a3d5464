"""Records into the log once, however often they are sent: each request under a key of its sender's.

    spans, is_new = await once.append("orders", "shop|order-17", drafts, digest=…)

Called by the HTTP interface, hooks and bridges. Requests wait in a bounded queue for one thread, which takes
all that wait as a group and writes it (`once_writer`) in one transaction. Nothing is connected, and no topic
made, before the first request.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial

from headwater.client.errors import BrokerUnreachable, RequestRefused
from headwater.client.log import Log
from headwater.client.publisher import Draft
from headwater.edges.errors import Overloaded
from headwater.edges.once_index import Remembered
from headwater.edges.once_writer import HINT, Appended, Outcome, Request, Writer

WINDOW_S = 24 * 3600
KEYS_MOST = 1_000_000
KEY_BYTES_MAX = 1024
RECORD_BYTES_MAX = 1_000_000
"""librdkafka takes no larger record; one would end a transaction of others."""
WAITING_BYTES_MAX = 64 * 1024**2
GROUP_BYTES_MAX = 8 * 1024**2
GROUP_RECORDS_MAX = 50_000
RETRY_AFTER_S = 1.0

__all__ = ["Appended", "Once"]
_log = logging.getLogger("headwater.edges")


class Once:
    """For one event loop. Close it, or what waits is not told of its end."""

    def __init__(
        self, log: Log, name: str, *, window_s: float = WINDOW_S, keys_most: int = KEYS_MOST
    ) -> None:
        self._log = log
        self._writer = Writer(log, name, Remembered(int(window_s * 1000), keys_most))
        self._waiting: deque[tuple[Request, asyncio.Future[Appended]]] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="once", daemon=True)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """After what waits."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    async def append(
        self, topic: str, key: str, drafts: Sequence[Draft], *, digest: str = ""
    ) -> Appended:
        """Committed when this returns. `key` holds the scope within which it is unique. Those that wait at
        the same time are written in the order in which they came.

        With a `digest` of what was sent, another one under the same key is Invalid. Raises Overloaded,
        NotThere, RequestRefused, BrokerUnreachable; after the last the outcome is not known, and the same
        call again is right in either case.
        """
        name = key.encode("utf-8", "surrogateescape")
        if not 0 < len(name) <= KEY_BYTES_MAX:
            raise RequestRefused(f"an idempotency key has 1 to {KEY_BYTES_MAX} bytes")
        size = sum(map(_checked_size, drafts))
        if self._waiting_bytes and self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise Overloaded("the log does not keep up with what is sent to it", RETRY_AFTER_S)
        assert self._loop is not None, "start() comes first"
        future: asyncio.Future[Appended] = self._loop.create_future()
        with self._changed:
            if self._closed:
                raise BrokerUnreachable("the edges are being stopped", hint=HINT)
            self._waiting.append((Request(topic, name, digest, drafts, size), future))
            self._waiting_bytes += size
            self._changed.notify()
        return await future

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while group := self._next_group():
            try:
                outcomes = self._writer.write([request for request, _ in group])
            except Exception as error:
                _log.exception("appending once failed")
                self._writer.leave()
                said = BrokerUnreachable(f"appending once failed: {error}", hint=HINT)
                outcomes = [said] * len(group)
            for (request, future), outcome in zip(group, outcomes, strict=True):
                self._end(request, future, outcome)

    def _next_group(self) -> list[tuple[Request, asyncio.Future[Appended]]]:
        """Those that wait, up to a bound, each key once; nothing at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            group: dict[bytes, tuple[Request, asyncio.Future[Appended]]] = {}
            size = records = 0
            while self._waiting and (first := self._waiting[0][0]).key not in group:
                size, records = size + first.size, records + len(first.drafts)
                if group and (size > GROUP_BYTES_MAX or records > GROUP_RECORDS_MAX):
                    break
                group[first.key] = self._waiting.popleft()
            return list(group.values())

    def _end(self, request: Request, future: asyncio.Future[Appended], outcome: Outcome) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(partial(_tell, future, outcome))
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
        with self._changed:
            self._waiting_bytes -= request.size


def _tell(future: asyncio.Future[Appended], outcome: Outcome) -> None:
    if future.done():
        return  # its caller has given up
    if isinstance(outcome, Appended):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)


def _checked_size(draft: Draft) -> int:
    own = len(draft.key or b"") + len(draft.value or b"")
    size = own + sum(len(name) + len(value or b"") for name, value in draft.headers) + 64
    if size > RECORD_BYTES_MAX:
        raise RequestRefused(
            f"a record of {own} bytes is too large", hint=f"the most is {RECORD_BYTES_MAX} bytes"
        )
    return size
