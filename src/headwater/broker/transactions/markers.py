"""Markers: how a transaction ends in each partition that it wrote to.

`coordinator` calls `write` once the end is decided and durable, k27 for other people's markers. All
partitions get theirs at once, and then all are waited for. Writing a marker twice does no harm: the
second one ends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from headwater.broker.internal_topics import CONSUMER_OFFSETS as OFFSETS
from headwater.broker.partition import Partition
from headwater.broker.promise import promise
from headwater.broker.slices import SLICE_ELEMENTS, pieces
from headwater.broker.transactions.transaction import TopicPartition
from headwater.broker.turns import LOOKS_AT_ONCE, give_way
from headwater.log.partition import StorageFailed
from headwater.log.producers import CoordinatorFenced, FencedEpoch
from headwater.record import batch as batches
from headwater.record import control


class Marker(NamedTuple):
    """What is to be written into each of the partitions."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int

    def raised_to(self, epoch: int, coordinator_epoch: int) -> Marker:
        epochs = max(self.epoch, epoch), max(self.coordinator_epoch, coordinator_epoch)
        return Marker(self.producer_id, epochs[0], self.commit, epochs[1])


class PendingOffsets(Protocol):
    """The groups' offsets that wait for the end of a transaction."""

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None: ...


class Markers:
    def __init__(
        self,
        partition: Callable[[str, int], Partition | None],
        absence: Callable[[str, int], ErrorCode],
        pending: PendingOffsets,
        now_ms: Callable[[], int],
    ) -> None:
        self._partition = partition
        self._absence = absence
        self._pending = pending
        self._now_ms = now_ms

    async def write(
        self,
        marker: Marker,
        partitions: Iterable[TopicPartition],
        *,
        strict: bool = False,
        decided: bool = False,
    ) -> dict[TopicPartition, ErrorCode]:
        """The outcome for each partition; durable where it is `none`.

        `strict`: the marker's epoch must be higher than any the partition knows of the producer.
        `decided`: by the coordinator, and durable; no epoch that a partition has seen keeps it from being
        written, it is raised to that one if the coordinator has given it out, and counts as newer if not.
        """
        wanted = list(dict.fromkeys(partitions))
        staged: list[asyncio.Future[None] | ErrorCode] = []
        # All are staged before the first is waited for: they share what commits there are.
        for some in pieces(wanted, LOOKS_AT_ONCE):
            if staged:
                await give_way()  # there may be thousands: others are served in between
            staged += [self.stage(marker, *each, strict=strict, decided=decided) for each in some]
        errors = list[ErrorCode]()
        for waited in pieces(staged, SLICE_ELEMENTS):
            errors += await asyncio.gather(*map(self.finish, waited))
        return dict(zip(wanted, errors, strict=True))

    async def write_left(
        self, marker: Marker, partitions: Set[TopicPartition], done: set[TopicPartition]
    ) -> bool:
        """The markers of an end that was decided: each once, however long another partition is offline.

        `done`: the partitions that have theirs, durably; more are added. Whether all have it: then it is
        empty again, for whatever ends next.
        """
        errors = await self.write(marker, sorted(partitions - done), decided=True)
        done.update(each for each, error in errors.items() if error is ErrorCode.none)
        is_whole = are_written(errors)
        if is_whole:
            done.clear()
        return is_whole

    def coordinator_epoch(self, producer_id: int, partitions: Iterable[TopicPartition]) -> int:
        """The highest that any of these partitions has seen in a marker for this producer."""
        found = (self._partition(*each) for each in partitions)
        seen = (each.log.producers.by_id.get(producer_id) for each in found if each is not None)
        return max((each.coordinator_epoch for each in seen if each is not None), default=-1)

    def stage(
        self,
        marker: Marker,
        topic: str,
        number: int,
        *,
        strict: bool = False,
        decided: bool = False,
    ) -> asyncio.Future[None] | ErrorCode:
        """Append one in this turn, for `finish` to wait for; see `write`."""
        partition = self._partition(topic, number)
        if partition is None:
            return self._absence(topic, number)
        known = partition.log.producers.by_id.get(marker.producer_id)
        if decided and known is not None and known.is_proven:
            marker = marker.raised_to(known.epoch, known.coordinator_epoch)
        try:
            partition.log.producers.check_marker(
                marker.producer_id, marker.epoch - strict, marker.coordinator_epoch
            )
            now_ms = self._now_ms()
            data = control.marker(
                control.COMMIT if marker.commit else control.ABORT,
                marker.producer_id,
                marker.epoch,
                0,
                now_ms,
                marker.coordinator_epoch,
            )
            next_offset = partition.append(data, batches.read_header(data), now_ms) + 1
            if topic == OFFSETS:
                self._watch(marker, partition, next_offset)
            return promise(partition, next_offset)
        except FencedEpoch:
            return ErrorCode.invalid_producer_epoch
        except CoordinatorFenced:
            return ErrorCode.transaction_coordinator_fenced
        except StorageFailed:
            return ErrorCode.kafka_storage_error

    def _watch(self, marker: Marker, partition: Partition, next_offset: int) -> None:
        """The groups hear of it even if whoever asked for the marker goes away."""

        def done(error: Exception | None) -> None:
            if error is None:
                self._pending.end_transaction(partition.number, marker.producer_id, marker.commit)

        partition.when_durable(next_offset, done)

    async def finish(self, staged: asyncio.Future[None] | ErrorCode) -> ErrorCode:
        """How that went, once it is known."""
        if isinstance(staged, ErrorCode):
            return staged
        try:
            await staged
        except StorageFailed:
            return ErrorCode.kafka_storage_error
        return ErrorCode.none


def are_written(errors: Mapping[TopicPartition, ErrorCode]) -> bool:
    """Every partition that there still is has its marker; nothing else may pass for an end."""
    gone = ErrorCode.unknown_topic_or_partition
    return all(each is ErrorCode.none or each is gone for each in errors.values())
