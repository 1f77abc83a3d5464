"""How groups and offsets end: DeleteGroups, expiry of old offsets, topics that were deleted.

`k42` and the coordinator's timer call this. Whatever goes is written as tombstones first and leaves
memory when these are durable; meanwhile a group that is being removed is dead, so that nobody can
join or commit to something that will be gone in a moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from kio.schema.errors import ErrorCode

from headwater.broker.groups.core import EXPIRY, Core, answer, ticket
from headwater.broker.groups.group import Group
from headwater.broker.groups.journal import Records
from headwater.broker.groups.offset_store import Committed, encode
from headwater.broker.groups.offsets import Key, expired

log = logging.getLogger(__name__)

AT_ONCE = 200
"""So many groups are looked at in one turn of the event loop."""


class Removal:
    def __init__(self, core: Core, committed: Committed) -> None:
        self._core = core
        self._committed = committed
        self._going: dict[str, list[asyncio.Future[ErrorCode]]] = {}
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

    # ---- topics that are gone ----------------------------------------------------------------------

    def topic_gone(self, topic: str) -> None:
        """Forget all offsets of a topic in the turn in which it is gone, and begin to erase them.

        Should the disk refuse that, they stay in the log, where they belong to the topic's id.
        """
        gone: dict[str, list[Key]] = {}
        for group_id in self._core.offsets.groups_with(topic):
            offsets = self._core.offsets.of(group_id)
            gone[group_id] = [key for key in offsets.all_keys() if key[0] == topic]
            for key in gone[group_id]:
                offsets.drop(key)
            self._core.offsets.close(group_id)
        self._in_turns(self._erasures(gone, self._going.setdefault(topic, [])))

    async def offsets_erased(self, topic: str) -> None:
        """Wait for that."""
        for error in [await each for each in self._going.pop(topic, [])]:
            if error is not ErrorCode.none:
                log.warning("offsets of deleted topic %s stay in the log: %s", topic, error.name)

    def erase_stale(self) -> None:
        """At start: the log still has offsets of topics that are gone. Where a transaction has one on its
        way for the topic that has the name now, the tombstone would end that: the old one stays in the log,
        where it belongs to its topic's id."""
        stale: dict[str, list[Key]] = {}
        for each in self._core.stale_offsets:
            key = (each.topic, each.partition)
            if not self._core.offsets.of(each.group_id).holds(key):
                stale.setdefault(each.group_id, []).append(key)
        if stale:
            log.info("%d groups have offsets of deleted topics, which are dropped", len(stale))
        self._in_turns(self._erasures(stale, []))
        self._core.stale_offsets.clear()

    def _in_turns(self, steps: Iterator[None]) -> None:
        """Do what there is to do, usually at once; very much of it in turns, and others have theirs."""
        if len(list(islice(steps, AT_ONCE))) == AT_ONCE:
            self._core.supervisor.spawn("offset expiry", self._go_on(steps))

    async def _go_on(self, steps: Iterator[None]) -> None:
        while len(list(islice(steps, AT_ONCE))) == AT_ONCE:
            await asyncio.sleep(0)

    def _erasures(
        self, gone: Mapping[str, list[Key]], into: list[asyncio.Future[ErrorCode]]
    ) -> Iterator[None]:
        for number, (group_id, keys) in enumerate(gone.items()):
            if number >= AT_ONCE:  # what has come under the name in the turns between stays
                offsets = self._core.offsets.of(group_id)
                keys = [key for key in keys if not offsets.holds(key)]
            if keys:
                self._erase(group_id, keys, into)
            yield

    def _erase(self, group_id: str, keys: list[Key], into: list[asyncio.Future[ErrorCode]]) -> None:
        waiting = ticket()
        into.append(waiting)
        tombstones = encode(group_id, dict.fromkeys(keys))
        self._core.journal.append(group_id, tombstones, lambda error: answer(waiting, error))

    # ---- expiry ----------------------------------------------------------------------------------

    def schedule_expiry(self) -> None:
        core = self._core
        interval = core.settings.get("offsets.retention.check.interval.ms")
        core.deadlines.wake(EXPIRY, core.now().monotonic_ms + interval)

    def expire(self) -> None:
        """Remove expired offsets, and groups that are empty and have none left (KIP-211)."""
        self.schedule_expiry()
        self._in_turns(self._expiries())

    def _expiries(self) -> Iterator[None]:
        for group in list(self._core.groups.values()):
            if self._core.refusal is ErrorCode.none and self._core.groups.get(group.id) is group:
                try:
                    self._expire_group(group)
                except Exception as error:  # the other groups have their turn all the same
                    self._core.supervisor.failed("offset expiry", error, group.id)
            yield

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
