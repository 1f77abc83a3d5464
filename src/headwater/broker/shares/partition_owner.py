"""One share-partition in a running broker: the state machine, joined to its log, clock and readers.

`coordinator` makes one for each partition that a share group reads; ShareFetch acquires here,
ShareAcknowledge settles here, the clock ends locks here. One event loop owns it. The order is always

    decide (state machine) → dead letter, where one is due, durable → state record durable → effect, answer

so a crash between any two steps leaves a record acknowledged for good, or to be delivered again.
Giving records back takes effect at once and is only noted in the log.

The state may be put aside while somebody waits (an administrator sends the group elsewhere, the group is
deleted). So whoever changes it says which state it has seen, and in the step of the append it is looked
whether that still is the one: nothing that was decided on the old state reaches the new one, in memory or
in the log. From the append of a new beginning on there is no state, until that is durable; from the append
of a tombstone on nothing is written at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker.partition import Partition
from headwater.broker.promise import promise
from headwater.broker.shares import start_offset
from headwater.broker.shares.ack import Ack, Acknowledgement
from headwater.broker.shares.dead_records import Origin
from headwater.broker.shares.membership import ShareGroup
from headwater.broker.shares.records import SNAPSHOT, UPDATE, Key, Value
from headwater.broker.shares.state import (
    AckError,
    Acquired,
    Batch,
    Change,
    Limits,
    Reason,
    SharePartition,
    UnknownRecords,
)
from headwater.broker.shares.state_topic import Kept
from headwater.broker.topic_admission import TopicError
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.shares.coordinator import ShareCoordinator

logger = logging.getLogger("headwater.broker")


class Overtaken(StorageFailed):
    """The state that this was decided on has been put aside meanwhile."""


class PartitionOwner:
    """The one owner of a share-partition's state."""

    def __init__(self, shares: ShareCoordinator, key: Key, topic: str, kept: Kept) -> None:
        self.key = key
        self.topic = topic
        self.state: SharePartition | None = kept.state
        self.waiting: set[Callable[[], None]] = set()
        """Called when there is something to deliver again."""
        self._shares = shares
        self._kept = kept
        self._outstanding: list[Sequence[Change]] = []
        """Changes of `state` on their way to the disk."""
        self.is_gone = False
        """From the append of its tombstone on: nothing that is written may stand behind that."""
        self._opening = asyncio.Lock()

    # ---- life --------------------------------------------------------------------------------------

    @property
    def source(self) -> Partition | None:
        """The partition; None once its topic is deleted, even if another has its name now."""
        node = self._shares.node
        if self.key.topic_id not in node.catalogue.by_id:
            return None
        return node.topics.partitions.get((self.topic, self.key.partition))

    def limits(self) -> Limits:
        group, name = self._shares.settings.group, self.key.group_id
        return Limits(
            group(name, "share.record.lock.duration.ms"),
            group(name, "share.delivery.count.limit"),
            group(name, "share.partition.max.record.locks"),
        )

    async def open(self) -> SharePartition:
        """The state; a group that comes for the first time begins where its config says."""
        if self.state is None:
            await self._shares.to_its_end(self._begin())
        state, source = self._known(), self.source
        if source is not None and state.move_start(source.log.start_offset):
            self._wake()
        return state

    def _known(self) -> SharePartition:
        """Raises StorageFailed while the group is told to begin elsewhere (`reset`)."""
        if self.state is None:
            raise StorageFailed(f"{self} is being told to begin elsewhere")
        return self.state

    async def _begin(self) -> None:
        async with self._opening:
            if self.state is None:
                await self._reset(await self._first_offset())

    async def _first_offset(self) -> int:
        source = self.source
        if source is None:
            raise StorageFailed(f"{self.topic}-{self.key.partition} is gone")
        reset = self._shares.settings.group(self.key.group_id, "share.auto.offset.reset")
        return await self._shares.in_thread(
            start_offset.offset_at, reset, source.log, self._shares.clock.now_ms()
        )

    async def reset(self, start: int) -> None:
        """Begin anew at this offset (-1: where the config will say), durably. Raises StorageFailed."""
        await self._shares.to_its_end(self._begin_at(start))

    async def _begin_at(self, start: int) -> None:
        async with self._opening:
            await self._reset(start)

    async def _reset(self, start: int) -> None:
        await self._shares.states.ensure()
        if self.is_gone:
            raise StorageFailed(f"{self} has been deleted; it may begin again")
        kept, known = self._kept, self._shares.states.known
        now_ms = self._shares.clock.now_ms()
        kept.snapshot_epoch += 1
        created = kept.created or now_ms
        value = Value(kept.snapshot_epoch, start, (), 0, kept.state_epoch + 1, created, now_ms)
        before = replace(kept)
        durable = promise(*self._shares.states.append(self.key, SNAPSHOT, value, kept))
        is_first = known.setdefault(self.key, kept).created == 0
        self._shares.groups.setdefault(self.key.group_id, ShareGroup(self.key.group_id))
        kept.state_epoch, kept.created = value.state_epoch, created
        kept.start, kept.updates = start, 0
        try:
            await self._put_aside(durable)
        except StorageFailed:
            kept.state_epoch, kept.created = before.state_epoch, before.created
            kept.start, kept.updates = before.start, before.updates
            if is_first:
                known.pop(self.key, None)
                self._shares.drop_unused(self.key.group_id)
            raise
        self.state = None if start < 0 else SharePartition(start)
        self._wake()

    async def forget(self) -> None:
        """The group has nothing to do with this partition any more, durably."""
        async with self._opening:
            tombstone = promise(*self._shares.states.append(self.key, SNAPSHOT, None))
            self.is_gone = True
            try:
                await self._put_aside(tombstone)
            except StorageFailed:
                self.is_gone = False
                raise

    async def _put_aside(self, durable: asyncio.Future[None]) -> None:
        """Called in the step of the append; if the disk refuses it, the state is what it was."""
        before = self.state, self._outstanding
        self.state, self._outstanding = None, []
        try:
            await durable
        except StorageFailed:
            self.state, self._outstanding = before
            raise

    # ---- delivering --------------------------------------------------------------------------------

    def acquire(
        self,
        member: str,
        batches: Sequence[Batch],
        read_from: int,
        records_max: int,
        batch_size: int,
        exactly: bool,
        seen: SharePartition | None = None,
    ) -> list[Acquired]:
        """Nothing, if the state is no longer the one that was `seen` when the batches were read."""
        self._shares.releases.catch_up(member, self.key)
        state = self.state if seen is None else seen
        if state is None or state is not self.state:
            return []
        taken = state.acquire(
            member,
            batches,
            self.limits(),
            self._shares.now(),
            read_from=read_from,
            records_max=records_max,
            batch_size=batch_size,
            exactly=exactly,
        )
        if taken:
            self._shares.releases.holds(member, self.key)
        self._arm()
        return taken

    # ---- settling ----------------------------------------------------------------------------------

    async def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement]
    ) -> tuple[ErrorCode, str | None]:
        """Settle what a member says; done when it is durable."""
        self._shares.releases.catch_up(member, self.key)
        seen = self.state
        if seen is None:
            return ErrorCode.invalid_request, None
        if any(Ack.RENEW in each.types for each in acknowledgements) and not self._may_renew():
            message = "Renewing acquisition locks is not enabled for the group."
            return ErrorCode.invalid_record_state, message
        try:
            changes = seen.acknowledge(member, acknowledgements, self.limits(), self._shares.now())
        except UnknownRecords:
            return ErrorCode.invalid_request, None
        except AckError as error:
            return ErrorCode.invalid_record_state, str(error)
        self._arm()
        return await self._settle(seen, changes)

    def _may_renew(self) -> bool:
        group = self._shares.settings.group
        return bool(group(self.key.group_id, "share.renew.acknowledge.enable"))

    async def _settle(
        self, seen: SharePartition, changes: Sequence[Change]
    ) -> tuple[ErrorCode, str | None]:
        """Let all of it take effect once it is written down, or nothing: what was marked in the turn of
        the decision is committed or undone here, whatever happens."""
        try:
            if changes:
                dead = [each for each in changes if each.reason is not Reason.NONE]
                await self._bury(seen, dead)
                await self._write(seen, changes)
        except BaseException as error:
            self._undo(seen, changes)
            if isinstance(error, Overtaken):
                return ErrorCode.invalid_record_state, str(error)
            if not isinstance(error, StorageFailed | TopicError | OSError):
                raise
            logger.error("%s: an acknowledgement could not be written: %s", self, error)
            return ErrorCode.kafka_storage_error, str(error)
        seen.commit(changes)
        self._wake()
        return ErrorCode.none, None

    async def _bury(self, seen: SharePartition, dead: Sequence[Change]) -> None:
        if dead and self.source is not None:
            if self.state is not seen:
                raise Overtaken(f"{self} was told to begin elsewhere")
            state, letters = self._kept.identity(self.key), self._shares.dead_letters
            await letters.put(Origin(self.key, state, self.topic), self.source, dead)

    async def _write(self, seen: SharePartition, changes: Sequence[Change]) -> None:
        """Durable when done."""
        outstanding = self._outstanding
        durable = promise(*self._append(seen, changes))
        outstanding.append(changes)
        try:
            await durable
        finally:
            outstanding.remove(changes)

    def _undo(self, seen: SharePartition, changes: Sequence[Change]) -> None:
        seen.undo(changes, self._shares.now() + self.limits().lock_ms)
        self._arm()

    def _append(self, seen: SharePartition, changes: Sequence[Change]) -> tuple[Partition, int]:
        """Raises Overtaken, StorageFailed."""
        if self.state is not seen:
            raise Overtaken(f"{self} was told to begin elsewhere")
        kept, states = self._kept, self._shares.states
        kept.updates += 1
        kept.start = seen.start
        if kept.updates >= self._shares.updates_per_snapshot:
            return self.snapshot(changes)
        value = Value(kept.snapshot_epoch, seen.start, changes, seen.settled_count())
        return states.append(self.key, UPDATE, value)

    def snapshot(self, changes: Sequence[Change] = ()) -> tuple[Partition, int]:
        """Write the whole state, as the log will have it once everything under way is there. Raises
        Overtaken, StorageFailed."""
        if self.is_gone:
            raise Overtaken(f"{self} has been deleted")
        kept = self._kept
        view = SharePartition(kept.start)
        if self.state is not None:
            view = SharePartition(self.state.start, self.state.durable())
            for each in (*self._outstanding, changes):
                view.restore(each)
        kept.snapshot_epoch += 1
        kept.updates = 0
        now_ms = self._shares.clock.now_ms()
        value = Value(
            kept.snapshot_epoch,
            view.start,
            view.durable(),
            view.settled_count(),
            kept.state_epoch,
            kept.created,
            now_ms,
        )
        return self._shares.states.append(self.key, SNAPSHOT, value)

    # ---- giving back -------------------------------------------------------------------------------

    def release(self, member: str) -> None:
        """The member is gone: what it holds is free at once."""
        if self.state is not None:
            self._give_back(self.state, *self.state.release(member, self.limits()))

    def expire(self) -> None:
        """Locks whose time is over."""
        if self.state is not None:
            now = self._shares.now()
            self._give_back(self.state, *self.state.expire(self.limits(), now))

    def _give_back(
        self, seen: SharePartition, freed: Sequence[Change], given_up: Sequence[Change]
    ) -> None:
        if freed:
            self._note(seen, freed)
        if given_up:
            self._shares.spawn(self._settle(seen, given_up))
        self._arm()

    def _note(self, seen: SharePartition, freed: Sequence[Change]) -> None:
        """Nobody waits for this: were it lost, the records would be delivered again all the same."""
        try:
            self._append(seen, freed)
        except StorageFailed as error:
            logger.warning("%s: a delivery count could not be written: %s", self, error)
        self._wake()

    # ---- waking ------------------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline = None if self.state is None else self.state.next_deadline()
        if deadline is not None:
            self._shares.wake_at(self, deadline)

    def _wake(self) -> None:
        for wake in tuple(self.waiting):
            self._shares.node.supervisor.call("share groups", wake)

    def settled(self) -> int:
        return 0 if self.state is None else self.state.settled_count()

    def __str__(self) -> str:
        return f"share group {self.key.group_id}, {self.topic}-{self.key.partition}"
