"""What clients leave behind has a bound in all: beyond it nothing new begins, and what is there goes on."""

from __future__ import annotations

import asyncio
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import turns as loop_turns
from headwater.broker.shares.membership import Member, ShareGroup
from headwater.broker.state_budget import ASSIGNED_BYTES, EACH_BYTES
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.streaming import Streaming, subtopology
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

ROOM = 100_000


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data, {"headwater.state.max.bytes": str(ROOM)}) as running:
        running.create("t", 30)
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def commit(wire: Wire, group: str, offset: int = 5) -> ErrorCode:
    parts = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "m" * 4000}]
    answer = wire.ask(
        "offset_commit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": "t", "partitions": parts}],
    )
    found: ErrorCode = answer.topics[0].partitions[0].error_code
    return found


def join(wire: Wire, group: str, size: int) -> Any:
    return wire.ask(
        "join_group",
        3,
        group_id=group,
        session_timeout=30_000,
        rebalance_timeout=30_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"x" * size}],
    )


def test_offsets_of_new_groups_end_at_the_bound_and_known_groups_go_on(
    broker: Serving, wire: Wire
) -> None:
    codes = [commit(wire, f"g{number}") for number in range(60)]
    stored = codes.count(ErrorCode.none)
    assert 10 < stored < 30
    assert codes == [ErrorCode.none] * stored + [ErrorCode.invalid_commit_offset_size] * (
        60 - stored
    )
    broker.run(broker.broker.state.recount())
    assert commit(wire, "one more") is ErrorCode.invalid_commit_offset_size
    assert commit(wire, "g0", 6) is ErrorCode.none
    wire.ask("delete_groups", 2, groups_names=["g0", "g1"])
    broker.run(broker.broker.state.recount())
    assert commit(wire, "one more") is ErrorCode.none, "what was deleted makes room"


def test_members_with_much_to_say_are_refused_before_they_are_kept(
    broker: Serving, wire: Wire
) -> None:
    assert join(wire, "small", 10).error_code is ErrorCode.none
    assert join(wire, "large", ROOM).error_code is ErrorCode.group_max_size_reached
    assert "large" not in broker.broker.groups.groups


def test_transactional_ids_and_share_groups_are_counted(broker: Serving, wire: Wire) -> None:
    codes = set()
    for number in range(60):
        name = f"{number}".ljust(4000, "x")
        answer = wire.ask("init_producer_id", 4, transactional_id=name, transaction_timeout=60_000)
        codes.add(answer.error_code)
    assert codes == {ErrorCode.none, ErrorCode.throttling_quota_exceeded}
    parts = [{"partition_index": 0, "start_offset": 0}]
    topics = [{"topic_name": "t", "partitions": parts}]
    refused = wire.ask("alter_share_group_offsets", 0, group_id="s" * 8000, topics=topics)
    assert refused.error_code is ErrorCode.group_max_size_reached


def test_a_restart_takes_all_that_was_stored(data: Path) -> None:
    with serving(data) as running, running.wire() as wire:
        running.create("t", 1)
        assert {commit(wire, f"g{number}") for number in range(40)} == {ErrorCode.none}
    with serving(data, {"headwater.state.max.bytes": str(ROOM)}) as running:
        running.run(running.broker.state.recount())
        with running.wire() as wire:
            assert commit(wire, "g39", 6) is ErrorCode.none
            assert commit(wire, "new") is ErrorCode.invalid_commit_offset_size


def test_what_lists_state_waits_while_answers_that_nobody_takes_fill_the_memory(data: Path) -> None:
    """Many who ask for all groups, and read nothing, hold as much as the budget and one answer more."""
    settings = {"queued.max.request.bytes": str(4 << 20)}
    with serving(data, settings) as running, running.wire() as wire:
        running.create("t", 1)
        for number in range(150):
            commit(wire, f"{number}".ljust(8000, "x"))
        with ExitStack() as stack:
            silent = [stack.enter_context(running.wire()) for _ in range(20)]
            for each in silent:
                for _ in range(5):
                    each.send("list_groups", 4, states_filter=[])
            until(
                lambda: running.call(lambda: running.broker.memory.used["answers"]) > 1 << 20,
                "answers that nobody takes",
            )
            assert running.call(lambda: running.broker.memory.used["answers"]) < 4 << 20


