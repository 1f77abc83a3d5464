"""How much state strangers may leave behind: groups, their members and offsets, ids, producers.

Requests are bounded by `memory` while they are worked on; this is what stays afterwards, in memory and
in the log. Handlers ask for room before something is made or grows, and give it back if nothing came of
it. What is new has room up to the limit; members and offsets of groups that are there have as much again,
so that strangers who fill the one keep nobody from going on. `recount` walks all of it now and then, so
that what has expired or was deleted makes room.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headwater.broker.groups.consumer.member import ConsumerMember
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import StreamsMember
from headwater.broker.turns import Pace
from headwater.log.confirmation import StorageFailed
from headwater.log.producers import PRODUCER_BYTES, PRODUCERS_MAX

if TYPE_CHECKING:
    from headwater.broker.catalogue import Catalogue
    from headwater.broker.groups.coordinator import GroupCoordinator
    from headwater.broker.groups.offset_store import Commit
    from headwater.broker.settings import Settings
    from headwater.broker.shares.coordinator import ShareCoordinator
    from headwater.broker.supervisor import Supervisor
    from headwater.broker.transactions.coordinator import TransactionCoordinator
    from headwater.log.producers import Census

logger = logging.getLogger("headwater.broker")

EACH_BYTES = 500
"""What one of anything costs beside its texts, about."""
SHARE_PARTITION_BYTES = 4 * EACH_BYTES
"""A partition as a share group sees it."""
NAME_BYTES = 100
"""A name of a topic, beside its letters as they came."""
ASSIGNED_BYTES = 200
"""A partition that a member has, or that a transaction writes to."""
AT_ONCE = 20


IN_CATALOGUE = ("group", "client-metrics")
"""Kinds of the catalogue of which anybody may make as many as he likes who may make one."""
BY_ADMINISTRATORS = ("quota", "scram", "acl")
"""The same, and what strangers are kept out with: there is room for it, whatever those have filled."""


def text_bytes(*names: str | None) -> int:
    """What names take in the log, and about as much in memory."""
    return sum(len(name) if name.isascii() else len(name.encode()) for name in names if name)


class NoRoom(StorageFailed):
    """What a client would leave behind is too much."""


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

    _groups: GroupCoordinator
    _transactions: TransactionCoordinator
    _shares: ShareCoordinator
    _census: Census
    _catalogue: Catalogue

    def __init__(self, settings: Settings, supervisor: Supervisor) -> None:
        self._settings = settings
        self._supervisor = supervisor
        self.used = 0
        self._by_administrators = 0
        """What only administrators make, of all that: within the bound by itself, it is not refused."""
        self._is_full = False

    def follow(
        self,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        shares: ShareCoordinator,
        census: Census,
        catalogue: Catalogue,
    ) -> None:
        """Whose state it is, as soon as there is any."""
        self._groups, self._transactions = groups, transactions
        self._shares, self._census, self._catalogue = shares, census, catalogue

    @property
    def held(self) -> int:
        """All of it: what open transactions write to is known at every moment, and never asked for."""
        return self.used + ASSIGNED_BYTES * self._transactions.state.partitions

    def take(self, size: int, *, known: bool = False) -> Room | None:
        """Room for so many bytes more, of something new or of what is `known`; None: there is none."""
        if not self._fits(size, known):
            return None
        size = max(size, 0)
        self.used += size
        return Room(self, size)

    def for_partitions(self, count: int) -> bool:
        """Whether transactions may have so many more: `held` counts them from then on."""
        return self._fits(ASSIGNED_BYTES * count, known=True)

    def _fits(self, size: int, known: bool) -> bool:
        high = self._settings.get("headwater.state.max.bytes")
        if size <= 0 or high < 0 or self.held + size <= (2 * high if known else high):
            return True
        if not self._is_full:
            self._is_full = True
            logger.warning(
                "groups, offsets and transactional ids have %d bytes: new ones are refused until there"
                " are fewer (headwater.state.max.bytes is %d)",
                self.held,
                high,
            )
        return False

    def admit(self, kind: str, size: int) -> None:
        """Room for something new in the catalogue. Raises NoRoom."""
        size += EACH_BYTES
        is_room = True
        if kind in IN_CATALOGUE:
            is_room = self.take(size) is not None
        elif kind in BY_ADMINISTRATORS:
            high = self._settings.get("headwater.state.max.bytes")
            is_room = high < 0 or self._by_administrators + size <= high
            if is_room:
                self.used += size
                self._by_administrators += size
        if not is_room:
            raise NoRoom("there is no room for more of it (headwater.state.max.bytes)")

    def for_member(
        self,
        group_id: str,
        member: str,
        instance: str | None,
        size: int,
        names: Iterable[str | None] = (),
    ) -> Room | None:
        """Room for a member who says so much, with these names of its own; one who said as much before needs
        none."""
        group = self._groups.groups.get(group_id)
        size += text_bytes(member, instance, *names)
        if group is None:
            return self.take(size + 2 * EACH_BYTES + len(group_id))
        before = group.members.get(group.static_ids.get(instance or "", member))
        return self.take(size + EACH_BYTES - (0 if before is None else _member(before)), known=True)

    def for_offsets(self, group_id: str, commits: Sequence[Commit]) -> Room | None:
        """Room for offsets; those that are there already need none."""
        group = self._groups.groups.get(group_id)
        known = self._groups.offsets_of(group_id)
        size = 0 if group is not None else EACH_BYTES + len(group_id)
        for each in commits:
            before = known.get(each.topic, each.partition)
            has = 0 if before is None else EACH_BYTES + len(before.metadata)
            size += max(EACH_BYTES + len(each.metadata or "") - has, 0)
        return self.take(size, known=group is not None)

    def producers_max(self) -> int:
        """So many idempotent producers may be remembered, one that writes to ten partitions counting as
        ten: up to half of the room is for them, and always as much as one partition may take."""
        high: int = self._settings.get("headwater.state.max.bytes")
        return 2**63 if high < 0 else max(high // 2 // PRODUCER_BYTES, PRODUCERS_MAX)

    async def recount(self) -> None:
        """Count all that there is, with a rest in between."""
        pace = Pace(self._supervisor.monotonic)
        total = await _sum(self._sizes(), pace)
        self._by_administrators = await _sum(self._in_catalogue(BY_ADMINISTRATORS), pace)
        self.used = total + self._by_administrators
        high = self._settings.get("headwater.state.max.bytes")
        self._is_full = self._is_full and self.held + EACH_BYTES > high

    def _sizes(self) -> Iterator[int]:
        """Of small pieces: others come in between, and may change what is there."""
        for group in list(self._groups.groups.values()):
            yield EACH_BYTES + len(group.id) + ASSIGNED_BYTES * len(getattr(group, "owners", ()))
            yield sum(EACH_BYTES + len(name) for name in getattr(group, "pending_joins", ()))
            if isinstance(group, StreamsGroup):
                yield _streams(group)
            shared: set[int] = set()
            for each in list(group.members.values()):
                topics = [
                    t for t in getattr(each, "read", {}).values() if t and id(t) not in shared
                ]
                shared.update(map(id, topics))
                yield _member(each) + NAME_BYTES * sum(map(len, topics))
            offsets = self._groups.offsets_of(group.id)
            for partitions in list(offsets.topics.values()):
                yield sum(EACH_BYTES + len(value.metadata) for value in partitions.values())
            for waiting in list(offsets.pending.values()):
                values = (value for sent in waiting.values() for _, value in sent)
                yield sum(EACH_BYTES + len(value.metadata) for value in values)
        for name in list(self._transactions.transactions):
            yield EACH_BYTES + len(name)
        for share in list(self._shares.groups.values()):
            yield EACH_BYTES + len(share.id)
            for each in list(share.members.values()):
                held = sum(map(len, each.assigned.values()))
                names = text_bytes(each.id, each.rack_id, each.client_id)
                yield EACH_BYTES + names + sum(map(len, each.topics)) + ASSIGNED_BYTES * held
        yield from self._in_catalogue(IN_CATALOGUE)
        yield SHARE_PARTITION_BYTES * len(self._shares.owners)
        yield PRODUCER_BYTES * self._census.count

    def _in_catalogue(self, kinds: Sequence[str]) -> Iterator[int]:
        for kind in kinds:
            for name, value in list(self._catalogue.of(kind).items()):
                yield EACH_BYTES + len(name) + len(str(value))


async def _sum(sizes: Iterator[int], pace: Pace) -> int:
    total = 0
    for number, size in enumerate(sizes):
        total += size
        if number % AT_ONCE == 0:
            await pace.rest()
    return total


def _member(member: Any) -> int:
    """Of a classic group, or of one of the newer protocols."""
    size = EACH_BYTES + text_bytes(member.id, member.instance_id, member.client_id)
    if isinstance(member, StreamsMember):
        host = None if member.endpoint is None else member.endpoint.host
        size += text_bytes(member.rack_id, member.process_id, host)
        return size + sum(text_bytes(*tag) for tag in member.tags)
    if isinstance(member, ConsumerMember):
        protocols = () if member.classic is None else member.classic.protocols
        texts = sum(len(name) for name in member.topic_names) + text_bytes(member.rack_id)
    else:
        protocols, texts = member.protocols, len(member.assignment)
    return size + texts + sum(len(name) + len(data) for name, data in protocols)


def _streams(group: StreamsGroup) -> int:
    """Its topology, and the copies of its tasks beside the owners."""
    topology = 0 if group.topology is None else group.topology.record_bytes
    return topology + ASSIGNED_BYTES * sum(map(len, group.copies.values()))
