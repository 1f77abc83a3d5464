"""The whole coordinator with streams groups: durable answers, failures that heal, time, change of type."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.consumer import heartbeat as consumer_heartbeat
from headwater.broker.groups.journal import RecordTooLarge
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.groups.streams import records
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.heartbeat import Beat, Beaten
from headwater.broker.groups.streams.member import Assignment
from headwater.broker.groups.streams.status import StatusCode
from tests.broker.groups.consumer.hall import FakeImage
from tests.broker.groups.desk import Desk, MemoryStore, settle

from .theatre import COUNTING

MakeDesk = Callable[..., Desk]


@pytest.fixture
def image() -> FakeImage:
    image = FakeImage()
    for name in ("lines", "words", "counts"):
        image.put(name, 4)
    return image


def joining(member: str, **fields: Any) -> Beat:
    said = {"topology": COUNTING, "owned": Assignment(), "process_id": member}
    return Beat(member, 0, **({"rebalance_timeout_ms": 30_000} | said | fields))


def group_of(desk: Desk) -> StreamsGroup:
    group = desk.groups.groups["g"]
    assert isinstance(group, StreamsGroup)
    return group


async def beat(desk: Desk, beat: Beat) -> Beaten:
    return await desk.groups.streams_heartbeat("g", beat)


async def test_a_heartbeat_is_answered_when_its_records_are_durable(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    desk.store.open.clear()
    first = asyncio.ensure_future(beat(desk, joining("a")))
    await settle()
    repeated = asyncio.ensure_future(beat(desk, joining("a")))
    await settle()
    assert not first.done()
    assert not repeated.done(), "it needs no record, but what it says is not durable yet"
    desk.store.open.set()
    assert (await first).epoch == (await repeated).epoch == 2


async def test_what_the_disk_refused_is_written_with_the_next_heartbeat(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    desk.store.failure = OSError("disk full")
    assert (await beat(desk, joining("a"))).error is ErrorCode.not_coordinator
    desk.store.failure = None
    assert (await beat(desk, joining("a"))).error is ErrorCode.none
    again = make_desk(store=desk.store, image=image)
    assert group_of(again).members["a"].epoch == 2
    assert group_of(again).topology == COUNTING
    assert len(group_of(again).owners) == 8


async def test_a_first_assignment_is_made_when_its_time_has_come(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image, group_streams_initial_rebalance_delay_ms=3_000)
    answer = await beat(desk, joining("a"))
    assert [each.code for each in answer.statuses] == [StatusCode.ASSIGNMENT_DELAYED]
    assert group_of(desk).target == {}
    desk.pass_ms(3_000)
    await settle()
    assert set(group_of(desk).target) == {"a"}, "nobody had to ask"
    told = await beat(desk, Beat("a", answer.epoch, owned=Assignment()))
    assert told.assignment is not None
    assert told.assignment.active == {id: frozenset(range(4)) for id in "01"}


async def test_an_assignment_that_was_put_off_goes_with_the_last_member(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    """
    a joins, is assigned      b joins: put off      both gone, c joins: waits anew
    0 ───────────────────────── 100 ───────────────── 300 ──────── 1000 (no more) ─────── 3300 assigned
    """
    desk = make_desk(image=image, group_streams_assignment_interval_ms=1_000)
    await beat(desk, joining("a"))
    desk.pass_ms(100)
    await beat(desk, joining("b"))
    assert group_of(desk).assign_at is not None
    for member in "ab":
        await beat(desk, Beat(member, -1))
    assert group_of(desk).assign_at is None
    desk.settings["group.streams.initial.rebalance.delay.ms"] = 3_000
    desk.pass_ms(200)
    await beat(desk, joining("c"))
    desk.pass_ms(2_000)
    assert group_of(desk).wake_at == group_of(desk).delayed_until
    desk.pass_ms(1_000)
    await settle()
    assert set(group_of(desk).target) == {"c"}


async def test_an_assignment_that_was_put_off_does_not_outlive_the_wait_for_more_members(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image, group_streams_initial_rebalance_delay_ms=3_000)
    await beat(desk, joining("a"))
    group = group_of(desk)
    group.assign_at = desk.clock.ms + 1_000
    group.wake(group.assign_at)
    desk.groups._core.deadlines.wake("g", group.assign_at)
    desk.pass_ms(1_000)
    assert group.assign_at is None
    assert group.wake_at == group.delayed_until


@pytest.mark.parametrize("is_lost", ["write", "answer"])
async def test_a_member_that_has_not_heard_of_its_tasks_is_told_again(
    make_desk: MakeDesk, image: FakeImage, is_lost: str
) -> None:
    desk = make_desk(image=image, group_streams_num_standby_replicas=0)
    had = (await beat(desk, joining("a"))).assignment
    epoch = (await beat(desk, joining("b"))).epoch
    kept = await beat(desk, Beat("a", 2, owned=had))
    assert kept.assignment is not None
    await beat(desk, Beat("a", kept.epoch, owned=kept.assignment))
    if is_lost == "write":
        desk.store.failure = OSError("disk full")
    await beat(desk, Beat("b", epoch, owned=Assignment()))
    desk.store.failure = None
    told = await beat(desk, Beat("b", epoch, owned=Assignment()))
    assert told.assignment is not None
    assert {id: frozenset(range(4)) - kept.assignment.active[id] for id in "01"} == (
        told.assignment.active
    )
    again = await beat(desk, Beat("b", told.epoch, owned=told.assignment))
    assert again.assignment is None, "it knows"


async def test_a_member_that_has_not_heard_what_to_let_go_is_told_again(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image, group_streams_num_standby_replicas=0)
    had = (await beat(desk, joining("a"))).assignment
    await beat(desk, joining("b"))
    lost = await beat(desk, Beat("a", 2, owned=had))
    assert (await beat(desk, Beat("a", lost.epoch, owned=had))).assignment == lost.assignment


async def test_a_silent_member_is_removed_and_so_is_the_wish_to_end(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    await beat(desk, joining("a", shuts_down=True))
    assert group_of(desk).shutdown_by == "a"
    desk.pass_ms(45_000)
    await settle()
    assert group_of(desk).state_name == "Empty"
    assert group_of(desk).shutdown_by is None
    again = make_desk(store=desk.store, image=image)
    assert group_of(again).is_empty
    assert group_of(again).epoch == group_of(desk).epoch


async def test_an_empty_group_changes_its_type_and_keeps_its_offsets(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    await desk.groups.offsets.commit(Committer("g"), [Commit("lines", 0, 7)])
    assert isinstance(desk.groups.groups["g"], ClassicGroup)
    await beat(desk, joining("a"))
    assert (await desk.join("g")).error is ErrorCode.inconsistent_group_protocol
    await beat(desk, Beat("a", -1))
    assert await desk.stable("g", "classic") == "classic"
    await settle()
    for each in (desk, make_desk(store=desk.store, image=image)):
        assert isinstance(each.groups.groups["g"], ClassicGroup)
        offset = each.groups.offsets_of("g").get("lines", 0)
        assert offset is not None
        assert offset.offset == 7
    refused = await beat(desk, joining("a"))
    assert (refused.error, refused.message) == (
        ErrorCode.group_id_not_found,
        "Group g is not a streams group.",
    )


async def test_a_classic_member_waits_while_a_streams_group_is_being_deleted(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    await beat(desk, joining("a"))
    await beat(desk, Beat("a", -1))
    desk.store.open.clear()
    deleted = asyncio.ensure_future(desk.groups.removal.delete_group("g"))
    await settle()
    assert (await desk.join("g")).error is ErrorCode.coordinator_not_available
    desk.store.open.set()
    assert await deleted is ErrorCode.none
    assert await desk.stable("g", "classic") == "classic"


async def test_a_record_that_is_too_large_is_told_as_bounds_say(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    desk.store.failure = RecordTooLarge("2 MiB")
    assert (await beat(desk, joining("a"))).error is ErrorCode.unknown_server_error


@pytest.mark.parametrize("newest", ["streams", "consumer"])
async def test_the_newest_type_of_a_group_counts_also_without_the_tombstones_of_the_other(
    make_desk: MakeDesk, image: FakeImage, newest: str
) -> None:
    stores = {kind: MemoryStore() for kind in ("streams", "consumer")}
    streams, consumer = (make_desk(stores[kind], image=image) for kind in stores)
    await beat(streams, joining("a"))
    said = consumer_heartbeat.Beat(
        "c", 0, rebalance_timeout_ms=1_000, topic_names=frozenset({"lines"})
    )
    assert (await consumer.groups.consumer_heartbeat("g", said)).error is ErrorCode.none
    both = MemoryStore()
    other = "consumer" if newest == "streams" else "streams"
    both.log = stores[other].log + stores[newest].log
    for log in (both.log, stores[newest].log):
        store = MemoryStore()
        store.log = list(log)
        assert make_desk(store, image=image).groups.groups["g"].type == newest


async def test_a_member_whose_group_record_is_lost_is_in_a_group_of_the_first_epoch(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image)
    await beat(desk, joining("a"))
    store = MemoryStore()
    store.log = [
        each for each in desk.store.log if each[0] == records.KINDS.key(records.MEMBER, "g", "a")
    ]
    group = group_of(make_desk(store, image=image))
    assert (group.epoch, group.target_epoch) == (1, 1)


async def test_a_member_cannot_commit_for_its_successor(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    """An older epoch counts for what a member has had since then, and for nothing else."""
    desk = make_desk(image=image, group_streams_num_standby_replicas=0)
    await beat(desk, joining("a"))
    await beat(desk, joining("b"))
    told = await beat(desk, Beat("a", 2, owned=Assignment()))
    assert told.assignment is not None
    kept = told.assignment.active["0"]
    commits = [Commit("lines", number, 1) for number in range(4)]
    found = await desk.groups.offsets.commit(
        Committer("g", "a", None, 2, knows_group_not_found=True), commits
    )
    allowed = {number for number, error in enumerate(found) if error is ErrorCode.none}
    assert told.epoch == 3
    assert allowed == set(kept)
    assert set(found) == {ErrorCode.none, ErrorCode.stale_member_epoch}
