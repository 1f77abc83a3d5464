"""Records into the log for many senders at once, each told when its own are on disk.

    stored = await appender.append("orders", [Draft(b"k", b"v")])

One idempotent producer; one thread hears the broker's answers. What is on its way is counted in bytes, and
beyond the bound a sender is told to come again (`Overloaded`), before anything of its request is taken.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaException

from headwater.browse.errors import Refused, translated
from headwater.browse.log import Log
from headwater.browse.publishing import Draft, Stored, words_of
from headwater.browse.topics import is_compacted
from headwater.edges.errors import Overloaded
from headwater.errors import HeadwaterError

LINGER_MS = 1
MESSAGE_BYTES_MAX = 256 * 1024**2
RETRY_AFTER_S = 1.0
TOPICS_KNOWN_S = 5.0
_POLL_S = 0.1
_KEYS = "give every record a key: its last one is what a compacted topic keeps"
_CLOSE_S = 10.0


class Appender:
    """For one event loop; `start` it there."""

    def __init__(self, log: Log, waiting_bytes: int) -> None:
        self._log = log
        self._bound = waiting_bytes
        self._waiting = 0
        self._known: dict[str, tuple[float, bool]] = {}
        self._producer = log.new_producer(
            linger_ms=LINGER_MS,
            compression_type="lz4",
            message_max_bytes=MESSAGE_BYTES_MAX,  # the topic's own limit decides
            queue_buffering_max_messages=1_000_000,
            queue_buffering_max_kbytes=max(1024, 2 * waiting_bytes // 1024),
        )
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="appender", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Once everything that was taken is stored, or ten seconds are over."""
        await asyncio.to_thread(self._producer.flush, _CLOSE_S)
        self._closed.set()
        await asyncio.to_thread(self._thread.join)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting

    def check_room(self, size: int) -> None:
        """Raises Overloaded; a request larger than the bound is taken when nothing else waits."""
        if self._waiting and self._waiting + size > self._bound:
            raise Overloaded("the log does not keep up with what is sent to it", RETRY_AFTER_S)

    async def append(self, topic: str, drafts: Sequence[Draft]) -> list[Stored]:
        """Where they are, in the order given; on disk when this returns.

        Where some were refused, the first refusal is raised: the others may be stored.
        """
        if not drafts:
            return []
        if await self.needs_keys(topic) and any(draft.key is None for draft in drafts):
            # Before the broker sees it: it would refuse the records of others in the same batch as well.
            raise Refused(f"{topic} is compacted, and a record has no key", hint=_KEYS)
        size = sum(_size(draft) for draft in drafts)
        self.check_room(size)
        self._waiting += size
        try:
            return await self._sent(topic, drafts)
        finally:
            self._waiting -= size

    async def needs_keys(self, topic: str) -> bool:
        """Raises NotThere: librdkafka would create a topic, or wait for one, that is only misspelt."""
        now = asyncio.get_running_loop().time()
        until, compacted = self._known.get(topic, (0.0, False))
        if until < now:
            await asyncio.to_thread(self._log.partitions, topic)
            compacted = await asyncio.to_thread(is_compacted, self._log, topic)
            self._known[topic] = (now + TOPICS_KNOWN_S, compacted)
        return compacted

    async def _sent(self, topic: str, drafts: Sequence[Draft]) -> list[Stored]:
        assert self._loop is not None, "start() comes first"
        batch = _Batch(len(drafts), self._loop)
        headerless = all(not draft.headers for draft in drafts) and len(drafts) > 1
        taken = self._produce_batch if headerless else self._produce_each
        taken(topic, drafts, batch)
        try:
            error = await batch.done
        finally:
            batch.is_left = True
        if error is not None:
            raise self._told(error, topic)
        return [Stored(*place) for place in batch.places]

    def _produce_each(self, topic: str, drafts: Sequence[Draft], batch: _Batch) -> None:
        for number, draft in enumerate(drafts):
            heard = partial(batch.heard, number)
            try:
                self._producer.produce(topic, on_delivery=heard, **words_of(draft))
            except (KafkaException, BufferError) as failure:
                batch.heard(number, failure, None)

    def _produce_batch(self, topic: str, drafts: Sequence[Draft], batch: _Batch) -> None:
        """One call for all: a fifth of the time per record."""
        messages: list[dict[str, Any]] = [
            {**words_of(draft), "callback": partial(batch.heard, number)}
            for number, draft in enumerate(drafts)
        ]
        try:
            self._producer.produce_batch(topic, messages)
        except (KafkaException, BufferError) as failure:
            for message in messages:
                message["callback"](failure, None)
            return
        for message in messages:
            if "_error" in message:
                message["callback"](message["_error"], None)

    def _told(self, error: Any, topic: str) -> HeadwaterError:
        what = f"appending to {topic}"
        if isinstance(error, BufferError):
            return Overloaded("the log does not keep up with what is sent to it", RETRY_AFTER_S)
        if isinstance(error, KafkaException):
            error = error.args[0]
        return translated(error, what, self._log.bootstrap)

    def _hear(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(_POLL_S)


class _Batch:
    """The records of one request. Heard in the appender's thread; nobody else touches it meanwhile."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self.places: list[tuple[int, int]] = [(-1, -1)] * count
        self.done: asyncio.Future[Any] = loop.create_future()
        self.is_left = False
        self._open = count
        self._error: Any = None
        self._loop = loop
        self._lock = threading.Lock()

    def heard(self, number: int, error: Any, message: Any) -> None:
        with self._lock:
            if error is not None:
                self._error = self._error or error
            else:
                self.places[number] = (message.partition(), message.offset())
            self._open -= 1
            if self._open:
                return
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(self._error)


def _size(draft: Draft) -> int:
    return len(draft.key or b"") + len(draft.value or b"") + 64
