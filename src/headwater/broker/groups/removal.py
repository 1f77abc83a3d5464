"""How groups and offsets end: DeleteGroups, expiry of old offsets, topics that were deleted.

`k42` and the coordinator's timer call this. Whatever goes is written as tombstones first and leaves
memory when these are durable; meanwhile a group that is being removed is dead, so that nobody can
join or commit to something that will be gone in a moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence

from kio.schema.errors import ErrorCode

from headwater.broker.groups.core import EXPIRY, Core, answer, ticket
from headwater.broker.groups.group import Group
from headwater.broker.groups.journal import Records
from headwater.broker.groups.offset_store import Committed, encode
from headwater.broker.groups.offsets import Key, expired
from headwater.broker.slices import SLICE_ELEMENTS, pieces
from headwater.broker.turns import Pace, give_way

log = logging.getLogger(__name__)

AT_ONCE = 200
"""So many groups are looked at in one turn of the event loop, or fewer where that takes too long."""


Begun = list[asyncio.Future[ErrorCode]]
Steps = Iterator[asyncio.Future[ErrorCode] | None]
"""What is done one after the other, each step perhaps with what the disk still has to answer."""


class Removal:
    def __init__(self, core: Core, committed: Committed) -> None:
        self._core = core
        self._committed = committed
        self._going: dict[str, Begun] = {}
        self._emptied_ms: dict[str, int] = {}
        """When a group was first found empty that had members at the look before; 0: it has members."""
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
        group.set_dead(True)
        keys = list(core.offsets.of(group_id).all_keys())
        for some in pieces(keys, SLICE_ELEMENTS) if len(keys) > SLICE_ELEMENTS else ():
            error = await self._erased(group_id, list(some))
            if error is not ErrorCode.none:
                group.set_dead(False)
                return error
        if core.groups.get(group_id) is not group:  # it went with its last offset
            return ErrorCode.none
        return await self._removed(group)

    def _removed(self, group: Group) -> asyncio.Future[ErrorCode]:
        """With what it has: not so much that it should be cut in pieces."""
        core, waiting = self._core, ticket()
        group.set_dead(True)
        gone = dict.fromkeys(core.offsets.of(group.id).all_keys())
        tombstones: Records = encode(group.id, gone)
        tombstones += [(key, None) for key in group.tombstone_keys()]

        def removed(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                core.forget(group.id)
            else:
                group.set_dead(False)
            answer(waiting, error)

        core.journal.append(group.id, tombstones, removed)
        return waiting

    def _erased(self, group_id: str, keys: list[Key]) -> asyncio.Future[ErrorCode]:
        waiting = ticket()
        self._committed.erase(group_id, keys, lambda error: answer(waiting, error))
        return waiting

    # ---- topics that are gone ----------------------------------------------------------------------

    def topic_gone(self, topic: str) -> asyncio.Future[None]:
        """Forget all offsets of a topic from the turn on in which it is gone, and erase them. Done when none
        is left in memory: only then may there be another topic of this name.

        Should the disk refuse the erasure, they stay in the log, where they belong to the topic's id.
        """
        forgotten: asyncio.Future[None] = ticket()
        self._in_turns(self._forgetting(topic, forgotten))
        return forgotten

    def _forgetting(self, topic: str, forgotten: asyncio.Future[None]) -> Steps:
        offsets, gone = self._core.offsets, dict[str, list[Key]]()
        try:
            for group_id in offsets.groups_with(topic):
                if keys := offsets.drop_topic(group_id, topic):
                    gone[group_id] = keys
                yield None
        finally:
            answer(forgotten, None)
        yield from self._erasures(gone, self._going.setdefault(topic, []))

    async def offsets_erased(self, topic: str) -> None:
        """Wait for as much of that as has begun."""
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

    def _in_turns(self, steps: Steps) -> None:
        """Do what there is to do, usually at once; very much of it in turns, and others have theirs."""
        begun: Begun = []
        if self._some(steps, begun):
            self._core.supervisor.spawn("offset expiry", self._go_on(steps, begun))

    async def _go_on(self, steps: Steps, begun: Begun) -> None:
        """The disk answers all that is under way at once: so it must never be all that there is."""
        more = True
        while more:
            await give_way()
            await asyncio.gather(*begun)
            begun.clear()
            more = self._some(steps, begun)

    def _some(self, steps: Steps, begun: Begun) -> bool:
        """Some steps; whether there may be more."""
        pace = Pace(self._core.supervisor.monotonic)
        for number, step in enumerate(steps, 1):
            if step is not None:
                begun.append(step)
            if number >= AT_ONCE or pace.is_due:
                return True
        return False

    def _erasures(self, gone: Mapping[str, list[Key]], into: Begun) -> Steps:
        for group_id, keys in gone.items():
            for some in pieces(keys, SLICE_ELEMENTS):
                offsets = self._core.offsets.of(group_id)
                # What has come under the name in the turns between stays.
                left = [key for key in some if not offsets.holds(key)]
                into += [self._erase(group_id, left)] if left else []
                yield into[-1] if left else None

    def _erase(self, group_id: str, keys: list[Key]) -> asyncio.Future[ErrorCode]:
        """In the log; memory has forgotten them."""
        waiting = ticket()
        tombstones = encode(group_id, dict.fromkeys(keys))
        self._core.journal.append(group_id, tombstones, lambda error: answer(waiting, error))
        return waiting

    # ---- expiry ----------------------------------------------------------------------------------

    def schedule_expiry(self) -> None:
        core = self._core
        interval = core.settings.get("offsets.retention.check.interval.ms")
        core.deadlines.wake(EXPIRY, core.now().monotonic_ms + interval)

    def expire(self) -> None:
        """Remove expired offsets, and groups that are empty and have none left (KIP-211)."""
        self.schedule_expiry()
        groups = self._core.groups
        self._emptied_ms = {each: at for each, at in self._emptied_ms.items() if each in groups}
        self._in_turns(self._expiries())

    def _expiries(self) -> Steps:
        for group in list(self._core.groups.values()):
            try:
                yield from self._expiry_of(group)
            except Exception as error:  # the other groups have their turn all the same
                self._core.supervisor.failed("offset expiry", error, group.id)

    def _empty_since(self, group: Group, now_ms: int) -> int:
        """When it was first found so; 0 if it has members, or nobody knows. A classic group knows itself."""
        if group.type == "classic":
            return 0
        if not group.is_empty:
            self._emptied_ms[group.id] = 0
            return 0
        if self._emptied_ms.get(group.id) == 0:
            self._emptied_ms[group.id] = now_ms
        return self._emptied_ms.get(group.id, 0)

    def _expiry_of(self, group: Group) -> Steps:
        """A group with very many offsets goes when it is found without any, the next time."""
        keys = list(self._core.offsets.of(group.id).all_keys())
        for some in list(pieces(keys, SLICE_ELEMENTS)) or [()]:
            is_there = self._core.groups.get(group.id) is group
            is_dead = group.delete_error() is ErrorCode.group_id_not_found
            if is_there and not is_dead and self._core.refusal is ErrorCode.none:
                yield self._expire_some(group, some, are_all=len(some) == len(keys))
            else:
                yield None

    def _expire_some(
        self, group: Group, keys: Sequence[Key], *, are_all: bool
    ) -> asyncio.Future[ErrorCode] | None:
        core = self._core
        offsets = core.offsets.of(group.id)
        retention_ms = core.settings.get("offsets.retention.minutes") * 60_000
        now_ms = core.clock.now_ms()
        # A consumer of a quiet topic may have committed long ago, and be started again just now.
        if now_ms - self._empty_since(group, now_ms) < retention_ms:
            return None
        old = expired(group, offsets, keys, now_ms, retention_ms)
        if are_all and group.is_idle and not offsets.writing and len(old) == len(keys):
            log.info("group %s is empty and has no offsets left: removed", group.id)
            return self._removed(group)
        if not old:
            return None
        log.info("group %s: %d offsets have expired", group.id, len(old))
        return self._erased(group.id, old)
