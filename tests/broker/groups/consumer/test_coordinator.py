"""The whole coordinator with consumer groups: answers are durable, failures heal, restarts change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.heartbeat import Beat, Beaten
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.groups.subscription import write_assignment

from ..desk import Desk, settle
from .hall import FakeImage

MakeDesk = Callable[..., Desk]


@pytest.fixture
def image() -> FakeImage:
    image = FakeImage()
    image.put("t", 4)
    return image


@pytest.fixture
async def desk(make_desk: MakeDesk, image: FakeImage) -> Desk:
    return make_desk(image=image)


def joining(member: str, **fields: Any) -> Beat:
    said = {"rebalance_timeout_ms": 30_000, "topic_names": frozenset({"t"}), "owned": {}}
    return Beat(member, 0, **(said | fields))


def group_of(desk: Desk) -> ConsumerGroup:
    group = desk.groups.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


async def stable(desk: Desk) -> None:
    """A classic group with one consumer that reads all."""
    assert await desk.stable("g", "classic") == "classic"
    group = desk.groups.groups["g"]
    assert isinstance(group, ClassicGroup)
    group.members["classic"].assignment = write_assignment(0, {"t": range(4)})


async def beat(desk: Desk, beat: Beat) -> Beaten:
    return await desk.groups.consumer_heartbeat("g", beat)


async def test_a_heartbeat_is_answered_when_its_records_are_durable(desk: Desk) -> None:
    desk.store.open.clear()
    first = asyncio.ensure_future(beat(desk, joining("m1")))
    await settle()
    repeated = asyncio.ensure_future(beat(desk, joining("m1")))
    await settle()
    assert not first.done()
    assert not repeated.done(), "it needs no record, but what it says is not durable yet"
    desk.store.open.set()
    assert (await first).epoch == (await repeated).epoch == 2


async def test_a_group_whose_record_was_lost_is_written_again(
    desk: Desk, make_desk: MakeDesk, image: FakeImage
) -> None:
    await beat(desk, joining("m1"))
    desk.store.failure = OSError("the disk is full")
    assert (await beat(desk, joining("m2"))).error is ErrorCode.not_coordinator
    desk.store.failure = None
    answer = await beat(desk, Beat("m1", 2, owned={}))
    assert answer.error is ErrorCode.none

    again = make_desk(store=desk.store, image=image)
    assert group_of(again).members.keys() == {"m1", "m2"}
    assert group_of(again).owners == group_of(desk).owners
    assert group_of(again).epoch == group_of(desk).epoch


async def test_what_was_lost_is_written_again_and_not_all_of_a_large_group(
    desk: Desk, make_desk: MakeDesk, image: FakeImage
) -> None:
    """All of it may be more than can be written at once, and then nobody would be answered any more."""
    for number in range(60):
        await beat(desk, joining(f"m{number}"))
    desk.store.failure = OSError("the disk is full")
    assert (await beat(desk, joining("late"))).error is ErrorCode.not_coordinator
    desk.store.failure = None
    before = len(desk.store.log)
    assert (await beat(desk, joining("later"))).error is ErrorCode.none
    assert len(desk.store.log) - before < 20

    again = make_desk(store=desk.store, image=image)
    assert group_of(again).members.keys() == group_of(desk).members.keys()
    assert group_of(again).target == group_of(desk).target
    assert group_of(again).owners == group_of(desk).owners
    assert group_of(again).epoch == group_of(desk).epoch


async def test_a_member_that_left_while_the_log_failed_does_not_come_back(
    desk: Desk, make_desk: MakeDesk, image: FakeImage
) -> None:
    await beat(desk, joining("m1"))
    await beat(desk, joining("m2"))
    desk.store.failure = OSError("the disk is full")
    assert (await beat(desk, Beat("m2", -1))).error is ErrorCode.not_coordinator
    desk.store.failure = None
    await beat(desk, joining("m1"))
    again = make_desk(store=desk.store, image=image)
    assert group_of(again).members.keys() == {"m1"}


async def test_a_restart_finds_members_epochs_and_targets(
    desk: Desk, make_desk: MakeDesk, image: FakeImage
) -> None:
    await beat(desk, joining("m1"))
    await beat(desk, joining("m2", topic_names=None, topic_regex="t|x.*"))
    await beat(desk, Beat("m1", 2))
    before = group_of(desk)
    again = make_desk(store=desk.store, image=image)
    after = group_of(again)
    assert after.state_name == before.state_name == "Reconciling"
    assert after.owners == before.owners
    assert (await beat(again, Beat("m1", 2, owned={}))).epoch == 3
    assert after.epoch == before.epoch, "the topics are the same: no new epoch"


async def test_a_silent_member_is_removed_and_its_partitions_go_to_the_other(desk: Desk) -> None:
    await beat(desk, joining("m1"))
    await beat(desk, joining("m2"))
    desk.pass_ms(40_000)
    await beat(desk, Beat("m2", 3))
    desk.pass_ms(6_000)
    await settle()
    assert group_of(desk).members.keys() == {"m2"}
    answer = await beat(desk, Beat("m2", 3))
    assert sum(map(len, (answer.assignment or {}).values())) == 4


async def test_a_member_that_does_not_let_go_in_time_is_removed(desk: Desk) -> None:
    await beat(desk, joining("m1"))
    held = (await beat(desk, Beat("m1", 2))).assignment
    assert held is None
    await beat(desk, joining("m2"))
    everything = {topic.id: frozenset(range(4)) for topic in [desk.image.topics["t"]]}
    for _ in range(4):
        await beat(desk, Beat("m1", 2, owned=everything))
        desk.pass_ms(10_000)
        await settle()
    assert group_of(desk).members.keys() == {"m2"}


async def test_assignments_are_not_made_more_often_than_the_interval_says(
    make_desk: MakeDesk, image: FakeImage
) -> None:
    desk = make_desk(image=image, group_consumer_assignment_interval_ms=1_000)
    await beat(desk, joining("m1"))
    answer = await beat(desk, joining("m2"))
    assert (answer.epoch, group_of(desk).state_name) == (2, "Assigning")
    desk.pass_ms(1_001)
    await settle()
    assert group_of(desk).target_epoch == group_of(desk).epoch == 3


async def test_a_full_group_takes_nobody_new(make_desk: MakeDesk, image: FakeImage) -> None:
    desk = make_desk(image=image, group_consumer_max_size=1)
    await beat(desk, joining("m1"))
    assert (await beat(desk, joining("m2"))).error is ErrorCode.group_max_size_reached
    assert (await beat(desk, joining("m1"))).error is ErrorCode.none


async def test_a_deleted_group_leaves_nothing(
    desk: Desk, make_desk: MakeDesk, image: FakeImage
) -> None:
    await beat(desk, joining("m1", topic_regex="t.*"))
    assert await desk.groups.removal.delete_group("g") is ErrorCode.non_empty_group
    await desk.groups.offsets.commit(Committer("g", "m1", None, 2, True), [Commit("t", 0, 7)])
    await beat(desk, Beat("m1", -1))
    assert await desk.groups.removal.delete_group("g") is ErrorCode.none
    left: dict[bytes, bytes | None] = {key: value for key, value, _ in desk.store.log}
    assert set(left.values()) == {None}
    assert "g" not in make_desk(store=desk.store, image=image).groups.groups


async def test_an_upgrade_and_a_downgrade_survive_restarts(
    desk: Desk, make_desk: MakeDesk, image: FakeImage
) -> None:
    await stable(desk)
    answer = await beat(desk, joining("m1"))
    assert answer.error is ErrorCode.none, answer
    again = make_desk(store=desk.store, image=image)
    assert {m.id: m.classic is None for m in group_of(again).members.values()} == {
        "classic": False,
        "m1": True,
    }
    await beat(again, Beat("m1", -1))
    last = make_desk(store=desk.store, image=image)
    assert last.groups.groups["g"].type == "classic"
    assert last.groups.groups["g"].state_name == "Stable"


@pytest.mark.parametrize(("policy", "upgrades"), [("disabled", False), ("upgrade", True)])
async def test_the_migration_policy_decides(
    make_desk: MakeDesk, image: FakeImage, policy: str, upgrades: bool
) -> None:
    desk = make_desk(image=image, group_consumer_migration_policy=policy)
    await stable(desk)
    answer = await beat(desk, joining("m1"))
    assert (answer.error is ErrorCode.none) is upgrades
    assert upgrades or answer.error is ErrorCode.group_id_not_found
    if upgrades:
        await beat(desk, Beat("m1", -1))
        assert desk.groups.groups["g"].type == "consumer", "there is no way back"


async def test_members_who_wait_in_a_classic_group_are_told_to_join_again(desk: Desk) -> None:
    await stable(desk)
    waiting = asyncio.ensure_future(desk.join("g", fresh_id="other"))
    await settle()
    await beat(desk, joining("m1"))
    assert (await waiting).error is ErrorCode.rebalance_in_progress
