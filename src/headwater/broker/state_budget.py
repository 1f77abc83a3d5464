"""How much state strangers may leave behind: groups, their members and offsets, ids, producers.

Requests are bounded by `memory` while they are worked on; this is what stays afterwards, in memory and
in the log. Handlers ask for room before something is made or grows, and give it back if nothing came of
it. What is new has room up to the limit; members and offsets of groups that are there have as much again,
so that strangers who fill the one keep nobody from going on. `recount` walks all of it now and then, so
that what has expired or was deleted makes room.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwater.broker.groups.consumer.member import ConsumerMember
from headwater.broker.slices import Pace
from headwater.log.producers import PRODUCER_BYTES, PRODUCERS_MAX

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.groups.offset_store import Commit

logger = logging.getLogger("headwater.broker")

EACH_BYTES = 500
"""What one of anything costs beside its texts, about."""
SHARE_PARTITION_BYTES = 4 * EACH_BYTES
"""A partition as a share group sees it."""
NAME_BYTES = 100
"""A name of a topic, beside its letters as they came."""
ASSIGNED_BYTES = 200
"""A partition that a member has."""
AT_ONCE = 20


class Room:
    """Bytes that are counted until the next recount, which counts what was made of them."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: StateBudget, size: int) -> None:
        self._budget, self._size = budget, size

    def give_back(self) -> None:
        """Nothing was made."""
        self._budget.used = max(self._budget.used - self._size, 0)
        self._size = 0


class StateBudget:
    """About how many bytes there are; `headwater.state.max.bytes` is the bound."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.used = 0
        self._is_full = False

    def take(self, size: int, *, known: bool = False) -> Room | None:
        """Room for so many bytes more, of something new or of what is `known`; None: there is none."""
        high = self._broker.settings.get("headwater.state.max.bytes")
        if size <= 0 or high < 0 or self.used + size <= (2 * high if known else high):
            size = max(size, 0)
            self.used += size
            return Room(self, size)
        if not self._is_full:
            self._is_full = True
            logger.warning(
                "groups, offsets and transactional ids have %d bytes: new ones are refused until there"
                " are fewer (headwater.state.max.bytes is %d)",
                self.used,
                high,
            )
        return None

    def for_member(
        self, group_id: str, member: str, instance: str | None, size: int
    ) -> Room | None:
        """Room for a member who says so much; one who said as much before needs none."""
        group = self._broker.groups.groups.get(group_id)
        if group is None:
            return self.take(size + 2 * EACH_BYTES + len(group_id))
        before = group.members.get(group.static_ids.get(instance or "", member))
        return self.take(size + EACH_BYTES - (0 if before is None else _member(before)), known=True)

    def for_offsets(self, group_id: str, commits: Sequence[Commit]) -> Room | None:
        """Room for offsets; those that are there already need none."""
        group = self._broker.groups.groups.get(group_id)
        known = self._broker.groups.offsets_of(group_id)
        size = 0 if group is not None else EACH_BYTES + len(group_id)
        for each in commits:
            before = known.get(each.topic, each.partition)
            has = 0 if before is None else EACH_BYTES + len(before.metadata)
            size += max(EACH_BYTES + len(each.metadata or "") - has, 0)
        return self.take(size, known=group is not None)

    def producers_max(self) -> int:
        """So many idempotent producers may be remembered, one that writes to ten partitions counting as
        ten: up to half of the room is for them, and always as much as one partition may take."""
        high: int = self._broker.settings.get("headwater.state.max.bytes")
        return 2**63 if high < 0 else max(high // 2 // PRODUCER_BYTES, PRODUCERS_MAX)

    async def recount(self) -> None:
        """Count all that there is, with a rest in between."""
        total, pace = 0, Pace(self._broker.supervisor.monotonic)
        for number, size in enumerate(self._sizes()):
            total += size
            if number % AT_ONCE == 0:
                await pace.rest()
        self.used = total
        high = self._broker.settings.get("headwater.state.max.bytes")
        self._is_full = self._is_full and total + EACH_BYTES > high

    def _sizes(self) -> Iterator[int]:
        """Of small pieces: others come in between, and may change what is there."""
        broker = self._broker
        for group in list(broker.groups.groups.values()):
            yield EACH_BYTES + len(group.id) + ASSIGNED_BYTES * len(getattr(group, "owners", ()))
            yield sum(EACH_BYTES + len(name) for name in getattr(group, "pending_joins", ()))
            shared: set[int] = set()
            for each in list(group.members.values()):
                topics = [
                    t for t in getattr(each, "read", {}).values() if t and id(t) not in shared
                ]
                shared.update(map(id, topics))
                yield _member(each) + NAME_BYTES * sum(map(len, topics))
            offsets = broker.groups.offsets_of(group.id)
            for partitions in list(offsets.topics.values()):
                yield sum(EACH_BYTES + len(value.metadata) for value in partitions.values())
            for waiting in list(offsets.pending.values()):
                values = (value for sent in waiting.values() for _, value in sent)
                yield sum(EACH_BYTES + len(value.metadata) for value in values)
        for name in list(broker.transactions.transactions):
            yield EACH_BYTES + len(name)
        for share in list(broker.shares.groups.values()):
            yield EACH_BYTES + len(share.id)
            for each in list(share.members.values()):
                held = sum(map(len, each.assigned.values()))
                yield EACH_BYTES + sum(map(len, each.topics)) + ASSIGNED_BYTES * held
        yield SHARE_PARTITION_BYTES * len(broker.shares.keepers)
        yield PRODUCER_BYTES * broker.store.census.count


def _member(member: Any) -> int:
    """Of a classic group, or of one of the newer protocol."""
    if isinstance(member, ConsumerMember):
        protocols = () if member.classic is None else member.classic.protocols
        texts = sum(len(name) for name in member.topic_names)
    else:
        protocols, texts = member.protocols, len(member.assignment)
    return EACH_BYTES + texts + sum(len(name) + len(data) for name, data in protocols)
