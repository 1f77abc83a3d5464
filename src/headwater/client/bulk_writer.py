"""Large transactions: librdkafka's threads and compiled code, where `transactional_writer` is too slow.

Called by capture. Topics get more partitions, and each client learns of it in its own time: placed by what
each knows, one key's records would lie in two partitions in turn, in no order. So whoever writes one topic
in both ways places by the count here (`partition_count`), and a key moves once when its topic grows.

What must hold: a count changes between two transactions only (`settle`), and what is placed by the new one
has a later timestamp. Readers order the records of a key that lie in two partitions by their times.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from headwater.client.errors import weakly
from headwater.client.librdkafka import KafkaError, KafkaException, Producer
from headwater.client.partitioner import by_murmur2
from headwater.client.transaction_batches import BY_KEY, Outgoing

TIMEOUT_S = 30.0
_KNOWN_S = 300.0
"""Topics may get more partitions; librdkafka looks as often."""
_TICK_S = 0.0002
_STEP_S = 1.0
"""So long a step of librdkafka's does not look whether it is to stop."""
_PAUSE_S = 0.05
"""Between two questions for a topic that was just made."""


class BulkWriter:
    """One transactional id. After any error but BufferError it must be opened again, as another."""

    def __init__(
        self,
        settings: Mapping[str, object],
        transactional_id: str,
        timeout_ms: int,
        *,
        message_bytes_max: int,
        stopping: threading.Event,
    ) -> None:
        self._stopping = stopping
        self._failed: KafkaError | None = None
        self._known: dict[str, tuple[int, float]] = {}
        self._producer = Producer(
            {
                "message.max.bytes": message_bytes_max,
                **settings,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                # What has no key: anywhere.
                "partitioner": "murmur2_random",
                "linger.ms": 2,
                "batch.size": 1 << 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": max(64 << 10, 2 * message_bytes_max >> 10),
                # The commit fails if a record did; a call per record would cost more than sending it.
                "delivery.report.only.error": True,
                "on_delivery": weakly(self._delivered),
            }
        )

    def open(self) -> None:
        """Fence whoever had the id, and abort what it left. Raises KafkaException, as all of them do."""
        self._patiently(self._producer.init_transactions)

    def begin(self) -> None:
        self._failed = None
        self._producer.begin_transaction()

    def put(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, str | bytes | None]] | None = None,
        partition: int = BY_KEY,
    ) -> None:
        """One message; while librdkafka's queue is full, by count or by bytes, wait for room.

        One at a time: of several, those before the full queue would be produced twice.
        """
        if partition == BY_KEY and key is not None:
            # A row's changes must meet in the partition that every other client expects.
            partition = by_murmur2(key, self.partition_count(topic))
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.05)

    def commit(self) -> None:
        try:
            self._patiently(self._producer.commit_transaction)
        except KafkaException:
            if self._failed is not None:  # why a record was refused says more than that one was
                raise KafkaException(self._failed) from None
            raise
        if self._failed is not None:  # cannot be: the commit would have failed
            raise KafkaException(self._failed)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        """Let go; a transaction that is open is aborted by the next one, or by its time-out."""
        with contextlib.suppress(KafkaException):
            self._producer.purge()
            self._producer.poll(0)

    def settle(self, outgoing: Iterable[Outgoing]) -> None:
        """Before a transaction with these: ask anew for counts that are old, or that may have grown.

        Of a topic with a record for a partition that is not known, or for all of them (below -1), it may.
        """
        now = time.monotonic()
        asked: set[str] = set()
        for topic, partition in {
            (each[0], each[4] if len(each) == 5 else BY_KEY) for each in outgoing
        }:
            count, until = self._known.get(topic, (0, now))
            if until < now or partition < BY_KEY or partition >= max(count, 1):
                asked.add(topic)
        before = {topic: self._known[topic][0] for topic in asked if topic in self._known}
        found = {topic: self._ask(topic) for topic in asked}
        if any(found[topic] != count for topic, count in before.items()):
            moment = _clock_ms()
            while _clock_ms() == moment:
                time.sleep(_TICK_S)

    def partition_count(self, topic: str) -> int:
        """As asked when the topic was first written to, or by `settle`."""
        known = self._known.get(topic)
        return self._ask(topic) if known is None else known[0]

    def _ask(self, topic: str) -> int:
        """By the producer itself, so that it knows the partitions too."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = self._producer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
            if found.partitions:
                self._known[topic] = (len(found.partitions), time.monotonic() + _KNOWN_S)
                return len(found.partitions)
            if self._stopping.wait(_PAUSE_S) or time.monotonic() > deadline:
                raise KafkaException(found.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    def _patiently(self, step: Callable[[float], None]) -> None:
        """A step that takes a time-out, and may be gone on with after it."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return step(_STEP_S)
            except KafkaException as error:
                over = self._stopping.is_set() or time.monotonic() > deadline
                if over or not error.args[0].retriable():
                    raise

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed = error


def _clock_ms() -> int:
    return int(time.time() * 1000)
