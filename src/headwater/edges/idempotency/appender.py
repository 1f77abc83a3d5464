"""Records into the log once, however often they are sent: each request under a key of its sender's.

    spans, is_new = await once.append("orders", "shop|order-17", drafts, digest=…)

Called by the HTTP interface, hooks and bridges. Requests wait for one thread, each in the line of its
sender, which ends. The thread takes a group of those that wait, senders in turn (`requests`), and writes it
(`writer`) in one transaction. Of whoever gives up before its turn nothing is written. Nothing is connected,
and no topic made, before the first request.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from functools import partial

from headwater.client.errors import BrokerUnreachable, NotThere, RequestRefused
from headwater.client.log import Log
from headwater.client.publisher import Draft
from headwater.edges.caller import SENDER
from headwater.edges.errors import TooLarge
from headwater.edges.idempotency.index import KeyIndex
from headwater.edges.idempotency.requests import Appended, Outcome, Queue, Request, Waiting
from headwater.edges.idempotency.writer import HINT, Writer
from headwater.edges.memory_share import MemoryShare
from headwater.edges.topics import TOO_LARGE, Topic, Topics, too_large
from headwater.errors import HeadwaterError

WINDOW_S = 24 * 3600
KEYS_MOST = 1_000_000
KEY_BYTES_MAX = 1024
RECORD_BYTES_MAX = 1_000_000
"""librdkafka takes no larger record; one would end a transaction of others."""
WAITING_BYTES_MAX = 64 * 1024**2
BATCHES_MAX = 1_000
"""Of one request, where a topic takes little at once: each is waited for, and others wait meanwhile."""

__all__ = ["Appended", "Once"]
_log = logging.getLogger("headwater.edges")


class Once:
    """For one event loop. Close it, or what waits is not told of its end."""

    def __init__(
        self,
        log: Log,
        name: str,
        topics: Topics,
    ) -> None:
        self._topics = topics
        self._writer = Writer(log, name, KeyIndex(int(WINDOW_S * 1000), KEYS_MOST))
        self._waiting = Queue()
        self._held = MemoryShare(
            WAITING_BYTES_MAX, "the log does not keep up with what is sent to it"
        )
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
        the same time are written in the order in which they came, as far as they are of one sender.

        With a `digest` of what was sent, another one under the same key is Invalid. Raises Overloaded,
        NotThere, RequestRefused, BrokerUnreachable; after the last the outcome is not known, and the same
        call again is right in either case.
        """
        name = key.encode("utf-8", "surrogateescape")
        if not 0 < len(name) <= KEY_BYTES_MAX:
            raise RequestRefused(f"an idempotency key has 1 to {KEY_BYTES_MAX} bytes")
        size = sum(map(_checked_size, drafts))
        largest = max((draft.batch_bytes for draft in drafts), default=0)
        limit: int | None = None
        while True:
            known = await self._topics.find(topic)
            _check(topic, known, drafts)
            limit = min(known.batch_bytes_max, limit or known.batch_bytes_max)
            request = Request(topic, name, digest, drafts, size, known.partitions, limit)
            if request.batches > BATCHES_MAX:
                raise TooLarge(
                    f"{size} bytes are more than {BATCHES_MAX} times what {topic} takes at once, {limit}",
                    hint="send fewer records under one key, or raise the topic's max.message.bytes",
                )
            try:
                # What may be refused goes alone at once, and aborts nobody else's.
                return await self._written(request, 1 if largest > request.room else 0)
            except NotThere:
                self._topics.forget(topic)
                raise
            except RequestRefused as error:
                if error.code not in TOO_LARGE:
                    raise
                if largest > request.room:
                    raise too_large(topic, known.batch_bytes_max) from None
            # It takes less than it did: what is small enough by itself goes in smaller batches.
            self._topics.forget(topic)
            limit //= 2

    async def _written(self, request: Request, most: int) -> Appended:
        """When it was its turn."""
        assert self._loop is not None, "start() comes first"
        waiting = Waiting(request, self._loop.create_future(), SENDER.get(), most)
        self._held.take(request.size)
        try:
            with self._changed:
                if self._closed:
                    raise BrokerUnreachable("the edges are being stopped", hint=HINT)
                self._waiting.put(waiting)
                self._changed.notify()
            return await waiting.future
        finally:
            self._held.give(request.size)
            with self._changed:
                self._waiting.discard(waiting)

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while group := self._next_group():
            try:
                outcomes: list[Outcome] = self._writer.write([each.request for each in group])
            except Exception as error:
                _log.exception("appending once failed")
                self._writer.leave()
                said = BrokerUnreachable(f"appending once failed: {error}", hint=HINT)
                outcomes = [said] * len(group)
            again = []
            for each, outcome in zip(group, outcomes, strict=True):
                if outcome is None:
                    again.append(each)
                else:
                    self._end(each.future, outcome)
            with self._changed:
                self._waiting.put_back(again)

    def _next_group(self) -> list[Waiting]:
        """Nothing at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            return self._waiting.next_group()

    def _end(self, future: asyncio.Future[Appended], outcome: Appended | HeadwaterError) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(partial(_tell, future, outcome))
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more


def _tell(future: asyncio.Future[Appended], outcome: Appended | HeadwaterError) -> None:
    if future.done():
        return  # its caller has given up
    if isinstance(outcome, Appended):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)


def _check(topic: str, known: Topic, drafts: Sequence[Draft]) -> None:
    """Raises RequestRefused for what the broker would refuse, and with it the records of others."""
    now_ms = time.time_ns() // 1_000_000
    for draft in drafts:
        if (error := known.refusal(topic, draft, now_ms)) is not None:
            raise error


def _checked_size(draft: Draft) -> int:
    size = draft.batch_bytes
    if size > RECORD_BYTES_MAX:
        own = len(draft.key or b"") + len(draft.value or b"")
        raise RequestRefused(
            f"a record of {own} bytes is too large", hint=f"the most is {RECORD_BYTES_MAX} bytes"
        )
    return size
