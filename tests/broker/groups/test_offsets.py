"""Committed offsets: durable before visible, checked, deleted, expired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups.journal import RecordTooLarge
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.groups.sync import Identity

from .desk import Desk, settle

MakeDesk = Callable[..., Desk]

HOUR = 3_600_000
CHECK = 600_000


def offset(desk: Desk, topic: str = "t", partition: int = 0, group: str = "g") -> int | None:
    value = desk.groups.offsets.fetch(group)[1].get(topic, partition)
    return None if value is None else value.offset


async def commit(desk: Desk, *commits: Commit, **who: Any) -> list[ErrorCode]:
    return await desk.groups.offsets.commit(Committer(**({"group_id": "g"} | who)), commits)


async def test_a_commit_is_seen_only_when_it_is_durable(desk: Desk) -> None:
    desk.store.open.clear()
    committing = asyncio.ensure_future(commit(desk, Commit("t", 0, 5)))
    await settle()
    assert offset(desk) is None
    desk.store.open.set()
    assert await committing == [ErrorCode.none]
    assert offset(desk) == 5


async def test_a_commit_that_fails_leaves_the_older_one(desk: Desk) -> None:
    await commit(desk, Commit("t", 0, 5))
    desk.store.failure = OSError("disk full")
    assert await commit(desk, Commit("t", 0, 6)) == [ErrorCode.not_coordinator]
    assert offset(desk) == 5


async def test_a_group_that_only_a_failed_commit_would_have_made_does_not_exist(desk: Desk) -> None:
    desk.store.failure = OSError("disk full")
    await commit(desk, Commit("t", 0, 6))
    assert not desk.groups.groups


async def test_a_commit_that_is_too_large_for_the_log_says_so(desk: Desk) -> None:
    desk.store.failure = RecordTooLarge()
    assert await commit(desk, Commit("t", 0, 6)) == [ErrorCode.invalid_commit_offset_size]


async def test_metadata_that_is_too_long_is_refused_for_its_partition_only(desk: Desk) -> None:
    errors = await commit(desk, Commit("t", 0, 1, metadata="x" * 11), Commit("t", 1, 2))
    assert errors == [ErrorCode.offset_metadata_too_large, ErrorCode.none]
    assert (offset(desk, partition=0), offset(desk, partition=1)) == (None, 2)


async def test_metadata_that_does_not_fit_the_log_is_refused_whatever_the_setting(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(offset_metadata_max_bytes=1_000_000)
    errors = await commit(desk, Commit("t", 0, 1, metadata="x" * 40_000))
    assert errors == [ErrorCode.offset_metadata_too_large]


async def test_metadata_and_leader_epoch_come_back(desk: Desk) -> None:
    await commit(desk, Commit("t", 0, 1, leader_epoch=3, metadata="note"))
    value = desk.groups.offsets.fetch("g")[1].get("t", 0)
    assert (value.leader_epoch, value.metadata) == (3, "note")


async def test_a_simple_consumer_makes_a_group_without_protocol(desk: Desk) -> None:
    await commit(desk, Commit("t", 0, 1))
    group = desk.groups.groups["g"]
    assert (group.state_name, group.protocol_type) == ("Empty", None)


async def test_a_member_of_a_group_that_does_not_exist_cannot_commit(desk: Desk) -> None:
    errors = await commit(desk, Commit("t", 0, 1), member_id="m", generation=3)
    assert errors == [ErrorCode.illegal_generation]
    newer = await commit(
        desk, Commit("t", 0, 1), member_id="m", generation=3, knows_group_not_found=True
    )
    assert newer == [ErrorCode.group_id_not_found]
    assert not desk.groups.groups


async def test_a_commit_of_an_old_generation_is_fenced(desk: Desk) -> None:
    member = await desk.stable()
    errors = await commit(desk, Commit("t", 0, 1), member_id=member, generation=0)
    assert errors == [ErrorCode.illegal_generation]
    assert await commit(desk, Commit("t", 0, 1), member_id=member, generation=1) == [ErrorCode.none]


async def test_a_simple_consumer_cannot_commit_to_a_group_with_members(desk: Desk) -> None:
    await desk.stable()
    assert await commit(desk, Commit("t", 0, 1)) == [ErrorCode.unknown_member_id]


async def test_a_commit_counts_as_a_heartbeat(desk: Desk) -> None:
    member = await desk.stable()
    for n in range(3):
        desk.pass_ms(9_000)
        await commit(desk, Commit("t", 0, n), member_id=member, generation=1)
    assert desk.groups.groups["g"].state_name == "Stable"


async def test_offsets_survive_a_restart(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await commit(desk, Commit("t", 0, 1), Commit("u", 3, 7))
    await commit(desk, Commit("t", 0, 2))
    again = make_desk(desk.store)
    assert (offset(again), offset(again, "u", 3)) == (2, 7)
    assert again.groups.groups["g"].state_name == "Empty"


# ---- deletion ------------------------------------------------------------------------------------


async def test_a_deleted_group_is_gone_from_memory_and_log(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await commit(desk, Commit("t", 0, 1))
    assert await desk.groups.removal.delete_group("g") is ErrorCode.none
    assert offset(desk) is None
    again = make_desk(desk.store)
    assert not again.groups.groups
    assert offset(again) is None


async def test_a_group_with_members_is_not_deleted(desk: Desk) -> None:
    await desk.stable()
    assert await desk.groups.removal.delete_group("g") is ErrorCode.non_empty_group


async def test_a_group_that_does_not_exist_is_not_deleted(desk: Desk) -> None:
    assert await desk.groups.removal.delete_group("g") is ErrorCode.group_id_not_found


async def test_if_the_deletion_fails_the_group_is_as_before(desk: Desk) -> None:
    await commit(desk, Commit("t", 0, 1))
    desk.store.failure = OSError("disk full")
    assert await desk.groups.removal.delete_group("g") is ErrorCode.not_coordinator
    assert desk.groups.groups["g"].state_name == "Empty"
    assert offset(desk) == 1


async def test_while_a_group_is_being_deleted_nobody_can_join_or_commit(desk: Desk) -> None:
    await commit(desk, Commit("t", 0, 1))
    desk.store.open.clear()
    deleting = asyncio.ensure_future(desk.groups.removal.delete_group("g"))
    await settle()
    unavailable = ErrorCode.coordinator_not_available
    assert (await desk.join("g")).error is unavailable
    assert await commit(desk, Commit("t", 0, 2)) == [unavailable]
    assert await desk.groups.removal.delete_group("g") is ErrorCode.group_id_not_found
    desk.store.open.set()
    assert await deleting is ErrorCode.none


async def test_a_commit_under_way_does_not_outlive_its_deleted_group(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await commit(desk, Commit("t", 0, 1))
    desk.store.open.clear()
    committing = asyncio.ensure_future(commit(desk, Commit("u", 0, 2)))
    await settle()
    deleting = asyncio.ensure_future(desk.groups.removal.delete_group("g"))
    await settle()
    desk.store.open.set()
    await asyncio.gather(committing, deleting)
    again = make_desk(desk.store)
    assert not desk.groups.groups
    assert not again.groups.groups


async def test_offsets_of_chosen_partitions_are_deleted(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await commit(desk, Commit("t", 0, 1), Commit("t", 1, 2))
    error, errors = await desk.groups.offsets.delete("g", [("t", 0), ("t", 9)])
    assert (error, errors) == (ErrorCode.none, [ErrorCode.none, ErrorCode.none])
    for each in (desk, make_desk(desk.store)):
        assert (offset(each, partition=0), offset(each, partition=1)) == (None, 2)


async def test_offsets_of_a_subscribed_topic_are_not_deleted(desk: Desk) -> None:
    member = await desk.stable()
    await commit(desk, Commit("t", 0, 1), Commit("u", 0, 2), member_id=member, generation=1)
    _, errors = await desk.groups.offsets.delete("g", [("t", 0), ("u", 0)])
    assert errors == [ErrorCode.group_subscribed_to_topic, ErrorCode.none]
    assert (offset(desk, "t"), offset(desk, "u")) == (1, None)


async def test_offsets_of_an_active_group_of_another_protocol_are_not_deleted(desk: Desk) -> None:
    joining = asyncio.ensure_future(desk.join("g", protocol_type="connect"))
    await settle()
    desk.pass_ms(0)
    await joining
    error, _ = await desk.groups.offsets.delete("g", [("t", 0)])
    assert error is ErrorCode.non_empty_group
    assert (await desk.groups.offsets.delete("none", []))[0] is ErrorCode.group_id_not_found


async def test_the_offsets_of_a_deleted_topic_go(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await commit(desk, Commit("t", 0, 1), Commit("u", 0, 2))
    await commit(desk, Commit("t", 0, 1), group_id="h")
    desk.groups.topic_gone("t")
    assert offset(desk, "t") is None
    await desk.groups.removal.offsets_erased("t")
    for each in (desk, make_desk(desk.store)):
        assert offset(each, "t") is offset(each, "t", group="h") is None
        assert offset(each, "u") == 2


# ---- expiry (KIP-211) ----------------------------------------------------------------------------


async def test_a_simple_consumers_offset_expires_after_its_commit(desk: Desk) -> None:
    await commit(desk, Commit("t", 0, 1))
    desk.pass_ms(HOUR - CHECK)
    await commit(desk, Commit("t", 1, 1))
    desk.pass_ms(CHECK)
    await settle()
    assert (offset(desk, partition=0), offset(desk, partition=1)) == (None, 1)
    assert "g" in desk.groups.groups


async def test_a_group_without_members_and_offsets_is_removed(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await commit(desk, Commit("t", 0, 1))
    desk.pass_ms(HOUR)
    await settle()
    assert not desk.groups.groups
    assert not make_desk(desk.store).groups.groups


async def test_offsets_of_an_active_group_do_not_expire(desk: Desk) -> None:
    member = await desk.stable()
    await commit(desk, Commit("t", 0, 1), member_id=member, generation=1)
    for _ in range(500):
        desk.pass_ms(9_000)
        desk.groups.heartbeat("g", member, None, 1)
    await settle()
    assert offset(desk) == 1


async def test_offsets_of_a_topic_that_an_active_group_left_do_expire(desk: Desk) -> None:
    member = await desk.stable()
    await commit(desk, Commit("u", 0, 1), member_id=member, generation=1)
    for _ in range(500):
        desk.pass_ms(9_000)
        desk.groups.heartbeat("g", member, None, 1)
    await settle()
    assert offset(desk, "u") is None
    assert desk.groups.groups["g"].state_name == "Stable"


async def test_a_groups_offsets_expire_when_it_has_been_empty_for_long_enough(desk: Desk) -> None:
    #  commit ──── 50 min ──── last member leaves ──── 59 min ──── 70 min
    #                                                  still there   gone
    member = await desk.stable()
    await commit(desk, Commit("t", 0, 1), member_id=member, generation=1)
    for _ in range(500):
        desk.pass_ms(6_000)
        desk.groups.heartbeat("g", member, None, 1)
    await desk.groups.leave("g", [Identity(member)])
    desk.pass_ms(HOUR - 60_000)
    await settle()
    assert offset(desk) == 1
    desk.pass_ms(CHECK)
    await settle()
    assert offset(desk) is None
    assert not desk.groups.groups


async def test_the_time_of_becoming_empty_survives_a_restart(make_desk: MakeDesk) -> None:
    desk = make_desk()
    member = await desk.stable()
    await commit(desk, Commit("t", 0, 1), member_id=member, generation=1)
    await desk.groups.leave("g", [Identity(member)])
    again = make_desk(desk.store)
    again.pass_ms(HOUR - CHECK)
    await settle()
    assert offset(again) == 1
    again.pass_ms(CHECK)
    await settle()
    assert offset(again) is None


@pytest.mark.parametrize(("retention_ms", "left"), [(CHECK, None), (3 * HOUR, 1)])
async def test_a_commit_may_bring_its_own_retention(
    desk: Desk, retention_ms: int, left: int | None
) -> None:
    await commit(desk, Commit("t", 0, 1), retention_ms=retention_ms)
    desk.pass_ms(HOUR + CHECK)
    await settle()
    assert offset(desk) == left


async def test_if_expiry_cannot_be_stored_it_is_tried_again_later(desk: Desk) -> None:
    await commit(desk, Commit("t", 0, 1))
    desk.store.failure = OSError("disk full")
    desk.pass_ms(HOUR)
    await settle()
    assert offset(desk) == 1
    assert desk.groups.groups["g"].state_name == "Empty"
    desk.store.failure = None
    desk.pass_ms(CHECK)
    await settle()
    assert offset(desk) is None
