"""A partition that changes hands is read on, however it was let go; a bridge out does not fail by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from headwater.client import groups
from headwater.client.librdkafka import TopicPartition
from headwater.client.log import Log
from headwater.client.records import Record
from headwater.edges.bridges import config as sections
from headwater.edges.bridges.runner import Reading
from headwater.edges.webhooks.delivery import Place
from headwater.edges.webhooks.member import Member
from tests.compat.wire import connected
from tests.edges.running import until


class Listener:
    """Takes what it is fed, and says that it is full when it is told to."""

    def __init__(self) -> None:
        self.fed: list[int] = []
        self.is_full = False
        self._place: Place | None = None

    @property
    def is_busy(self) -> bool:
        return False

    def assign(self, place: Place, position: int, metadata: str | None) -> None:
        self._place = place

    async def let_go(self, places: Iterable[Place]) -> None:
        self._place = None

    def feed(self, records: Iterable[tuple[Record, bool]]) -> None:
        self.fed += [record.offset for record, _ in records]

    def full(self) -> set[Place]:
        return {self._place} if self.is_full and self._place is not None else set()


def put(log: Log, topic: str, count: int) -> None:
    producer = log.new_producer()
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"key", partition=0)
    assert producer.flush(60) == 0


async def test_a_partition_that_was_full_when_it_was_let_go_is_read_when_it_comes_back(
    log: Log, topic: Callable[..., str]
):
    name = topic()
    put(log, name, 3)
    listener, here = Listener(), [TopicPartition(name, 0)]
    member = Member(log, f"headwater.webhook.{name}", "one", listener)

    def come_and_go() -> None:
        consumer = member._consumer
        member._on_assign(consumer, here)
        listener.is_full = True
        until(lambda: member._turn() or listener.fed, "the first records")
        member._turn()
        assert member._paused
        member._on_revoke(consumer, here)
        consumer.incremental_unassign(here)
        listener.fed.clear()
        member._on_assign(consumer, here)
        listener.is_full = False
        until(lambda: member._turn() or listener.fed, "the records, after it came back")
        consumer.close()

    await asyncio.to_thread(come_and_go)
    assert listener.fed[0] == 0


async def test_a_bridge_whose_commit_meets_a_rebalance_commits_later_and_goes_on(
    log: Log, topic: Callable[..., str]
):
    """The group has let it go meanwhile, as it does with one that was silent for too long."""
    name = topic()
    put(log, name, 3)
    config = sections.read(name, {"from": f"topic:{name}", "to": "zmq+push://127.0.0.1:7777"})
    reading = Reading(log, config, "one")
    await reading.open()
    try:
        records = await reading.next()
        (member,) = groups.named(log, config.group).members
        with connected(log.bootstrap) as wire:
            gone = [{"member_id": member.id, "group_instance_id": member.instance_id}]
            wire.ask("leave_group", 5, group_id=config.group, members=gone)
        await reading.commit(records)  # refused, and no failure of the bridge
        put(log, name, 1)

        def committed() -> int:
            return sum(each.committed or 0 for each in groups.named(log, config.group).partitions)

        async with asyncio.timeout(100):
            while committed() < 4:
                await reading.commit(await reading.next())
    finally:
        await reading.close()
