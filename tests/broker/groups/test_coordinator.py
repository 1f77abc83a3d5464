"""The asyncio shell: futures, the log's order, start, stop and storage that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.groups.sync import Identity

from .desk import Desk, settle

MakeDesk = Callable[..., Desk]


async def test_a_join_is_answered_when_the_timer_ends_the_initial_delay(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(group_initial_rebalance_delay_ms=3_000)
    joining = asyncio.ensure_future(desk.join("g"))
    await settle()
    desk.pass_ms(2_999)
    await settle()
    assert not joining.done()
    desk.pass_ms(1)
    assert (await joining).generation == 1


async def test_a_group_needs_a_name(desk: Desk) -> None:
    assert (await desk.join("")).error is ErrorCode.invalid_group_id
    assert (await desk.sync("", "m", 1)).error is ErrorCode.invalid_group_id
    assert desk.groups.heartbeat("", "m", None, 1) is ErrorCode.invalid_group_id
    assert (await desk.groups.leave("", [Identity("m")])).error is ErrorCode.invalid_group_id


async def test_a_session_time_out_must_be_within_the_limits(desk: Desk) -> None:
    for session in (999, 300_001):
        answer = await desk.join("g", session_timeout_ms=session)
        assert answer.error is ErrorCode.invalid_session_timeout
    assert not desk.groups.groups


async def test_names_that_do_not_fit_the_log_are_refused(desk: Desk) -> None:
    long = "\N{SNOWMAN}" * 8_001
    assert (await desk.join(long)).error is ErrorCode.invalid_group_id
    assert (await desk.join("g", client_id=long)).error is ErrorCode.invalid_request
    assert (await desk.join("g", instance_id=long)).error is ErrorCode.invalid_request
    assert (await desk.join("g", protocols=((long, b""),))).error is ErrorCode.invalid_request
    commit = desk.groups.offsets.commit(Committer(long), [Commit("t", 0, 1)])
    assert await commit == [ErrorCode.invalid_group_id]
    assert not desk.groups.groups


async def test_the_timer_does_not_grow_with_the_number_of_rebalances(desk: Desk) -> None:
    for n in range(500):
        await desk.stable(member=f"m{n}")
        await desk.groups.leave("g", [Identity(f"m{n}")])
    assert len(desk.groups._core.deadlines._heap) < 100


async def test_a_request_to_a_group_that_does_not_exist_is_from_an_unknown_member(
    desk: Desk,
) -> None:
    unknown = ErrorCode.unknown_member_id
    assert (await desk.join("g", "m")).error is unknown
    assert (await desk.sync("g", "m", 1)).error is unknown
    assert desk.groups.heartbeat("g", "m", None, 1) is unknown
    assert (await desk.groups.leave("g", [Identity("m")])).members == (unknown,)
    assert not desk.groups.groups


async def test_a_sync_is_answered_only_when_its_record_is_durable(desk: Desk) -> None:
    joining = asyncio.ensure_future(desk.join("g", fresh_id="m"))
    await settle()
    desk.pass_ms(0)
    await joining
    desk.store.open.clear()
    syncing = asyncio.ensure_future(desk.sync("g", "m", 1, m="all"))
    await settle()
    assert not syncing.done()
    assert desk.groups.groups["g"].state_name == "CompletingRebalance"
    desk.store.open.set()
    assert (await syncing).assignment == b"all"


async def test_a_sync_whose_record_fails_is_told_to_look_for_the_coordinator(desk: Desk) -> None:
    joining = asyncio.ensure_future(desk.join("g", fresh_id="m"))
    await settle()
    desk.pass_ms(0)
    await joining
    desk.store.failure = OSError("disk full")
    assert (await desk.sync("g", "m", 1, m="all")).error is ErrorCode.not_coordinator
    assert desk.groups.groups["g"].state_name == "PreparingRebalance"


async def test_sessions_end_by_the_timer(desk: Desk) -> None:
    await desk.stable()
    desk.pass_ms(10_000)
    await settle()
    assert desk.groups.groups["g"].state_name == "Empty"


async def test_a_group_survives_a_restart_with_members_and_assignments(make_desk: MakeDesk) -> None:
    first = make_desk()
    member = await first.stable()
    second = make_desk(first.store)
    group = second.groups.groups["g"]
    assert (group.state_name, group.generation, group.leader) == ("Stable", 1, member)
    assert second.groups.heartbeat("g", member, None, 1) is ErrorCode.none
    assert (await second.sync("g", member, 1)).assignment == b"all"
    assert group.subscribes("t")


async def test_after_a_restart_members_that_do_not_return_expire(make_desk: MakeDesk) -> None:
    first = make_desk()
    await first.stable()
    second = make_desk(first.store)
    second.pass_ms(9_999)
    assert second.groups.groups["g"].state_name == "Stable"
    second.pass_ms(1)
    await settle()
    assert second.groups.groups["g"].state_name == "Empty"


async def test_a_lowered_group_size_takes_effect_at_start(make_desk: MakeDesk) -> None:
    first = make_desk()
    joins = [asyncio.ensure_future(first.join("g", fresh_id=f"m{n}")) for n in range(2)]
    await settle()
    first.pass_ms(0)
    await asyncio.gather(*joins)
    await first.sync("g", "m0", 1)
    second = make_desk(first.store, group_max_size=1)
    assert second.groups.groups["g"].state_name == "PreparingRebalance"


async def test_when_the_coordinator_stops_everything_that_waits_is_answered(desk: Desk) -> None:
    await desk.stable()
    joining = asyncio.ensure_future(desk.join("g", fresh_id="m2"))
    await settle()
    desk.groups.stopping()
    assert (await joining).error is ErrorCode.not_coordinator
    assert (await desk.join("g")).error is ErrorCode.coordinator_not_available
    assert desk.groups.heartbeat("g", "m1", None, 1) is ErrorCode.coordinator_not_available


async def test_stop_waits_for_records_that_are_under_way(desk: Desk) -> None:
    desk.store.open.clear()
    committing = asyncio.ensure_future(
        desk.groups.offsets.commit(Committer("g"), [Commit("t", 0, 1)])
    )
    await settle()
    stopping = asyncio.ensure_future(desk.groups.stop())
    await settle()
    assert not stopping.done()
    desk.store.open.set()
    await stopping
    assert await committing == [ErrorCode.none]


async def test_before_the_log_is_replayed_requests_are_told_to_wait(make_desk: MakeDesk) -> None:
    desk = make_desk()
    fresh = type(desk.groups)(desk.settings, desk.clock, desk.store, None, desk.supervisor)
    assert fresh.heartbeat("g", "m", None, 1) is ErrorCode.coordinator_load_in_progress


async def test_a_client_that_went_away_does_not_disturb_the_others(desk: Desk) -> None:
    joins = [asyncio.ensure_future(desk.join("g", fresh_id=f"m{n}")) for n in range(2)]
    await settle()
    joins[0].cancel()
    await settle()
    desk.pass_ms(0)
    assert (await joins[1]).generation == 1


async def test_records_take_effect_in_the_order_of_the_log(make_desk: MakeDesk) -> None:
    """Even if the store reports them in another order."""
    desk = make_desk()
    gates = [asyncio.Event(), asyncio.Event()]
    order = iter(gates)

    numbers = count(1)

    async def append(group_id: str, records: Any) -> int:
        number = next(numbers)
        await next(order).wait()
        return number

    desk.store.append = append
    commits = [
        asyncio.ensure_future(desk.groups.offsets.commit(Committer("g"), [Commit("t", 0, offset)]))
        for offset in (1, 2)
    ]
    await settle()
    gates[1].set()
    await settle()
    assert not commits[1].done()
    gates[0].set()
    await asyncio.gather(*commits)
    assert desk.groups.offsets.fetch("g")[1].get("t", 0).offset == 2


async def test_an_unreadable_record_is_skipped_and_logged(make_desk: MakeDesk, caplog: Any) -> None:
    desk = make_desk()
    await desk.groups.offsets.commit(Committer("g"), [Commit("t", 0, 1)])
    desk.store.log.append((b"\0\1broken", b"x", 0))
    again = make_desk(desk.store)
    assert again.groups.offsets.fetch("g")[1].get("t", 0).offset == 1
    assert "skipped" in caplog.text
