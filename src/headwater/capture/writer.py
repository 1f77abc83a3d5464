"""Into the log, exactly once: a batch and the position behind it, in one Kafka transaction.

Called by `runner`. The positions lie in the compacted topic `__headwater_capture`, one key per capture:

    key    the capture's name
    value  {"position": {…the source's own…}, "ts_ms": when it was written}

Invariants:
- A batch's records and its position must be committed together or not at all.
- The position must be read only after the elder producer is fenced (`init_transactions`), and only when
  everything before the end of the topic is decided; otherwise a commit still on its way would be missed
  and its changes written twice.
- A commit whose outcome is not known must not be guessed: the writer is thrown away, and the next one
  reads what the log says.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from headwater.capture import outbox, record_size
from headwater.capture.change import BY_KEY, EVERY_PARTITION, Batch, FullRecord, Position, Record
from headwater.capture.errors import Interrupted, LogRefused
from headwater.capture.positions import (
    POSITIONS,
    TIMEOUT_S,
    TRANSACTION_TIMEOUT_MS,
    decided,
    last_value,
    plainly,
    records_between,
)
from headwater.client import creation
from headwater.client.cluster import Cluster
from headwater.client.creation import Wanted
from headwater.client.errors import ClientError
from headwater.client.librdkafka import (
    AdminClient,
    KafkaError,
    KafkaException,
    Producer,
)
from headwater.client.options import cluster_settings, enduring
from headwater.record import dead_letter


class Writer:
    """The one writer of a capture. After any error it must be closed and a new one opened."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        client: Mapping[str, str] | None = None,
        *,
        topic_config: Mapping[str, str] | None = None,
        record_bytes_max: int = record_size.RECORD_BYTES_MAX,
    ) -> None:
        self._name = name
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            **enduring(client),
        }
        self._admin = AdminClient(self._settings)
        self._record_bytes_max = record_bytes_max
        self._sizes = record_size.RecordSizes(self._admin, record_bytes_max, topic_config or {})
        self._said: list[str] = []
        self._partitions: dict[str, int] = {}
        self._failed: KafkaError | None = None
        self._producer: Producer | None = None

    def open(self) -> Position | None:
        """Fence an elder writer of this name, then say where it had come to; None: never written."""
        with plainly("the log cannot be written"):
            self.ensure_topics(
                [POSITIONS], {"cleanup.policy": "compact", "segment.ms": "600000"}, 1
            )
            largest = self._record_bytes_max + record_size.OVERHEAD_BYTES
            self._producer = Producer(
                {
                    "message.max.bytes": largest,
                    **self._settings,
                    "transactional.id": f"headwater-capture-{self._name}",
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    # A row's changes must meet in the partition that every other client expects.
                    "partitioner": "murmur2_random",
                    "linger.ms": 2,
                    "batch.size": 1 << 20,
                    "compression.type": "lz4",
                    "queue.buffering.max.messages": 500_000,
                    "queue.buffering.max.kbytes": max(64 << 10, 2 * largest >> 10),
                    # The commit fails if a record did; a call per record would cost more than sending it.
                    "delivery.report.only.error": True,
                    "on_delivery": self._delivered,
                }
            )
            self._producer.init_transactions(TIMEOUT_S)
            value = last_value(self._settings, self._admin, self._name)
        return None if value is None else json.loads(value)["position"]

    def ensure_topics(
        self, topics: Iterable[str], config: Mapping[str, str], partitions: int = -1
    ) -> None:
        """Create those that are missing."""
        wanted = [
            Wanted(topic, partitions, config) for topic in topics if topic not in self._partitions
        ]
        if not wanted:
            return
        cluster = Cluster(cluster_settings(self._settings, TIMEOUT_S))
        try:
            creation.ensure(cluster, wanted)
        except ClientError as error:
            raise Interrupted(f"topics cannot be created: {error}", hint=error.hint) from error
        finally:
            cluster.close()
        self._partitions |= dict.fromkeys((each.name for each in wanted), 0)

    def write(self, batch: Batch) -> None:
        """Make the batch and its position durable, together."""
        producer = self._producer
        assert producer is not None, "open() comes first"
        try:
            self._write(producer, batch)
        except LogRefused as error:
            # Left open, it would keep every other capture from opening until its time is up.
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(TIMEOUT_S)
            if self._sizes.altered:
                raise Interrupted(f"{error} (its topic has just been altered)") from None
            raise

    def _write(self, producer: Producer, batch: Batch) -> None:
        with plainly("the log did not take a batch"):
            self._failed = None
            producer.begin_transaction()
            self._produce(producer, batch.records, batch.position)
            value = json.dumps({"position": batch.position, "ts_ms": int(time.time() * 1000)})
            _when_room(producer, POSITIONS, value.encode(), self._name.encode(), 0)
            try:
                producer.commit_transaction(TIMEOUT_S)
            except KafkaException:
                if self._failed is not None:  # why a record was refused says more than that one was
                    raise KafkaException(self._failed) from None
                raise
            if self._failed is not None:  # cannot be: the commit would have failed
                raise KafkaException(self._failed)
        self._sizes.altered = False

    def forget(self) -> None:
        """Make the next run begin with a snapshot again."""
        self.write(Batch({"again": True}))

    def erase(self) -> None:
        """Forget the capture altogether: the next run of this name is its first."""
        assert self._producer is not None
        with plainly("the position cannot be removed"):
            self._producer.begin_transaction()
            self._producer.produce(POSITIONS, None, self._name.encode())
            self._producer.commit_transaction(TIMEOUT_S)

    def delete_topics(self, topics: Iterable[str]) -> list[str]:
        """Those of them that there are; which ones."""
        with plainly("topics cannot be deleted"):
            there = self._admin.list_topics(timeout=TIMEOUT_S).topics
            found = sorted({topic for topic in topics if topic in there})
            if found:
                for made in self._admin.delete_topics(found, operation_timeout=TIMEOUT_S).values():
                    made.result()
        return found

    def close(self) -> None:
        """Let go; a transaction that is open is aborted by the next writer, or by its time-out."""
        if self._producer is not None:
            with contextlib.suppress(KafkaException):
                self._producer.purge()
                self._producer.poll(0)
        self._producer = None

    def take_said(self) -> list[str]:
        """What somebody should know of the batches that were written."""
        said, self._said = self._said, []
        return said

    def _produce(
        self, producer: Producer, records: Iterable[Record], position: Position | None = None
    ) -> None:
        produce = producer.produce
        for record in records:
            if len(record[2] or b"") + len(record[1] or b"") > record_size.ORDINARY_BYTES:
                record = self._sized(record, position or {})
            if len(record) == 3:
                try:
                    produce(record[0], record[2], record[1])
                except BufferError:
                    _when_room(producer, record[0], record[2], record[1])
                continue
            topic, key, value, headers, partition = record
            if partition == EVERY_PARTITION:
                for place in range(self._partition_count(topic)):
                    _when_room(producer, topic, value, key, place, headers=headers)
            elif partition == BY_KEY or self._is_there(topic, partition):
                _when_room(producer, topic, value, key, partition, headers=headers)
            else:
                self._produce(producer, [self._letter(record)])

    def _sized(self, record: Record, position: Position) -> Record:
        """A large record, or the dead letter for one that is too large."""
        if self._sizes.fits(record[0], record_size.size_of(record)):
            return record
        letter, sentence = record_size.letter(self._name, record, position)
        self.ensure_topics([letter[0]], {})
        self._said.append(sentence)
        return letter

    def _is_there(self, topic: str, partition: int) -> bool:
        known = self._partitions.get(topic) or self._partition_count(topic)
        return partition < known or partition < self._partition_count(topic)  # it may have got more

    def _letter(self, record: FullRecord) -> FullRecord:
        """An event that names a partition which is not there: set aside, as the log would never take it."""
        topic, key, value, headers, partition = record
        reason = f"topic {topic} has no partition {partition}, only {self._partitions[topic]}"
        letters = outbox.letters_topic(self._name)
        self.ensure_topics([letters], {})
        own = [
            (name, text.encode() if isinstance(text, str) else text) for name, text in headers or ()
        ]
        letter = dead_letter.letter(key, value, own, outbox.cause(self._name, reason, topic))
        return letters, letter.key, letter.value, letter.headers, BY_KEY

    def _partition_count(self, topic: str) -> int:
        """Asked anew each time: a topic may get more."""
        found = self._admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        self._partitions[topic] = len(found.partitions) or 1
        return self._partitions[topic]

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed = error


def _when_room(producer: Producer, *words: Any, **more: Any) -> None:
    """Produce one message; while librdkafka's queue is full, by count or by bytes, wait for room.

    One message at a time: of several, those before the full queue would be produced twice.
    """
    while True:
        try:
            producer.produce(*words, **more)
            return
        except BufferError:
            producer.poll(0.05)


def read_topic(
    bootstrap: str, topic: str, client: Mapping[str, str] | None = None
) -> list[tuple[bytes | None, bytes | None]]:
    """Every committed record of a topic with one partition, as key and value; [] if there is none."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})}
    admin = AdminClient(settings)
    with plainly(f"{topic} cannot be read"):
        if topic not in admin.list_topics(timeout=TIMEOUT_S).topics:
            return []
        return list(records_between(settings, topic, *decided(admin, topic)))