def test_requests_that_leave_nothing_behind_shut_nobody_out(broker: Serving) -> None:
    """One request of 8 MB, refused for its generation, does it with the default of 256 MB."""
    with broker.wire() as wire, broker.wire() as other:
        parts = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        refused = wire.ask(
            "offset_commit",
            8,
            group_id="nobody",
            member_id="nobody",
            generation_id_or_member_epoch=7,
            topics=[{"name": "t", "partitions": parts * 197}],
        )
        codes = {each.error_code for each in refused.topics[0].partitions}
        assert ErrorCode.none not in codes
        assert join(other, "somebody", 1000).error_code is ErrorCode.none


def test_a_static_member_that_starts_again_is_nothing_new(broker: Serving) -> None:
    def enter(wire: Wire) -> Any:
        return wire.ask(
            "join_group",
            5,
            group_id="g",
            group_instance_id="i",
            session_timeout=30_000,
            rebalance_timeout=30_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"x"}],
        )

    with broker.wire() as wire:
        assert enter(wire).error_code is ErrorCode.none
        while commit(wire, "other" + str(broker.broker.state.used)) is ErrorCode.none:
            pass
        broker.broker.state.used = ROOM
        assert enter(wire).error_code is ErrorCode.none


def test_known_groups_do_not_grow_beyond_the_bound(broker: Serving) -> None:
    with broker.wire() as wire:
        for number in range(10):
            assert commit(wire, f"g{number}") is ErrorCode.none
        parts = [
            {"partition_index": n, "committed_offset": 1, "committed_metadata": "m" * 4000}
            for n in range(30)
        ]
        for number in range(10):
            wire.ask(
                "offset_commit",
                8,
                group_id=f"g{number}",
                generation_id_or_member_epoch=-1,
                topics=[{"name": "t", "partitions": parts}],
            )
        broker.run(broker.broker.state.recount())
        assert broker.broker.state.used < 2 * ROOM


