"""What a partition remembers of its idempotent producers, so that a retried batch is stored once.

`PartitionLog` asks `check` before it stages a batch and tells `update` what it staged; recovery
replays batch headers through `update`. Everything here follows from the log: the snapshot file only
saves reading it all again.

NNNNNNNNNNNNNNNNNNNN.snapshot (state before offset N), Kafka's format, big-endian:

    version int16 = 1 | crc32c of what follows uint32 | count int32 | count entries of
    producer_id int64 | producer_epoch int16 | last_sequence int32 | last_offset int64 |
    offset_delta int32 | timestamp int64 | coordinator_epoch int32 | first_offset_of_transaction int64
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from headwater.log.aborted import AbortedTransaction
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.control import Marker

BATCHES_KEPT = 5
"""As many as a client may have in flight (max.in.flight.requests.per.connection)."""
_VERSION = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_SEQUENCES = 1 << 31
_NO_EPOCH = -1


class ProducerError(Exception):
    """A batch that does not follow on what its producer sent before."""


class OutOfOrderSequence(ProducerError):
    """There is a gap before this batch: something was lost on the way."""


class FencedEpoch(ProducerError):
    """A newer incarnation of this producer has written already."""


class NotTransactional(ProducerError):
    """A plain batch of a producer that has a transaction open here."""


class CoordinatorFenced(ProducerError):
    """A marker of a transaction coordinator that has been replaced."""


class Stored(NamedTuple):
    """A batch that a producer has in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Producer:
    """One producer id's recent past in this partition."""

    epoch: int = _NO_EPOCH
    stored: deque[Stored] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))
    timestamp: int = -1
    coordinator_epoch: int = -1
    transaction_start: int = -1
    """First offset of the transaction that is open, or -1."""

    @property
    def last_sequence(self) -> int:
        return self.stored[-1].last_sequence if self.stored else -1


