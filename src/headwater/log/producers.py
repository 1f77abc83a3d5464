"""What a partition remembers of its idempotent producers, so that a retried batch is stored once.

`PartitionLog` asks `check` before it stages a batch and tells `update` what it staged; recovery
replays batch headers through `update`. Everything here follows from the log: the snapshot file only
saves reading it all again.

A producer id is whatever a client says, so what is remembered is bounded: `PRODUCERS_MAX` in a partition,
`Census.most` in all of them. Beyond that those go first that have been silent for
`SILENT_MS`: nobody repeats a batch as late as that. If there are none, a new producer has to wait
(`admit`); none is forgotten that may still repeat something, or has a transaction open.

NNNNNNNNNNNNNNNNNNNN.snapshot (state before offset N), Kafka's format, big-endian:

    version int16 = 1 | crc32c of what follows uint32 | count int32 | count entries of
    producer_id int64 | producer_epoch int16 | last_sequence int32 | last_offset int64 |
    offset_delta int32 | timestamp int64 | coordinator_epoch int32 | first_offset_of_transaction int64
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from crc32c import crc32c

from headwater.log.aborted_transactions import AbortedTransaction
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.control import Marker

BATCHES_KEPT = 5
"""As many as a client may have in flight (max.in.flight.requests.per.connection)."""
PRODUCERS_MAX = 10_000
"""Of one partition: a snapshot of them is a few milliseconds of work."""
PRODUCER_BYTES = 400
"""What one takes in one partition, about."""
SILENT_MS = 15 * 60 * 1000
"""Longer than clients try to deliver a batch (delivery.timeout.ms: two minutes)."""
LOOK_MS = 1000
"""While all have transactions open, somebody is looked for no more often than this."""
_VERSION = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_STORED = struct.Struct(">iiqqq")
_NOTHING = _STORED.pack(-1, -1, -1, -1, -1)
_SEQUENCES = 1 << 31
_NO_EPOCH = -1
_ALL = 1 << 63


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


class TooManyProducers(ProducerError):
    """A new producer, and no room for what is to be remembered of it."""


class Census:
    """How many producers are remembered in all partitions together, about: counted anew now and then."""

    __slots__ = ("count", "given", "most")

    def __init__(self) -> None:
        self.count = 0
        self.most: Callable[[], int] = lambda: _ALL
        self.given: Callable[[], int] = lambda: _ALL
        """Ids from here on were never given to anybody: clients have made them up."""


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
    packed: bytes = b""
    """Its last batches, see `stored`: as objects they would take three times the room of all else."""
    timestamp: int = -1
    """When it wrote last, by the broker's clock; of what is replayed, by its records'."""
    coordinator_epoch: int = -1
    """Of its last marker; -1 if there was none, or a plain batch has come since."""
    transaction_start: int = -1
    """First offset of the transaction that is open, or -1."""

    @property
    def is_proven(self) -> bool:
        """Whether id and epoch come from the coordinator: they wrote in a transaction, or it wrote their
        marker. Of plain batches they are whatever a client says."""
        return self.transaction_start >= 0 or self.coordinator_epoch >= 0 or not self.packed

    def yields_to(self, header: BatchHeader) -> bool:
        """To one for whom the coordinator speaks: what anybody may have written is no past of his."""
        return header.is_transactional and not self.is_proven

    @property
    def stored(self) -> tuple[Stored, ...]:
        return tuple(map(Stored._make, _STORED.iter_unpack(self.packed)))

    @property
    def last_sequence(self) -> int:
        return int(_STORED.unpack(self.packed[-_STORED.size :] or _NOTHING)[1])


class Producers:
    """All producers of one partition."""

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self.census = Census()
        self._room_at_ms = 0
        """Before that nobody will have been silent for long enough."""
        self.open_transactions: dict[int, int] = {}
        """Producer id → first offset, in the order in which they began."""
        # What other threads read is replaced, never changed, and in an order that errs on the side of
        # a transaction being open.
        self._first_open: int | None = None
        self._ending: tuple[tuple[int, int], ...] = ()
        """Transactions whose marker may not be durable yet: (marker's offset, first offset)."""

    def check(self, header: BatchHeader) -> Stored | None:
        """The batch as it was stored before if this is a retry; None if it is to be stored.

        Raises FencedEpoch, OutOfOrderSequence or NotTransactional.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None or producer.epoch == _NO_EPOCH or producer.yields_to(header):
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
            self._check_open(header, producer)
            return None
        first = header.base_sequence
        if first != (producer.last_sequence + 1) % _SEQUENCES:
            for stored in _STORED.iter_unpack(producer.packed):
                if stored[:2] == (first, header.last_sequence):
                    return Stored._make(stored)
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {first} "
                f"after {producer.last_sequence}"
            )
        self._check_open(header, producer)
        return None

    @staticmethod
    def _check_open(header: BatchHeader, producer: Producer) -> None:
        """In whatever epoch: only the coordinator's marker ends what is open here."""
        if producer.transaction_start >= 0 and not header.is_transactional:
            raise NotTransactional(f"producer {header.producer_id} has a transaction open")

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raises FencedEpoch or CoordinatorFenced if such a marker must not be written."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch and producer.is_proven:
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

    # ---- room ----------------------------------------------------------------------------------

    def admit(self, producer_id: int, now_ms: int) -> None:
        """Before a batch of this producer is stored: is it known, or is there room for it? Raises
        TooManyProducers."""
        made_up = producer_id >= self.census.given()
        if producer_id in self.by_id or self._has_room(made_up):
            return
        if not now_ms < self._room_at_ms <= now_ms + SILENT_MS:  # nor later: the clock was set back
            self.expire(now_ms - SILENT_MS, now_ms)
            last_seen = [p.timestamp for p in self.by_id.values() if p.transaction_start < 0]
            self._room_at_ms = min(last_seen) + SILENT_MS if last_seen else now_ms + LOOK_MS
        if not self._has_room(made_up):
            raise TooManyProducers(
                "too many idempotent producers have written lately; keep them and use them again, "
                "or try later"
            )

    def _has_room(self, made_up: bool) -> bool:
        """Half of it is for those alone who have asked for their id: nobody shuts them out in passing."""
        share = 2 if made_up else 1
        return (
            len(self.by_id) < PRODUCERS_MAX // share
            and self.census.count < self.census.most() // share
        )

    def _known(self, producer_id: int) -> Producer:
        producer = self.by_id.get(producer_id)
        if producer is None:
            if len(self.by_id) >= 2 * PRODUCERS_MAX:  # what is replayed has been admitted long ago
                self._trim()
            producer = self.by_id[producer_id] = Producer()
            self.census.count += 1
        return producer

    def _trim(self) -> None:
        closed = [(p.timestamp, n) for n, p in self.by_id.items() if p.transaction_start < 0]
        surplus = max(len(self.by_id) - PRODUCERS_MAX, 0)
        self._forget(number for _, number in nsmallest(surplus, closed))

    def _forget(self, producer_ids: Iterable[int]) -> None:
        for producer_id in producer_ids:
            del self.by_id[producer_id]
            self.census.count -= 1

    # ---- batches -------------------------------------------------------------------------------

    def update(self, header: BatchHeader, base_offset: int, now_ms: int = -1) -> None:
        """Take note of a data batch that is now in the log at `base_offset`.

        `now_ms`, if it is not replayed: whoever stamps records in the distant past is not forgotten,
        and whoever stamps them in the future is not remembered for ever.
        """
        producer = self._known(header.producer_id)
        if producer.epoch != header.producer_epoch or producer.yields_to(header):
            producer.epoch, producer.packed = header.producer_epoch, b""
        if not header.is_transactional:
            producer.coordinator_epoch = -1
        sequences = header.base_sequence, header.last_sequence
        offsets = base_offset, base_offset + header.last_offset_delta
        stored = _STORED.pack(*sequences, *offsets, header.max_timestamp)
        producer.packed = producer.packed[(1 - BATCHES_KEPT) * _STORED.size :] + stored
        producer.timestamp = now_ms if now_ms >= 0 else header.max_timestamp
        if header.is_transactional and producer.transaction_start < 0:
            producer.transaction_start = base_offset
            self.open_transactions[header.producer_id] = base_offset
            if self._first_open is None:
                self._first_open = base_offset

    def end_transaction(
        self, header: BatchHeader, coordinator_epoch: int, base_offset: int = -1, now_ms: int = -1
    ) -> int:
        """Take note of a marker; returns the first offset of the transaction it ended, or -1."""
        if header.producer_id not in self.by_id and not self._has_room(made_up=False):
            return -1  # it ends nothing here
        producer = self._known(header.producer_id)
        if producer.epoch != header.producer_epoch:
            producer.epoch, producer.packed = header.producer_epoch, b""
        start, producer.transaction_start = producer.transaction_start, -1
        producer.timestamp = now_ms if now_ms >= 0 else header.max_timestamp
        producer.coordinator_epoch = coordinator_epoch
        if start >= 0 and now_ms >= 0:  # else it is replayed, and durable
            self._ending = (*self._ending, (base_offset, start))
        self.open_transactions.pop(header.producer_id, None)
        self._first_open = next(iter(self.open_transactions.values()), None)
        return start

    def note_epoch(self, header: BatchHeader) -> None:
        """Take note of a marker of which only the header is left: it ends nothing any more, but older
        incarnations of its producer stay fenced."""
        if header.producer_id not in self.by_id and not self._has_room(made_up=False):
            return
        producer = self._known(header.producer_id)
        if header.producer_epoch > producer.epoch:
            producer.epoch, producer.packed = header.producer_epoch, b""
        producer.timestamp = max(producer.timestamp, header.max_timestamp)

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

    def seen(self, producer_id: int, now_ms: int) -> None:
        """It has given a sign of life, perhaps as late as this."""
        producer = self.by_id.get(producer_id)
        if producer is not None:
            producer.timestamp = max(producer.timestamp, now_ms)

    def expire(self, before_ms: int, now_ms: int | None = None) -> None:
        """Forget producers that have been silent since `before_ms`. With `now_ms`, whoever was last seen
        in the future, by records that were replayed, is seen now."""
        silent = []
        for producer_id, producer in self.by_id.items():
            if now_ms is not None and producer.timestamp > now_ms:
                producer.timestamp = now_ms
            if producer.timestamp < before_ms and producer.transaction_start < 0:
                silent.append(producer_id)
        self._forget(silent)

    # ---- snapshot ------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        rows = [_COUNT.pack(len(self.by_id))]
        for producer_id, producer in self.by_id.items():
            packed = producer.packed[-_STORED.size :] or _NOTHING
            _, last_sequence, base_offset, last_offset, _ = _STORED.unpack(packed)
            rows.append(
                _ENTRY.pack(
                    producer_id,
                    producer.epoch,
                    last_sequence,
                    last_offset,
                    last_offset - base_offset,
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
            found._restore(row)
        found._trim()
        return found

    def _restore(self, row: tuple[int, ...]) -> None:
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, *others = row
        coordinator_epoch, transaction_start = others
        producer = Producer(epoch, timestamp=timestamp, coordinator_epoch=coordinator_epoch)
        if last_sequence >= 0:
            first = (last_sequence - offset_delta) % _SEQUENCES
            base_offset = last_offset - offset_delta
            stored = Stored(first, last_sequence, base_offset, last_offset, timestamp)
            producer.packed = _STORED.pack(*stored)
        if transaction_start >= 0:
            producer.transaction_start = transaction_start
            self.open_transactions[producer_id] = transaction_start
            self._first_open = next(iter(self.open_transactions.values()))
        self.by_id[producer_id] = producer
