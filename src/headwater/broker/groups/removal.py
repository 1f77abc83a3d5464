"""How groups and offsets end: DeleteGroups, expiry of old offsets, topics that were deleted.

`k42` and the coordinator's timer call this. Whatever goes is written as tombstones first and leaves
memory when these are durable; meanwhile a group that is being removed is dead, so that nobody can
join or commit to something that will be gone in a moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups.committed import Committed, encode
from headwater.broker.groups.core import EXPIRY, Core, answer, ticket
from headwater.broker.groups.group import Group
from headwater.broker.groups.journal import Records
from headwater.broker.groups.offsets import expired

log = logging.getLogger(__name__)


class Removal:
    def __init__(self, core: Core, committed: Committed) -> None:
        self._core = core
        self._committed = committed
        core.on_expiry_due = self.expire

    async def delete_group(self, group_id: str) -> ErrorCode:
        core = self._core
        if core.refusal is not ErrorCode.none:
            return core.refusal
        group = core.groups.get(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        error = group.delete_error()
        if error is not ErrorCode.none:
            return error
        waiting: asyncio.Future[ErrorCode] = ticket()
        self._remove(group, lambda error: answer(waiting, error))
        return await waiting

    def _remove(self, group: Group, then: Callable[[ErrorCode], None]) -> None:
        core = self._core
        group.set_dead(True)
        gone = dict.fromkeys(core.offsets.of(group.id).all_keys())
        tombstones: Records = encode(group.id, gone)
        tombstones += [(key, None) for key in group.tombstone_keys()]

        def removed(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                core.forget(group.id)
            else:
                group.set_dead(False)
            then(error)

        core.journal.append(group.id, tombstones, removed)

    def topic_deleted(self, topic: str) -> Coroutine[Any, Any, None]:
        """Forget all offsets of a topic that is gone: a new topic of that name starts afresh."""
        groups = self._core.offsets.groups_with(topic)
        return self._topic_deleted(topic, [self._erase_topic(g, topic) for g in groups])

    async def _topic_deleted(self, topic: str, waiting: list[asyncio.Future[ErrorCode]]) -> None:
        for error in [await each for each in waiting]:
            if error is not ErrorCode.none:
                log.warning("offsets of deleted topic %s remain: %s", topic, error.name)

    def _erase_topic(self, group_id: str, topic: str) -> asyncio.Future[ErrorCode]:
        waiting = ticket()
        keys = [key for key in self._core.offsets.of(group_id).all_keys() if key[0] == topic]
        self._committed.erase(group_id, keys, lambda error: answer(waiting, error))
        return waiting

    # ---- expiry ----------------------------------------------------------------------------------

    def schedule_expiry(self) -> None:
        core = self._core
        interval = core.settings.get("offsets.retention.check.interval.ms")
        core.deadlines.wake(EXPIRY, core.now().monotonic_ms + interval)

    def expire(self) -> None:
        """Remove expired offsets, and groups that are empty and have none left (KIP-211)."""
        self.schedule_expiry()
        if self._core.refusal is ErrorCode.none:
            for group in list(self._core.groups.values()):
                try:
                    self._expire_group(group)
                except Exception as error:  # the other groups have their turn all the same
                    self._core.supervisor.failed("offset expiry", error, group.id)

    def _expire_group(self, group: Group) -> None:
        core = self._core
        offsets = core.offsets.of(group.id)
        retention_ms = core.settings.get("offsets.retention.minutes") * 60_000
        old = expired(group, offsets, core.clock.now_ms(), retention_ms)
        if group.is_idle and not offsets.writing and len(old) == sum(1 for _ in offsets.all_keys()):
            log.info("group %s is empty and has no offsets left: removed", group.id)
            self._remove(group, lambda _error: None)
        elif old:
            log.info("group %s: %d offsets have expired", group.id, len(old))
            self._committed.erase(group.id, old, lambda _error: None)