class Producers:
    """All producers of one partition."""

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self.open_transactions: dict[int, int] = {}
        """Producer id → first offset, in the order in which they began."""
        # What other threads read is replaced, never changed, and in an order that errs on the side of
        # a transaction being open.
        self._first_open: int | None = None
        self._ending: tuple[tuple[int, int], ...] = ()
        """Transactions whose marker may not be durable yet: (marker's offset, first offset)."""

    def check(self, header: BatchHeader) -> Stored | None:
        """The batch as it was stored before if this is a retry; None if it is to be stored.

        Raises FencedEpoch or OutOfOrderSequence.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None or producer.epoch == _NO_EPOCH:
            return None  # as Kafka: a producer whose past is gone may go on where it is
        if header.producer_epoch < producer.epoch:
            raise FencedEpoch(
                f"producer {header.producer_id} has epoch {producer.epoch} now, "
                f"this batch comes from epoch {header.producer_epoch}"
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} starts epoch {header.producer_epoch} "
                    f"at sequence {header.base_sequence} instead of 0"
                )
            return None
        first, last = header.base_sequence, header.last_sequence
        for stored in producer.stored:
            if stored.base_sequence == first and stored.last_sequence == last:
                return stored
        if first != (producer.last_sequence + 1) % _SEQUENCES:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {first} "
                f"after {producer.last_sequence}"
            )
        if producer.transaction_start >= 0 and not header.is_transactional:
            raise NotTransactional(f"producer {header.producer_id} has a transaction open")
        return None

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raises FencedEpoch or CoordinatorFenced if such a marker must not be written."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch:
            raise FencedEpoch(
                f"producer {producer_id} has epoch {producer.epoch} now, "
                f"this marker is for epoch {epoch}"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(
                f"a coordinator of epoch {producer.coordinator_epoch} has written already, "
                f"this marker comes from epoch {coordinator_epoch}"
            )

    @property
    def has_any_open(self) -> bool:
        """Is a transaction open, or its marker perhaps not durable yet?"""
        return bool(self.open_transactions or self._ending)

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Has this incarnation of the producer a transaction open here?"""
        return producer_id in self.open_transactions and self.by_id[producer_id].epoch == epoch

    def update(self, header: BatchHeader, base_offset: int, now_ms: int = -1) -> None:
        """Take note of a data batch that is now in the log at `base_offset`.

        `now_ms` keeps a producer that stamps its records in the distant past from being forgotten.
        """
        producer = self.by_id.setdefault(header.producer_id, Producer())
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.stored.clear()
        last_offset = base_offset + header.last_offset_delta
        producer.stored.append(
            Stored(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                last_offset,
                header.max_timestamp,
            )
        )
        producer.timestamp = max(header.max_timestamp, now_ms)
        if header.is_transactional and producer.transaction_start < 0:
            producer.transaction_start = base_offset
            self.open_transactions[header.producer_id] = base_offset
            if self._first_open is None:
                self._first_open = base_offset

    def end_transaction(
        self, header: BatchHeader, coordinator_epoch: int, base_offset: int = -1, now_ms: int = -1
    ) -> int:
        """Take note of a marker; returns the first offset of the transaction it ended, or -1."""
        producer = self.by_id.setdefault(header.producer_id, Producer())
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.stored.clear()
        start, producer.transaction_start = producer.transaction_start, -1
        producer.timestamp = max(header.max_timestamp, now_ms)
        producer.coordinator_epoch = coordinator_epoch
        if start >= 0 and now_ms >= 0:  # else it is replayed, and durable
            self._ending = (*self._ending, (base_offset, start))
        self.open_transactions.pop(header.producer_id, None)
        self._first_open = next(iter(self.open_transactions.values()), None)
        return start

    def settle(self, durable_offset: int) -> None:
        """Everything before this offset is durable, markers included."""
        if self._ending:
            self._ending = tuple(each for each in self._ending if each[0] >= durable_offset)

    def end(
        self,
        header: BatchHeader,
        marker: Marker,
        base_offset: int,
        into: list[AbortedTransaction],
        now_ms: int = -1,
    ) -> None:
        """Take note of a marker; if it aborts something, add that to its segment's list."""
        start = self.end_transaction(header, marker.coordinator_epoch, base_offset, now_ms)
        if start >= 0 and marker.kind == control.ABORT:
            first = self.first_open_offset()
            stable = base_offset + 1 if first is None else first
            into.append(AbortedTransaction(header.producer_id, start, base_offset, stable))

    def first_open_offset(self, durable_offset: int | None = None) -> int | None:
        """Where the oldest open transaction begins; open until its marker is below `durable_offset`,
        if that is given."""
        first = self._first_open
        if durable_offset is not None and self._ending:
            starts = [start for marker, start in self._ending if marker >= durable_offset]
            return min(starts if first is None else [*starts, first], default=None)
        return first

    def expire(self, before_ms: int) -> None:
        """Forget producers that have been silent since `before_ms`."""
        silent = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.timestamp < before_ms and producer.transaction_start < 0
        ]
        for producer_id in silent:
            del self.by_id[producer_id]

    # ---- snapshot ------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        rows = [_COUNT.pack(len(self.by_id))]
        for producer_id, producer in self.by_id.items():
            last = producer.stored[-1] if producer.stored else Stored(-1, -1, -1, -1, -1)
            rows.append(
                _ENTRY.pack(
                    producer_id,
                    producer.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.last_offset - last.base_offset,
                    producer.timestamp,
                    producer.coordinator_epoch,
                    producer.transaction_start,
                )
            )
        body = b"".join(rows)
        return _VERSION.pack(1, crc32c(body)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Producers | None:
        """None if the bytes are not a whole snapshot."""
        head = _VERSION.size + _COUNT.size
        if len(data) < head:
            return None
        version, crc = _VERSION.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _VERSION.size)
        if version != 1 or crc32c(data[_VERSION.size :]) != crc:
            return None
        if len(data) != head + count * _ENTRY.size:
            return None
        found = cls()
        for row in sorted(_ENTRY.iter_unpack(data[head:]), key=lambda row: int(row[-1])):
            found._restore(*row)
        return found

    def _restore(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        coordinator_epoch: int,
        transaction_start: int,
    ) -> None:
        producer = Producer(epoch, timestamp=timestamp, coordinator_epoch=coordinator_epoch)
        if last_sequence >= 0:
            base_sequence = (last_sequence - offset_delta) % _SEQUENCES
            producer.stored.append(
                Stored(
                    base_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp
                )
            )
        if transaction_start >= 0:
            producer.transaction_start = transaction_start
            self.open_transactions[producer_id] = transaction_start
            self._first_open = next(iter(self.open_transactions.values()))
        self.by_id[producer_id] = producer