def test_a_members_small_requests_do_not_wait_for_answers_that_others_do_not_take(
    data: Path,
) -> None:
    """The heartbeat behind an OffsetFetch waits with it, on the same connection."""
    with serving(data) as running, running.wire() as wire:
        running.create("t", 1)
        memory = running.broker.memory
        running.call(lambda: memory.take("answers", memory.limit // 2))
        wire._socket.settimeout(3)
        try:
            wire.send(
                "offset_fetch", 5, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}]
            )
            wire.send("heartbeat", 2, group_id="g", generation_id=1, member_id="m")
            assert wire.receive() and wire.receive()
        finally:
            running.call(lambda: memory.release("answers", memory.limit // 2))


def test_large_answers_count_while_they_are_made(data: Path) -> None:
    """150 requests of 30 bytes took 220 MB of a broker that may hold 8."""
    settings = {"queued.max.request.bytes": str(4 << 20)}
    with serving(data, settings) as running, running.wire() as wire, ExitStack() as stack:
        running.create("t", 1)
        for number in range(2000):
            produce(wire, "t", batch([(None, b"v")], producer=(10**6 + number, 0, 0)))
        wires = [stack.enter_context(running.wire()) for _ in range(60)]
        tracemalloc.start()
        try:
            for each in wires:
                topics = [{"name": "t", "partition_indexes": [0]}]
                each.send("describe_producers", 0, topics=topics)
            for each in wires:
                each.receive_bytes()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 5 * (4 << 20), f"{peak >> 20} MB"


def test_a_transaction_that_sends_an_offset_again_and_again_holds_the_last_one(
    data: Path,
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        one = Transactor(wire, "one").init()
        one.write("t", b"x")
        for offset in range(50):
            assert one.send_offsets("g", "t", {0: offset}) is ErrorCode.none
        (pending,) = broker.broker.groups.offsets_of("g").pending.values()
        assert [value.offset for _, value in pending["t", 0]] == [49]
        before = broker.call(lambda: broker.broker.state.used)
        broker.run(broker.broker.state.recount())
        assert broker.call(lambda: broker.broker.state.used) > 1000, f"{before} were asked for"
        one.end(commit=True)
        until(lambda: broker.broker.groups.offsets_of("g").get("t", 0), "it to count")
    with serving(data) as broker:
        kept = broker.broker.groups.offsets_of("g").get("t", 0)
        assert kept is not None
        assert kept.offset == 49


def test_ids_that_are_waited_for_and_partitions_that_are_assigned_are_counted(
    broker: Serving, wire: Wire
) -> None:
    def counted() -> int:
        broker.run(broker.broker.state.recount())
        return broker.call(lambda: broker.broker.state.used)

    for _ in range(20):
        answer = wire.ask(
            "join_group",
            4,
            group_id="g",
            session_timeout=30_000,
            rebalance_timeout=30_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"x"}],
        )
        assert answer.error_code is ErrorCode.member_id_required
    before = counted()
    assert before > 20 * EACH_BYTES
    for number in range(5):
        wire.ask(
            "consumer_group_heartbeat",
            1,
            group_id=f"c{number}",
            member_id="m",
            member_epoch=0,
            rebalance_timeout=30_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert beat_of_share_group(wire, f"s{number}").error_code is ErrorCode.none
    assert counted() - before > 2 * 5 * 30 * ASSIGNED_BYTES


def beat_of_share_group(wire: Wire, group: str, epoch: int = 0, names: Any = ("t",)) -> Any:
    return wire.ask(
        "share_group_heartbeat",
        1,
        group_id=group,
        member_id="m",
        member_epoch=epoch,
        subscribed_topic_names=names,
    )


def test_one_group_with_very_many_members_is_counted_in_several_turns(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_turns, "TURN_S", -1.0)
    members = {f"m{n}": Member(f"m{n}", "", "", None, frozenset("abc")) for n in range(500)}

    async def turns() -> int:
        broker.broker.shares.groups["g"] = ShareGroup("g", members=members)
        counting, count = asyncio.ensure_future(broker.broker.state.recount()), 0
        while not counting.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert broker.run(turns()) > 20


def test_what_members_say_of_topics_that_are_not_there_is_not_looked_at_for_others() -> None:
    """20,000 names of each of 200 members would be four millions at each change."""
    looked_at = 0

    class Names(frozenset[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal looked_at
            looked_at += len(self)
            return super().__iter__()

    group = ShareGroup("g")
    for number in range(20):
        group.heartbeat(f"m{number}", 0, ["t"], client=("", ""), rack_id=None, size_max=200)
        group.members[f"m{number}"].topics = Names([*map(str, range(1000)), "t"])
    assert group.refresh({"t": (uuid.uuid4(), 3)})
    assert looked_at == 0
    assert sum(map(len, group.target.values())) == 20


# ---- what the catalogue keeps for strangers ----------------------------------------------------------


def configure(wire: Wire, kind: int, name: str) -> ErrorCode:
    config = {16: ("interval.ms", "1000"), 32: ("consumer.session.timeout.ms", "45000")}[kind]
    change = {"name": config[0], "config_operation": 0, "value": config[1]}
    asked = {"resource_type": kind, "resource_name": name, "configs": [change]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[asked])
    found: ErrorCode = answer.responses[0].error_code
    return found


def limit(wire: Wire, client: str) -> ErrorCode:
    entity = [{"entity_type": "client-id", "entity_name": client}]
    value = {"key": "producer_byte_rate", "value": 1e9, "remove": False}
    answer = wire.ask("alter_client_quotas", 1, entries=[{"entity": entity, "ops": [value]}])
    found: ErrorCode = answer.entries[0].error_code
    return found


def enrol(wire: Wire, user: str) -> ErrorCode:
    secret = {"salt": b"s", "salted_password": b"p", "iterations": 4096, "mechanism": 1}
    asked = [{"name": user, **secret}]
    answer = wire.ask("alter_user_scram_credentials", 0, deletions=[], upsertions=asked)
    found: ErrorCode = answer.results[0].error_code
    return found


LEFT: dict[str, Callable[[Wire, str], ErrorCode]] = {
    "groups' configs": lambda wire, name: configure(wire, 32, name),
    "subscriptions to metrics": lambda wire, name: configure(wire, 16, name[:240]),
    "quotas": limit,
}


@pytest.mark.parametrize("kind", LEFT)
def test_names_in_the_catalogue_are_bounded_in_number(
    broker: Serving, wire: Wire, kind: str
) -> None:
    make = LEFT[kind]
    codes = [make(wire, f"{number}-" + "n" * 5000) for number in range(ROOM // 500)]
    assert codes[0] is ErrorCode.none
    assert codes[-1] is ErrorCode.kafka_storage_error
    assert make(wire, "0-" + "n" * 5000) is ErrorCode.none, "what is there may be changed"
    broker.run(broker.broker.state.recount())
    assert 0.8 * ROOM < broker.broker.state.used <= 1.1 * ROOM, "a recount finds it all"


@pytest.mark.parametrize("make", [*LEFT.values(), enrol], ids=[*LEFT, "users"])
def test_names_in_the_catalogue_are_bounded_in_length(
    wire: Wire, make: Callable[[Wire, str], ErrorCode]
) -> None:
    if make is LEFT["subscriptions to metrics"]:
        assert configure(wire, 16, "n" * 250) is ErrorCode.invalid_request
        return
    refused = (ErrorCode.invalid_request, ErrorCode.unacceptable_credential)
    assert make(wire, "n" * 8001) in refused


@pytest.mark.parametrize("make", [limit, enrol])
def test_what_strangers_are_kept_out_with_has_room_whatever_they_have_filled(
    broker: Serving, wire: Wire, make: Callable[[Wire, str], ErrorCode]
) -> None:
    while commit(wire, f"g{len(broker.broker.groups.groups)}") is ErrorCode.none:
        pass
    broker.call(
        lambda: broker.broker.state.take(ROOM, known=True)
    )  # with what their groups may grow by
    assert make(wire, "intruder") is ErrorCode.none
    broker.run(broker.broker.state.recount())
    assert make(wire, "another") is ErrorCode.none


def begun(wire: Wire, count: int) -> list[ErrorCode]:
    """So many producers, of which each then names thirty partitions: what became of that."""
    made = [
        wire.ask(
            "init_producer_id",
            4,
            transactional_id=f"x{number}",
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        for number in range(count)
    ]
    outcomes = []
    for number, producer in enumerate(made):
        assert producer.error_code is ErrorCode.none, "an id is little"
        (row,) = wire.ask(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=f"x{number}",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[{"name": "t", "partitions": list(range(30))}],
        ).results_by_topic_v3_and_below
        outcomes.append(ErrorCode(row.results_by_partition[0].partition_error_code))
    return outcomes


def test_what_open_transactions_write_to_is_within_the_bound(broker: Serving, wire: Wire) -> None:
    """Only the ids were counted, and each could name a megabyte of partitions."""
    outcomes = begun(wire, 50)
    assert outcomes[0] is ErrorCode.none
    assert outcomes[-1] is ErrorCode.coordinator_not_available, "clients try that again"
    assert broker.call(lambda: broker.broker.state.held) <= 2 * ROOM
    partitions = broker.call(lambda: broker.broker.transactions.state.partitions)
    assert partitions == 30 * outcomes.count(ErrorCode.none)


def test_a_transaction_that_ends_makes_room_at_once(broker: Serving, wire: Wire) -> None:
    outcomes = begun(wire, 5)
    first = broker.call(lambda: broker.broker.transactions.transactions["x0"])
    ended = wire.ask(
        "end_txn",
        3,
        transactional_id="x0",
        producer_id=first.producer_id,
        producer_epoch=first.epoch,
        committed=False,
    )
    assert ended.error_code is ErrorCode.none
    partitions = broker.call(lambda: broker.broker.transactions.state.partitions)
    assert partitions == 30 * (len(outcomes) - 1)


def _consumer(wire: Wire, name: str) -> Any:
    return wire.ask(
        "consumer_group_heartbeat",
        0,
        group_id="g",
        member_id=name,
        member_epoch=0,
        instance_id=f"{name}i",
        rack_id=f"{name}r",
        rebalance_timeout=30_000,
        subscribed_topic_names=["t"],
        server_assignor=None,
        topic_partitions=[],
    )


def _share(wire: Wire, name: str) -> Any:
    said = {"member_id": name, "member_epoch": 0, "rack_id": name}
    return wire.ask("share_group_heartbeat", 1, group_id="g", subscribed_topic_names=["t"], **said)


def _streams(wire: Wire, name: str) -> Any:
    topology = {"epoch": 0, "subtopologies": [subtopology("0", ["t"])]}
    endpoint = {"host": name, "port": 1}
    member = Streaming(wire, "g", name, topology, rack_id=name, user_endpoint=endpoint)
    return member.join(client_tags=[{"key": "k", "value": name}])


def _classic(wire: Wire, name: str) -> Any:
    return wire.ask(
        "join_group",
        5,
        group_id="g",
        group_instance_id=name,
        session_timeout=30_000,
        rebalance_timeout=30_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


@pytest.mark.parametrize("join", [_classic, _consumer, _share, _streams])
def test_names_of_members_are_counted(
    broker: Serving, wire: Wire, join: Callable[[Wire, str], Any]
) -> None:
    """A name of 8,000 characters has up to 32,000 bytes, and a member several of them."""
    name, used = "\N{HERB}" * 1_000, broker.broker.state.used
    assert join(wire, name).error_code is ErrorCode.none
    assert broker.broker.state.used - used > 2 * len(name.encode())
    broker.run(broker.broker.state.recount())
    assert broker.broker.state.used - used > 2 * len(name.encode())
    if join is not _classic:  # the second one of a classic group waits for the first
        codes = [join(wire, f"{name}{number}").error_code for number in range(60)]
        assert codes[-1] is ErrorCode.group_max_size_reached
