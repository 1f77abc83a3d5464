"""Markers: how a transaction ends in each partition that it wrote to.

`coordinator` calls `write` once the end is decided and durable, k27 for other people's markers. All
partitions get theirs at once, and then all are waited for. Writing a marker twice does no harm: the
second one ends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from headwater.broker.offsets_topic import NAME as OFFSETS
from headwater.broker.partition import Partition
from headwater.broker.promise import promise
from headwater.broker.transactions.transaction import TopicPartition
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


class PendingOffsets(Protocol):
    """The groups' offsets that wait for the end of a transaction."""

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None: ...


class Markers:
    def __init__(
        self,
        partition: Callable[[str, int], Partition | None],
        pending: PendingOffsets,
        now_ms: Callable[[], int],
    ) -> None:
        self._partition = partition
        self._pending = pending
        self._now_ms = now_ms

    async def write(
        self, marker: Marker, partitions: Iterable[TopicPartition], *, strict: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """The outcome for each partition; durable where it is `none`.

        `strict`: the marker's epoch must be higher than any the partition knows of the producer.
        """
        wanted = list(partitions)
        # All are staged before the first is waited for: they share what commits there are.
        staged = [self._stage(marker, *each, strict) for each in wanted]
        errors = await asyncio.gather(*map(self._finish, staged))
        return dict(zip(wanted, errors, strict=True))

    def coordinator_epoch(self, producer_id: int, partitions: Iterable[TopicPartition]) -> int:
        """The highest that any of these partitions has seen in a marker for this producer."""
        found = (self._partition(*each) for each in partitions)
        seen = (each.log.producers.by_id.get(producer_id) for each in found if each is not None)
        return max((each.coordinator_epoch for each in seen if each is not None), default=-1)

    def _stage(
        self, marker: Marker, topic: str, number: int, strict: bool
    ) -> asyncio.Future[None] | ErrorCode:
        partition = self._partition(topic, number)
        if partition is None:
            return ErrorCode.unknown_topic_or_partition
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

    async def _finish(self, staged: asyncio.Future[None] | ErrorCode) -> ErrorCode:
        if isinstance(staged, ErrorCode):
            return staged
        try:
            await staged
        except StorageFailed:
            return ErrorCode.kafka_storage_error
        return ErrorCode.none
