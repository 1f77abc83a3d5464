"""Records into the log for many senders at once, each told when its own are on disk.

    stored = await appender.append("orders", [Draft(b"k", b"v")])

One idempotent producer; one thread hears the broker's answers. What is on its way is counted in bytes, and
beyond the bound a sender is told to come again (`Overloaded`), before anything of its request is taken.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.client.errors import RequestRefused, translated
from headwater.client.librdkafka import KafkaException
from headwater.client.log import Log
from headwater.client.publisher import Draft, Stored, words_of
from headwater.client.topics import is_compacted
from headwater.edges.errors import Overloaded
from headwater.edges.once_index import Span
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.edges.bulk import Bulk

BULK_RECORDS_MIN = 50
"""From here on values without keys go as whole batches."""
LINGER_MS = 1
MESSAGE_BYTES_MAX = 256 * 1024**2
RETRY_AFTER_S = 1.0
TOPICS_KNOWN_S = 5.0
_logger = logging.getLogger("headwater.edges")
_POLL_S = 0.1
_KEYS = "give every record a key: its last one is what a compacted topic keeps"
_CLOSE_S = 10.0


class Appender:
    """For one event loop; `start` it there."""

    def __init__(self, log: Log, waiting_bytes: int) -> None:
        self._log = log
        self._bound = waiting_bytes
        self._waiting = 0
        self._known: dict[str, _Topic] = {}
        self._looks: dict[str, asyncio.Task[_Topic]] = {}
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
        self._bulk = _bulk(log)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Once everything that was taken is stored, or ten seconds are over."""
        if self._bulk is not None:
            await self._bulk.close()
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
        stored = []
        for each in await self.append_each(topic, drafts):
            if isinstance(each, HeadwaterError):
                raise each
            stored.append(each)
        return stored

    async def append_each(
        self, topic: str, drafts: Sequence[Draft]
    ) -> list[Stored | HeadwaterError]:
        """The same, with what became of each: where it is, or why it was refused."""
        if not drafts:
            return []
        if await self.needs_keys(topic) and any(draft.key is None for draft in drafts):
            raise _no_key(topic)
        size = sum(_size(draft) for draft in drafts)
        self.check_room(size)
        batch = _Batch(len(drafts), self._loop)
        self._waiting += size
        try:
            for number, draft in enumerate(drafts):
                heard = partial(batch.heard, number)
                try:
                    self._producer.produce(topic, on_delivery=heard, **words_of(draft))
                except (KafkaException, BufferError) as failure:
                    heard(failure, None)
            await batch.done
        finally:
            self._waiting -= size
        return [self._told(each, topic) for each in batch.outcomes]

    async def append_values(
        self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None] | None = None
    ) -> tuple[Span, ...]:
        """Many at once, without headers: half the time per record. Without keys, all go to one partition.

        Where some were refused, the first refusal is raised: the others may be stored.
        """
        if not values:
            return ()
        needs_keys = await self.needs_keys(topic)
        if needs_keys and (keys is None or None in keys):
            raise _no_key(topic)
        size = sum(map(len, values)) + sum(map(len, filter(None, keys or ()))) + 64 * len(values)
        self.check_room(size)
        many = _Many(len(values), self._loop)
        self._waiting += size
        try:
            if keys is None and self._bulk is not None and len(values) >= BULK_RECORDS_MIN:
                return await self._bulk.append(topic, values)
            self._produce_many(topic, values, keys, many)
            await many.done
        finally:
            self._waiting -= size
        if many.error is not None:
            raise self._refusal(many.error, topic)
        return tuple(Span(number, *many.found[number]) for number in sorted(many.found))

    def _produce_many(
        self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None] | None, many: _Many
    ) -> None:
        messages: list[dict[str, Any]]
        if keys is None:
            messages = [{"value": value} for value in values]
            partition = random.randrange(self._known[topic].partitions)
        else:
            pairs = zip(values, keys, strict=True)
            messages = [{"value": value, "key": key} for value, key in pairs]
            partition = -1
        try:
            self._producer.produce_batch(topic, messages, partition, on_delivery=many.heard)
        except (KafkaException, BufferError) as failure:
            many.refused(failure, len(messages))
            return
        failed = [message["_error"] for message in messages if "_error" in message]
        if failed:
            many.refused(failed[0], len(failed))

    async def needs_keys(self, topic: str) -> bool:
        """Raises NotThere: librdkafka would create a topic, or wait for one, that is only misspelt."""
        known = self._known.get(topic)
        if known is None or known.until < asyncio.get_running_loop().time():
            # One look for all that ask meanwhile: they go on in the order in which they came.
            if topic not in self._looks:
                self._looks[topic] = asyncio.create_task(self._look(topic))
            known = await asyncio.shield(self._looks[topic])
        return known.is_compacted

    async def _look(self, topic: str) -> _Topic:
        try:
            numbers, compacted = await asyncio.to_thread(_described, self._log, topic)
        finally:
            del self._looks[topic]
        until = asyncio.get_running_loop().time() + TOPICS_KNOWN_S
        known = self._known[topic] = _Topic(until, numbers, compacted)
        return known

    def _told(self, outcome: Any, topic: str) -> Stored | HeadwaterError:
        return outcome if isinstance(outcome, Stored) else self._refusal(outcome, topic)

    def _refusal(self, error: Any, topic: str) -> HeadwaterError:
        if isinstance(error, BufferError):
            return Overloaded("the log does not keep up with what is sent to it", RETRY_AFTER_S)
        if isinstance(error, KafkaException):
            error = error.args[0]
        return translated(error, f"appending to {topic}", self._log.bootstrap)

    def _hear(self) -> None:
        while not self._closed.is_set():
            try:
                self._producer.poll(_POLL_S)
            except Exception:  # of one acknowledgement; the others are to be heard
                _logger.exception("an acknowledgement could not be told")


