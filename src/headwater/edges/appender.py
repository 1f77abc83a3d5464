"""Records into the log for many senders at once, each told when its own are on disk.

    stored = await appender.append("orders", [Draft(b"k", b"v")])

What is on its way is counted in bytes, and beyond the bound a sender is told to come again (`Overloaded`),
before anything of its request is taken. Where they are many, what is done with each is done in a thread: a
hundred thousand fit into a small body, and take seconds. Records of many share a batch (`producers`): each
of one that is refused goes again alone, so only the one that is to blame is told so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headwater.client.errors import translated
from headwater.client.librdkafka import KafkaException, Producer
from headwater.client.log import Log
from headwater.client.publisher import RECORD_OVERHEAD_BYTES, Draft, Stored, words_of
from headwater.edges.errors import Overloaded
from headwater.edges.idempotency.index import Span
from headwater.edges.memory_share import MemoryShare
from headwater.edges.producers import (
    ALONE,
    EachDelivery,
    Kind,
    ManyDeliveries,
    Producers,
    is_of_batch,
    is_too_large,
    kind_of,
)
from headwater.edges.topics import GONE_MS, Topic, Topics, is_gone, no_key, too_large
from headwater.edges.workers import Workers
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.edges.bulk import Bulk

BULK_RECORDS_MIN = 50
"""From here on values without keys go as whole batches."""
LINGER_MS = 1
MESSAGE_BYTES_MAX = 256 * 1024**2
RETRY_AFTER_S = 1.0
_CLOSE_S = 10.0
AT_ONCE_RECORDS = 200
"""So many are dealt with where requests arrive."""
Result = TypeVar("Result")
_MEMORY_BYTES = 64
"""Of a record on its way, besides its bytes."""


class Appender:
    """For one event loop; `start` it there."""

    def __init__(self, log: Log, waiting_bytes: int) -> None:
        self._log = log
        self._held = MemoryShare(waiting_bytes, "the log does not keep up with what is sent to it")
        self.topics = Topics(log)
        self._kbytes = max(1024, 2 * waiting_bytes // 1024)
        self._producers = Producers(self._producer)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bulk = _bulk(log)
        self._threads = Workers(2, 1, "appending")

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Once everything that was taken is stored, or ten seconds are over."""
        if self._bulk is not None:
            await self._bulk.close()
        await asyncio.to_thread(self._producers.close, _CLOSE_S)
        self._threads.close()
        self.topics.close()

    async def _beside(self, count: int, work: Callable[[], Result]) -> Result:
        """What is done with each of so many records. Raises Overloaded."""
        return work() if count <= AT_ONCE_RECORDS else await self._threads.run(work)

    def _producer(self, batch_bytes: int) -> Producer:
        return self._log.new_producer(
            linger_ms=LINGER_MS,
            compression_type="lz4",
            batch_size=batch_bytes,
            topic_metadata_propagation_max_ms=GONE_MS,
            message_max_bytes=MESSAGE_BYTES_MAX,  # the topic's own limit decides
            queue_buffering_max_messages=1_000_000,
            queue_buffering_max_kbytes=self._kbytes,
        )

    @property
    def waiting_bytes(self) -> int:
        return self._held.bytes

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
        known = await self.topics.find(topic)
        if known.is_compacted and any(draft.key is None for draft in drafts):
            raise no_key(topic)
        sizes = await self._beside(
            len(drafts), lambda: [draft.batch_bytes + _MEMORY_BYTES for draft in drafts]
        )
        size = sum(sizes)
        self._held.take(size)
        try:
            kind = kind_of(known, max(sizes) - _MEMORY_BYTES)
            return await self._appended_each(topic, known, kind, drafts)
        finally:
            self._held.give(size)

    async def _appended_each(
        self, topic: str, known: Topic, kind: Kind, drafts: Sequence[Draft]
    ) -> list[Stored | HeadwaterError]:
        now_ms = time.time_ns() // 1_000_000
        refused = await self._beside(
            len(drafts), lambda: [known.refusal(topic, draft, now_ms) for draft in drafts]
        )
        going = {n: draft for n, draft in enumerate(drafts) if refused[n] is None}
        heard = await self._produced(topic, kind, going)
        again = {
            number: going[number]
            for number, outcome in heard.items()
            if is_of_batch(outcome) and not kind.is_alone(going[number].batch_bytes)
        }
        if again:
            self.topics.forget(topic)  # its settings are not what they were
            heard |= await self._produced(topic, ALONE, again)
        outcomes: dict[int, Stored | HeadwaterError]
        outcomes = {number: each for number, each in heard.items() if isinstance(each, Stored)}
        reasons: dict[str, HeadwaterError] = {}
        for number in heard.keys() - outcomes.keys():
            said = str(heard[number])  # a topic that has gone is looked for once, and not for each
            if said not in reasons:
                reasons[said] = await self._refusal(heard[number], topic, known)
            outcomes[number] = reasons[said]
        return [refused[number] or outcomes[number] for number in range(len(drafts))]

    async def _produced(
        self, topic: str, kind: Kind, drafts: Mapping[int, Draft]
    ) -> dict[int, object]:
        """By number: where it is, or what librdkafka said."""
        if not drafts:
            return {}
        batch, producer = EachDelivery(len(drafts), self._loop), self._producers.get(kind)

        def hand_over() -> None:
            for number, draft in drafts.items():
                heard = partial(batch.heard, number)
                try:
                    producer.produce(topic, on_delivery=heard, **words_of(draft))
                except (KafkaException, BufferError) as failure:
                    heard(failure.with_traceback(None), None)  # of each, it would keep all of this

        await self._beside(len(drafts), hand_over)
        await batch.done
        return batch.outcomes

    async def append_values(
        self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None] | None = None
    ) -> tuple[Span, ...]:
        """Many at once, without headers: half the time per record. Without keys, all go to one partition.

        Where some were refused, the first refusal is raised: the others may be stored.
        """
        if not values:
            return ()
        known = await self.topics.find(topic)
        if known.is_compacted and (keys is None or None in keys):
            raise no_key(topic)
        size = (
            sum(map(len, values))
            + sum(map(len, filter(None, keys or ())))
            + _MEMORY_BYTES * len(values)
        )
        self._held.take(size)
        try:
            if keys is None and self._bulk is not None and len(values) >= BULK_RECORDS_MIN:
                return await self._bulk.append(topic, values, known.batch_bytes_max)
            return await self._appended_values(topic, known, values, keys)
        finally:
            self._held.give(size)

    async def _appended_values(
        self,
        topic: str,
        known: Topic,
        values: Sequence[bytes],
        keys: Sequence[bytes | None] | None,
    ) -> tuple[Span, ...]:
        largest = max(map(len, values)) + max(map(len, filter(None, keys or ())), default=0)
        kind = kind_of(known, largest + RECORD_OVERHEAD_BYTES)
        partition = random.choice(known.partitions) if keys is None else -1
        many = ManyDeliveries(len(values), self._loop, kind)
        producer = self._producers.get(kind)
        await self._beside(
            len(values), lambda: many.produce(producer, (topic, partition), values, keys)
        )
        await many.done
        if many.again:
            self.topics.forget(topic)
            alone = await self._produced(topic, ALONE, dict(enumerate(many.again)))
            for each in alone.values():
                if isinstance(each, Stored):
                    many.stored(each)
                else:
                    many.error = many.error or each
        if many.error is not None:
            raise await self._refusal(many.error, topic, known)
        return many.spans()

    async def _refusal(self, error: object, topic: str, known: Topic) -> HeadwaterError:
        if isinstance(error, BufferError):
            return Overloaded("the log does not keep up with what is sent to it", RETRY_AFTER_S)
        if is_gone(error):
            self.topics.forget(topic)
            try:
                await self.topics.find(topic)
            except HeadwaterError as found:
                return found
        if is_too_large(error):
            return too_large(topic, await self._limit(topic, known))
        if isinstance(error, KafkaException):
            error = error.args[0]
        return translated(error, f"appending to {topic}", self._log.bootstrap)

    async def _limit(self, topic: str, known: Topic) -> int:
        try:
            return (await self.topics.find(topic)).batch_bytes_max
        except HeadwaterError:  # it is gone meanwhile, or nobody says
            return known.batch_bytes_max


def _bulk(log: Log) -> Bulk | None:
    """None where numpy is missing, in whose arrays records are gathered."""
    try:
        from headwater.edges.bulk import Bulk
    except ModuleNotFoundError:
        return None
    return Bulk(log)
