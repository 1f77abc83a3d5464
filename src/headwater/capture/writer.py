"""Into the log, exactly once: a batch and the position behind it, in one Kafka transaction.

Called by `runner`. The positions lie in the compacted topic `__headwater_capture` (`position_records`):

    {"position": {…the source's own…}, "run": whose it is, "ts_ms": when it was written}
    position null: none yet

Invariants:
- A batch's records and its position must be committed together or not at all.
- The position must be read only after the elder producer is fenced (`init_transactions`), and only when
  everything before the end of the topic is decided; otherwise a commit still on its way would be missed
  and its changes written twice.
- What comes a few rows at a time goes through a writer of its own, with less delay and with an id of its own:
  both ids must be fenced before the position is read.
- A run claims the capture before it writes: it stores the position as it was, with its own name. One that is
  fenced goes on only if nobody else has claimed it since: the epoch of a transaction that took too long moves
  in the same way as that of an elder run.
- Where a key lies must not change within a batch: how many partitions a topic has is asked between two.
- A commit whose outcome is not known must not be guessed: the writer is thrown away, and the next one
  reads what the log says.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from headwater.capture import dead_letters, outbox
from headwater.capture.change import BY_KEY, EVERY_PARTITION, Batch, Position, Record
from headwater.capture.compacted_topics import CompactedTopics
from headwater.capture.errors import Interrupted, LogRefused, WriterExpired
from headwater.capture.position_records import PositionRecords, Stored
from headwater.capture.positions import (
    POSITIONS,
    TIMEOUT_S,
    TRANSACTION_TIMEOUT_MS,
    Run,
    decided,
    decided_by_now,
    last_stored,
    plainly,
)
from headwater.client import creation
from headwater.client.bulk_writer import BulkWriter
from headwater.client.cluster import Cluster
from headwater.client.creation import Wanted
from headwater.client.librdkafka import AdminClient, KafkaException
from headwater.client.options import cluster_settings, enduring
from headwater.client.transactional_writer import TransactionalWriter

_KEYLESS = {"cleanup.policy": "delete"}  # of topics for dead letters: some have no key


class Writer:
    """The one writer of a capture. After any error it must be closed and a new one opened."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        client: Mapping[str, str] | None = None,
        *,
        topic_config: Mapping[str, str] | None = None,
        record_bytes_max: int = dead_letters.RECORD_BYTES_MAX,
        run: Run | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        """`stopping`: once it is set, a log that is away is not waited for."""
        self._name = name
        self._run = run or Run()
        self._position_records = PositionRecords(POSITIONS, name)
        self._stopping = stopping or threading.Event()
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            **enduring(client),
        }
        self._admin = AdminClient(self._settings)
        self._record_bytes_max = record_bytes_max
        self._sizes = dead_letters.RecordSizes(self._admin, record_bytes_max, topic_config or {})
        self._compacted = CompactedTopics(name, self._admin, self._settings, self._stopping)
        self._said: list[str] = []
        self._there: set[str] = set()
        self._bulk: BulkWriter | None = None
        self._small: TransactionalWriter | None = None

    def _cluster(self) -> Cluster:
        return Cluster(cluster_settings(self._settings, TIMEOUT_S), self._stopping)

    def open(self) -> Position | None:
        """Fence an elder writer of this name, then say where it had come to; None: never written.

        CaptureFenced where this run had the capture, and another one has it now.
        """
        with plainly("the log cannot be written"):
            self.ensure_topics(
                [POSITIONS], {"cleanup.policy": "compact", "segment.ms": "600000"}, 1
            )
            self._check_claim()
            own = f"headwater-capture-{self._name}"
            bulk = self._bulk = BulkWriter(
                self._settings,
                own,
                TRANSACTION_TIMEOUT_MS,
                message_bytes_max=self._record_bytes_max + dead_letters.OVERHEAD_BYTES,
                stopping=self._stopping,
            )
            bulk.open()
            self._small = TransactionalWriter(
                self._cluster(), f"{own}-small", TRANSACTION_TIMEOUT_MS, bulk.partition_count
            )
            self._small.open()
            within = decided(self._admin, POSITIONS, self._stopping)
            stored = last_stored(self._settings, self._name, within)
            self._run.check(stored)
            self._claim(bulk, stored)
        return None if stored is None else stored["position"]

    def _check_claim(self) -> None:
        """Before anybody is fenced, and without waiting for a transaction that may be this run's own."""
        if self._run.has_claimed:
            within = decided_by_now(self._admin, POSITIONS)
            self._run.check(last_stored(self._settings, self._name, within))

    def _claim(self, bulk: BulkWriter, stored: Stored | None) -> None:
        if stored is None or stored.get("run") != self._run.id:
            self._store(bulk, {**(stored or self._stored(None)), "run": self._run.id})
        self._run.has_claimed = True

    def _store(self, bulk: BulkWriter, stored: Stored) -> None:
        bulk.begin()
        self._put(bulk, self._position_records.of(stored))
        bulk.commit()

    def _stored(self, position: Position | None) -> Stored:
        return {"position": position, "run": self._run.id, "ts_ms": int(time.time() * 1000)}

    def ensure_topics(
        self, topics: Iterable[str], config: Mapping[str, str], partitions: int = -1
    ) -> None:
        """Create those that are missing."""
        wanted = [Wanted(topic, partitions, config) for topic in topics if topic not in self._there]
        if not wanted:
            return
        with plainly("topics cannot be created"), contextlib.closing(self._cluster()) as cluster:
            creation.ensure(cluster, wanted)
        self._there.update(each.name for each in wanted)

    def write(self, batch: Batch) -> None:
        """Make the batch and its position durable, together."""
        bulk = self._bulk
        assert bulk is not None, "open() comes first"
        try:
            self._write(bulk, batch)
        except WriterExpired:
            with plainly("whose the capture is cannot be read"):
                self._check_claim()
            raise
        except LogRefused as error:
            # Left open, it would keep every other capture from opening until its time is up.
            with contextlib.suppress(KafkaException):
                bulk.abort()
            with plainly("the settings of topics cannot be read"):
                is_altered = self._sizes.altered or self._compacted.has_changed()
            if is_altered:
                raise Interrupted(f"{error} (its topic has just been altered)") from None
            raise

    def _write(self, bulk: BulkWriter, batch: Batch) -> None:
        with plainly("the log did not take a batch"):
            behind = self._position_records.of(self._stored(batch.position))
            bulk.settle(batch.records)
            records = self._keyed(bulk, batch)
            small = self._small
            if small is not None and small.takes(records):
                if small.write([*records, *behind]):
                    return
            bulk.begin()
            self._put(bulk, records, batch.position)
            self._put(bulk, behind)
            bulk.commit()
        self._sizes.altered = False

    def forget(self) -> None:
        """Make the next run begin with a snapshot again."""
        self.write(Batch({"again": True}))

    def erase(self) -> None:
        """Forget the capture altogether: the next run of this name is its first."""
        assert self._bulk is not None
        with plainly("the position cannot be removed"):
            # The claim stays: a run that was fenced must not take it for its own.
            self._store(self._bulk, self._stored(None))

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
        for each in (self._bulk, self._small):
            if each is not None:
                each.close()
        self._bulk = self._small = None

    def take_said(self) -> list[str]:
        """What somebody should know of the batches that were written."""
        said, self._said = self._said, []
        return said

    def _keyed(self, bulk: BulkWriter, batch: Batch) -> list[Record]:
        """The batch's records as compacted topics take them; the rows that it truncates there have ended."""
        if all(record[1] is not None for record in batch.records):
            return batch.records
        keyed = self._compacted.keyed(batch.records, batch.position)
        if keyed.letters:
            self.ensure_topics([dead_letters.topic_of(self._name)], _KEYLESS)
        self._said += keyed.said
        self._compacted.end_rows(bulk, keyed.emptied)
        return keyed.records

    def _put(
        self, bulk: BulkWriter, records: Iterable[Record], position: Position | None = None
    ) -> None:
        put = bulk.put
        for record in records:
            if len(record[2] or b"") + len(record[1] or b"") > dead_letters.ORDINARY_BYTES:
                record = self._sized(record, position or {})
            if len(record) == 3:
                put(*record)
                continue
            topic, key, value, headers, partition = record
            if partition == EVERY_PARTITION:
                for place in range(bulk.partition_count(topic)):
                    put(topic, key, value, headers, place)
            elif partition == BY_KEY or partition < bulk.partition_count(topic):
                put(topic, key, value, headers, partition)
            else:
                letter = outbox.misplaced(self._name, record, bulk.partition_count(topic))
                self.ensure_topics([letter[0]], _KEYLESS)
                self._put(bulk, [letter])

    def _sized(self, record: Record, position: Position) -> Record:
        """A large record, or the dead letter for one that is too large."""
        if self._sizes.fits(record[0], dead_letters.size_of(record)):
            return record
        letter, sentence = dead_letters.too_large(self._name, record, position)
        self.ensure_topics([letter[0]], _KEYLESS)
        self._said.append(sentence)
        return letter