class _Topic(NamedTuple):
    until: float
    partitions: int
    is_compacted: bool


class _Waiting:
    """What a request waits for. Heard in the appender's thread or, where refused at once, in the loop's."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop | None) -> None:
        assert loop is not None, "start() comes first"
        self.done: asyncio.Future[None] = loop.create_future()
        self._open = count
        self._loop = loop
        self._lock = threading.Lock()

    def _less(self, count: int) -> None:
        """Under the lock."""
        self._open -= count
        if not self._open:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class _Batch(_Waiting):
    """Records of which each has an outcome of its own: its place, or the error."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop | None) -> None:
        super().__init__(count, loop)
        self.outcomes: list[Any] = [None] * count

    def heard(self, number: int, error: Any, message: Any) -> None:
        with self._lock:
            place = Stored(message.partition(), message.offset()) if error is None else error
            self.outcomes[number] = place
            self._less(1)


class _Many(_Waiting):
    """Records that are counted: per partition the first, the last and how many."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop | None) -> None:
        super().__init__(count, loop)
        self.found: dict[int, tuple[int, int, int]] = {}
        self.error: Any = None

    def heard(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused(error, 1)
            return
        number, offset = message.partition(), message.offset()
        with self._lock:
            first, last, records = self.found.get(number, (offset, offset, 0))
            self.found[number] = (min(first, offset), max(last, offset), records + 1)
            self._less(1)

    def refused(self, error: Any, count: int) -> None:
        with self._lock:
            self.error = self.error or error
            self._less(count)


def _described(log: Log, topic: str) -> tuple[int, bool]:
    """How many partitions it has, and whether it is compacted."""
    return len(log.partitions(topic)), is_compacted(log, topic)


def _no_key(topic: str) -> RequestRefused:
    """Before the broker sees it: it would refuse the records of others in the same batch as well."""
    return RequestRefused(f"{topic} is compacted, and a record has no key", hint=_KEYS)


def _bulk(log: Log) -> Bulk | None:
    """None where numpy is missing, in whose arrays records are gathered."""
    try:
        from headwater.edges.bulk import Bulk
    except ModuleNotFoundError:
        return None
    return Bulk(log)


def _size(draft: Draft) -> int:
    return len(draft.key or b"") + len(draft.value or b"") + 64
