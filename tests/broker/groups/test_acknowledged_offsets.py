"""Committed offsets that were acknowledged, and what is found of them later."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from headwater.broker.clock import SystemClock
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.transactions.transitions import Producer
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, delete, serving
from tests.compat.asking import find_coordinator
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

OFFSETS = "__consumer_offsets"
WEEK_MS = 7 * 24 * 3_600_000


class WrongClock(SystemClock):
    """The machine's clock, and how far it is wrong."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def committed(wire: Wire, group: str) -> int:
    find_coordinator(wire, group)
    wanted = [{"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}]
    answer = wire.ask("offset_fetch", 8, groups=wanted, require_stable=False)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def commit(
    wire: Wire, group: str, offset: int, partition: int = 0, version: int = 8, **more: int
) -> None:
    find_coordinator(wire, group)
    rows = [{"partition_index": partition, "committed_offset": offset}]
    answer = wire.ask(
        "offset_commit",
        version,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "t", "partitions": rows}],
        **more,
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def test_a_transactions_offset_outlives_the_tombstone_of_a_deleted_topics_one(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        commit(wire, "g", 5)
        with disk.failing("write", code=errno.ENOSPC, name=f"{OFFSETS}-*/*.log"):
            assert delete(wire, "t") is ErrorCode.none
        broker.create("t")
        one = Transactor(wire, "one").init()
        one.write("t", b"x")
        until(lambda: one.send_offsets("g", "t", {0: 9}) is ErrorCode.none, "the offset")
    with serving(data) as broker, broker.wire() as wire:
        find_coordinator(wire, "g")
        one.wire = wire
        one.end(commit=True)
        until(lambda: committed(wire, "g") == 9, "the offset to count")
    with serving(data) as broker, broker.wire() as wire:
        assert committed(wire, "g") == 9


def expire_and_send(broker: Serving, one: Transactor) -> ErrorCode:
    """In one turn: the expiry of old offsets is decided, and a transaction's offset comes."""
    inside = broker.broker
    where = (OFFSETS, inside.offsets_topic.partition_of("g").number)
    producer = Producer(one.id, one.epoch)
    wanted = Commit("t", 0, 9, topic_id=inside.catalogue.topics["t"].id)

    async def in_one_turn() -> ErrorCode:
        inside.groups.removal.expire()
        (error,) = await inside.groups.pending.commit(
            Committer("g"),
            [wanted],
            producer,
            lambda: inside.transactions.add_now("one", producer, [where]),
        )
        return error

    return broker.run(in_one_turn())


def test_an_expiry_that_was_decided_before_a_transactions_offset_does_not_end_it(
    data: Path,
) -> None:
    clock = WrongClock()
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t", 2)
        commit(wire, "g", 5)
        clock.ahead_ms = 2 * WEEK_MS
        commit(wire, "g", 1, partition=1)
        one = Transactor(wire, "one").init()
        one.write("t", b"x")
        assert expire_and_send(broker, one) is ErrorCode.none
        one.end(commit=True)
        assert committed(wire, "g") == 9
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        assert committed(wire, "g") == 9


def test_a_transactions_offset_for_a_group_that_just_expired_is_refused_or_kept(
    data: Path,
) -> None:
    clock = WrongClock()
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t")
        commit(wire, "g", 5)
        clock.ahead_ms = 2 * WEEK_MS
        one = Transactor(wire, "one").init()
        one.write("t", b"x")
        expected = 9 if expire_and_send(broker, one) is ErrorCode.none else -1
        one.end(commit=True)
        assert committed(wire, "g") == expected
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        assert committed(wire, "g") == expected


def test_commits_that_wait_for_the_first_use_of_the_topic_keep_their_order(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
        offsets, topic_id = broker.broker.groups.offsets, broker.broker.catalogue.topics["t"].id

        async def all_at_once() -> None:
            made = [Commit("t", 0, offset, topic_id=topic_id) for offset in range(20)]
            running = []
            for each in made:
                running.append(asyncio.ensure_future(offsets.commit(Committer("g"), [each])))
                await asyncio.sleep(0)
            assert await asyncio.gather(*running) == [[ErrorCode.none]] * 20

        broker.run(all_at_once())
        with broker.wire() as wire:
            assert committed(wire, "g") == 19
    with serving(data) as broker, broker.wire() as wire:
        assert committed(wire, "g") == 19


def test_an_offset_with_a_retention_of_its_own_survives_a_clock_that_was_set_back(
    data: Path,
) -> None:
    clock = WrongClock()
    clock.ahead_ms = 5000
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t")
        clock.ahead_ms = 0
        commit(wire, "g", 5, version=3, retention_time=86_400_000)
        assert committed(wire, "g") == 5
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        assert committed(wire, "g") == 5
        clock.ahead_ms = 86_400_000 + 1
        broker.call(broker.broker.groups.removal.expire)
        until(lambda: committed(wire, "g") == -1, "its own retention")
