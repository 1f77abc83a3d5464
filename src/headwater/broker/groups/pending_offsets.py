"""Offsets that are committed with a transaction: nobody sees them before its marker is written.

k28 calls `commit` through `coordinator.pending`, the transaction coordinator calls `end_transaction`
when a marker in `__consumer_offsets` is durable, and `Broker` calls `restore` at start with what the
log holds of transactions that are still open. The offsets themselves lie in `GroupOffsets.pending`.
They are laid over the view when they are staged, because a marker may follow at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kio.schema.errors import ErrorCode

from headwater.broker.groups import records
from headwater.broker.groups.core import Core
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.group import Group
from headwater.broker.groups.journal import RecordTooLarge
from headwater.broker.groups.offset_store import Commit, Committed, Committer, encode
from headwater.broker.groups.offsets import Key
from headwater.broker.groups.records import OffsetKey, OffsetValue
from headwater.broker.partition import Partition
from headwater.broker.promise import promise
from headwater.log.partition import StorageFailed

log = logging.getLogger(__name__)

Records = list[tuple[bytes, bytes | None]]
Admit = Callable[[], tuple[ErrorCode, tuple[Partition, int] | None]]
"""Asks the transaction coordinator; on success perhaps with something that must be durable, too."""


class Staged(Protocol):
    """Where the records are, up to which offset that must be durable, and their order."""

    @property
    def partition(self) -> Partition: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def order(self) -> int: ...


class Store(Protocol):
    """The internal topic `__consumer_offsets`."""

    def partition_of(self, group_id: str, /) -> Partition: ...

    def append_pending(
        self, group_id: str, entries: Records, producer: tuple[int, int]
    ) -> Staged: ...


class Pending:
    def __init__(self, core: Core, committed: Committed, store: Store) -> None:
        self._core = core
        self._committed = committed
        self._store = store
        self._groups: dict[int, set[str]] = {}
        """Producer id → groups with offsets of its open transaction."""

    async def commit(
        self,
        committer: Committer,
        commits: Sequence[Commit],
        producer: tuple[int, int],
        admit: Admit,
    ) -> list[ErrorCode]:
        """One error code for each commit; `admit` is asked first, at the last possible moment."""
        error, added = admit()
        if error is not ErrorCode.none:
            return [error] * len(commits)
        group, error = self._committed.group_of(committer, transactional=True)
        if group is None or error is not ErrorCode.none:
            return [error] * len(commits)
        errors = self._committed.commit_errors(group, committer, commits)
        accepted = [c for c, e in zip(commits, errors, strict=True) if e is ErrorCode.none]
        if not accepted:
            return errors
        failed = await self._write(group, accepted, producer, added)
        return [failed if e is ErrorCode.none else e for e in errors]

    async def _write(
        self,
        group: Group,
        accepted: list[Commit],
        producer: tuple[int, int],
        added: tuple[Partition, int] | None,
    ) -> ErrorCode:
        now = self._core.clock.now_ms()
        values: dict[Key, OffsetValue] = {
            (c.topic, c.partition): OffsetValue(
                c.offset,
                c.leader_epoch,
                c.metadata or "",
                now,
                topic_id=self._core.topic_id(c.topic),
            )
            for c in accepted
        }
        try:
            staged = self._store.append_pending(group.id, encode(group.id, dict(values)), producer)
            self._lay_over(producer[0], group.id, values, staged.order)
            written = staged.partition, staged.next_offset
            written[0].when_durable(
                written[1],
                lambda error: self._settled(producer[0], group.id, values, staged.order, error),
            )
            for each in [promise(*place) for place in (written, added) if place is not None]:
                await each
        except RecordTooLarge:
            return ErrorCode.invalid_commit_offset_size
        except StorageFailed as error:
            log.error("offsets of a transaction could not be written: %s", error)
            return ErrorCode.not_coordinator
        return ErrorCode.none

    def _lay_over(
        self, producer_id: int, group_id: str, values: Mapping[Key, OffsetValue], order: int
    ) -> None:
        offsets = self._core.offsets.open(group_id)
        for key, value in values.items():
            offsets.lay_over(producer_id, key, value, order)
        self._groups.setdefault(producer_id, set()).add(group_id)

    def _settled(
        self,
        producer_id: int,
        group_id: str,
        keys: Iterable[Key],
        order: int,
        error: Exception | None,
    ) -> None:
        """What the disk has refused is taken back, whether anybody still waits for it or not; what it has
        taken is all that is needed of what came before."""
        offsets = self._core.offsets.of(group_id)
        settle = offsets.take_back if error is not None else offsets.supersede
        for key in keys:
            settle(producer_id, key, order)

    # ---- the end -------------------------------------------------------------------------------

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """The marker is durable in this partition of `__consumer_offsets`."""
        groups = self._groups.get(producer_id, set())
        ended = [each for each in groups if self._store.partition_of(each).number == partition]
        for group_id in ended:
            groups.discard(group_id)
            self._end(group_id, producer_id, commit)
        if not groups:
            self._groups.pop(producer_id, None)

    def _end(self, group_id: str, producer_id: int, commit: bool) -> None:
        offsets = self._core.offsets.of(group_id)
        values = offsets.pending.pop(producer_id, {})
        for key, sent in values.items() if commit else ():
            order, value = sent[-1]
            offsets.count(key, value, order)
        group = self._core.groups.get(group_id)
        if group is not None:
            self._committed.let_go(group)
        else:
            self._core.offsets.close(group_id)

    def restore(self, pending: Iterable[tuple[int, bytes, bytes | None, int]]) -> None:
        """At start: offsets of transactions that have not ended yet, with their producer and order."""
        for each in pending:
            try:
                self._restore(*each)
            except BadRecord as error:
                log.warning("a record of __consumer_offsets cannot be read: %s", error)

    def _restore(self, producer_id: int, key_bytes: bytes, value: bytes | None, order: int) -> None:
        core, key = self._core, records.read_key(key_bytes)
        if not isinstance(key, OffsetKey) or value is None:
            return
        offset = records.read_offset_value(value)
        if not core.is_current(key.topic, offset):
            core.stale_offsets.add(key)
            return
        self._lay_over(producer_id, key.group_id, {(key.topic, key.partition): offset}, order)
        if key.group_id not in core.groups:
            core.create_classic(key.group_id)
