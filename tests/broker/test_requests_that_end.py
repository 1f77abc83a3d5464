"""What a request holds is given back when it ends, and none holds much for as long as its client says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce_request
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

LARGE = b"x" * 300_000
FOR_EVER_MS = 2**31 - 1


@pytest.fixture
def disk() -> HandDisk:
    return HandDisk()


@pytest.fixture
def broker(data: Path, disk: HandDisk) -> Iterator[Serving]:
    with serving(data, files=disk) as running:
        yield running


def held(broker: Serving) -> int:
    return broker.call(lambda: broker.broker.memory.used["requests"])


def is_durable(broker: Serving, partition: int) -> bool:
    return bool(broker.call(lambda: broker.log("t", partition).durable_offset))


def hang_up(broker: Serving, wire: Wire) -> None:
    before = len(broker.broker.connections)
    wire.close()
    until(lambda: len(broker.broker.connections) < before, "the connection to be gone")


def test_answers_that_wait_for_those_before_them_give_their_memory_back_with_the_connection(
    broker: Serving, disk: HandDisk
) -> None:
    broker.create("t", 2)
    with disk.held("sync", "t-0/*.log") as slow:
        wire = Wire(broker.bootstrap)
        wire.send("produce", 9, **produce_request("t", batch([(None, LARGE)]), 0))
        slow.until_reached()
        wire.send("produce", 9, **produce_request("t", batch([(None, LARGE)]), 1))
        until(lambda: is_durable(broker, 1), "the second to be stored")
        hang_up(broker, wire)
    until(lambda: is_durable(broker, 0), "the first to be stored")
    until(lambda: held(broker) == 0, "all of it to be given back", 3)


def share_fetch(topic_id: Any, group: str, count: int) -> dict[str, Any]:
    parts = [{"partition_index": n} for n in range(count)]
    return {
        "group_id": group,
        "member_id": "m",
        "share_session_epoch": 0,
        "max_wait": FOR_EVER_MS,
        "min_bytes": 1,
        "max_bytes": 1000,
        "max_records": 1,
        "batch_size": 1,
        "topics": [{"topic_id": topic_id, "partitions": parts}],
    }


def test_a_share_fetch_ends_with_its_connection(broker: Serving) -> None:
    topic_id = broker.create("t", 200)
    wire = Wire(broker.bootstrap)
    wire.send("share_fetch", 1, **share_fetch(topic_id, "g", 200))
    until(lambda: held(broker) > 0, "the request to arrive")
    until(lambda: broker.broker.topics.partitions["t", 0].watchers, "it to wait")
    hang_up(broker, wire)
    until(lambda: held(broker) == 0, "its memory to be given back", 3)


def test_a_share_fetch_of_a_group_that_nobody_has_joined_leaves_nothing_behind(
    broker: Serving,
) -> None:
    topic_id = broker.create("t", 200)
    with broker.wire() as wire:
        for number in range(10):
            request = share_fetch(topic_id, f"g{number}", 200) | {"max_wait": 20}
            assert wire.ask("share_fetch", 1, **request).error_code is ErrorCode.none
    assert broker.call(lambda: len(broker.broker.shares.owners)) == 0


def join_request(size: int, member_id: str = "") -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": member_id,
        "session_timeout": 300_000,
        "rebalance_timeout": FOR_EVER_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x" * size}],
    }


def sync_request(joined: Any, size: int) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": joined.member_id,
        "generation_id": joined.generation_id,
        "assignments": [{"member_id": joined.member_id, "assignment": b"x" * size}],
    }


def test_a_join_that_waits_for_others_is_counted_as_a_member_and_not_as_a_request(
    broker: Serving,
) -> None:
    with broker.wire() as first, broker.wire() as second:
        assert first.ask("join_group", 3, **join_request(10)).error_code is ErrorCode.none
        second.send("join_group", 3, **join_request(300_000))
        until(lambda: len(broker.broker.groups.groups["g"].members) == 2, "it to wait")
        assert held(broker) == 0


def of_two_members(first: Wire, second: Wire) -> Any:
    """The second one, as a follower; the first one leads, and says nothing more."""
    leader = first.ask("join_group", 3, **join_request(10))
    second.send("join_group", 3, **join_request(10))
    first.send("join_group", 3, **join_request(20, leader.member_id))
    follower = second.receive()[1]
    assert follower.leader == first.receive()[1].member_id
    return follower


def test_a_sync_ends_with_its_connection(broker: Serving) -> None:
    with broker.wire() as first:
        second = Wire(broker.bootstrap)
        follower = of_two_members(first, second)
        second.send("sync_group", 3, **sync_request(follower, 300_000))
        until(lambda: held(broker) > 300_000, "it to wait")
        hang_up(broker, second)
        until(lambda: held(broker) == 0, "its memory to be given back", 3)


def test_a_sync_that_holds_what_others_wait_for_is_dropped(data: Path) -> None:
    with (
        serving(data, {"queued.max.request.bytes": 1_000_000}) as broker,
        broker.wire() as first,
        broker.wire() as second,
        broker.wire() as honest,
    ):
        broker.create("t")
        follower = of_two_members(first, second)
        second.send("sync_group", 3, **sync_request(follower, 700_000))
        until(lambda: held(broker) > 700_000, "it to wait")
        answer = honest.ask("produce", 9, **produce_request("t", batch([(None, b"x" * 500_000)])))
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_what_share_groups_have_of_partitions_is_bounded(data: Path) -> None:
    with serving(data, {"headwater.state.max.bytes": 50_000}) as broker, broker.wire() as wire:
        topic_id = broker.create("t", 200)
        joined = wire.ask(
            "share_group_heartbeat",
            1,
            group_id="g",
            member_id="m",
            member_epoch=0,
            subscribed_topic_names=["t"],
        )
        assert joined.error_code is ErrorCode.none
        request = share_fetch(topic_id, "g", 200) | {"max_wait": 0}
        (topic,) = wire.ask("share_fetch", 1, **request).responses
        codes = [row.error_code for row in topic.partitions]
        assert set(codes) == {ErrorCode.kafka_storage_error}
        assert 10 < 200 - len(codes) < 60, "those that there is room for have nothing yet"
        broker.run(broker.broker.state.recount())
        assert broker.call(lambda: broker.broker.state.used) > 50_000
