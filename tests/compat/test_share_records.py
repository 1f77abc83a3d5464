"""Acquiring and settling records of a share group, over the wire, record by record."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .asking import produce
from .batches import batch
from .cluster import Cluster
from .sharing import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Sharer,
    acquired,
    configure,
    row,
    values,
)
from .waiting import AT_ONCE_SECONDS, LONG_MS, until
from .wire import ErrorCode, Wire

Make = Callable[..., Sharer]


@pytest.fixture
def make(cluster: Cluster, topic: str, group: str) -> Iterator[Make]:
    """Members of one group, each with a connection, on a topic of one partition."""
    cluster.create_topic(topic)
    topic_id = cluster.topic_id(topic)
    configure(cluster, group, share_auto_offset_reset="earliest")
    wires: list[Wire] = []

    def new(**configs: str) -> Sharer:
        if configs:
            configure(cluster, group, **configs)
        wires.append(Wire(cluster.bootstrap))
        sharer = Sharer(wires[-1], group, topic_id)
        sharer.join(topic)
        return sharer

    yield new
    for wire in wires:
        wire.close()


def fill(one: Sharer, topic: str, *sizes: int) -> None:
    """Batches of so many records; every value says its offset."""
    offset = 0
    for size in sizes:
        pairs = [(None, b"%d" % (offset + n)) for n in range(size)]
        assert produce(one.wire, topic, batch(pairs)).error_code is ErrorCode.none
        offset += size


def test_whole_batches_come_until_there_are_enough_records(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 5, 5, 5, 5)
    answer = one.fetch(wait=5000, max_records=7)
    assert acquired(answer) == [(0, 9, 1)]
    assert values(answer) == [b"%d" % n for n in range(10)]
    assert answer.acquisition_lock_timeout.total_seconds() == 30
    assert acquired(one.fetch()) == [(10, 19, 1)]
    assert acquired(one.fetch(wait=50)) == []


def test_a_strict_limit_gives_no_record_more(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 5, 5)
    assert one.take(max_records=1, share_acquire_mode=1) == [(0, 0, 1)]
    assert one.take(max_records=2, share_acquire_mode=1) == [(1, 2, 1)]
    assert one.take(batch_size=1) == [(3, 4, 1), (5, 9, 1)]


@pytest.mark.parametrize("version", [1, 2])
def test_both_versions_deliver_and_settle(make: Make, topic: str, version: int) -> None:
    one = make()
    fill(one, topic, 3)
    assert one.take(version=version) == [(0, 2, 1)]
    assert one.settle(0, 2, ACCEPT, version=version) is ErrorCode.none
    assert acquired(one.fetch(wait=50, version=version)) == []


def test_one_record_is_delivered_to_one_member(make: Make, topic: str) -> None:
    one, two = make(), make()
    fill(one, topic, 4, 4)
    assert one.take(max_records=1) == [(0, 3, 1)]
    assert two.take() == [(4, 7, 1)]
    assert two.settle(0, 0, ACCEPT) is ErrorCode.invalid_record_state
    assert one.settle(4, 4, ACCEPT) is ErrorCode.invalid_record_state


def test_released_records_go_to_another_member(make: Make, topic: str) -> None:
    one, two = make(), make()
    fill(one, topic, 10)
    one.take()
    two.fetch(wait=50)
    assert one.settle(3, 4, RELEASE) is ErrorCode.none
    assert two.take() == [(3, 4, 2)]
    assert two.settle(3, 4, ACCEPT) is ErrorCode.none


def test_a_fetch_that_waits_gets_what_is_released(make: Make, topic: str) -> None:
    one, two = make(), make()
    fill(one, topic, 5)
    one.take()
    two.fetch(wait=50)
    two.send_fetch(wait=2000)
    assert one.settle(0, 1, RELEASE) is ErrorCode.none
    assert acquired(two.receive()) == [(0, 1, 2)]


def test_a_fetch_that_waits_is_woken_by_a_record(make: Make, topic: str) -> None:
    one = make()
    until(lambda: one.fetch(wait=50).error_code is ErrorCode.none, "a session")
    with_other = Wire(f"{one.wire._socket.getpeername()[0]}:{one.wire._socket.getpeername()[1]}")
    one.send_fetch(wait=LONG_MS)
    began = time.monotonic()
    produce(with_other, topic, batch([(None, b"here")]))
    with_other.close()
    answer = one.receive()
    assert values(answer) == [b"here"]
    assert time.monotonic() - began < AT_ONCE_SECONDS


def test_each_record_of_a_range_may_be_settled_differently(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 5)
    one.take()
    assert one.settle(0, 4, ACCEPT, RELEASE, REJECT, GAP, RELEASE) is ErrorCode.none
    assert one.take() == [(1, 1, 2), (4, 4, 2)]


def test_a_record_that_is_released_too_often_is_not_delivered_again(make: Make, topic: str) -> None:
    one = make(share_delivery_count_limit="2")
    fill(one, topic, 2)
    assert one.take() == [(0, 1, 1)]
    assert one.settle(0, 1, ACCEPT, RELEASE) is ErrorCode.none
    assert one.take() == [(1, 1, 2)]
    assert one.settle(1, 1, RELEASE) is ErrorCode.none
    assert acquired(one.fetch(wait=300)) == []


def test_a_lock_ends_and_its_record_is_delivered_again(make: Make, topic: str) -> None:
    one, two = make(share_record_lock_duration_ms="1000"), make()
    fill(one, topic, 3)
    one.take()
    assert two.take() == [(0, 2, 2)]
    assert one.settle(0, 2, ACCEPT) is ErrorCode.invalid_record_state


def test_a_renewed_lock_lasts(make: Make, topic: str) -> None:
    one, two = make(share_record_lock_duration_ms="1500"), make()
    fill(one, topic, 2)
    one.take()
    two.fetch(wait=50)
    began = time.monotonic()
    while time.monotonic() - began < 60:
        assert one.settle(0, 0, RENEW, is_renew_ack=True) is ErrorCode.none
        two.heartbeat()
        one.heartbeat()
        if acquired(two.fetch(wait=100)) == [(1, 1, 2)]:
            break
    else:
        pytest.fail("the lock that was not renewed did not end")
    assert one.settle(0, 0, ACCEPT) is ErrorCode.none


def test_renewing_needs_its_flag_and_version_two(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 1)
    one.take()
    assert one.settle(0, 0, RENEW) is ErrorCode.invalid_request
    assert one.settle(0, 0, RENEW, version=1) is ErrorCode.invalid_request
    assert one.settle(0, 0, ACCEPT, is_renew_ack=True) is ErrorCode.none


def test_a_group_may_forbid_renewing(make: Make, topic: str) -> None:
    one = make(share_renew_acknowledge_enable="false")
    fill(one, topic, 2)
    one.take()
    assert one.settle(0, 0, RENEW, is_renew_ack=True) is ErrorCode.invalid_record_state
    assert one.settle(0, 1, ACCEPT) is ErrorCode.none


def test_a_fetch_that_renews_asks_for_nothing_else(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 2)
    one.take()
    wrong = one.fetch((0, 0, [RENEW]), is_renew_ack=True)
    assert wrong.error_code is ErrorCode.invalid_request
    nothing = {"wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    renewed = one.fetch((0, 0, [RENEW]), is_renew_ack=True, **nothing)
    assert row(renewed).acknowledge_error_code == ErrorCode.none


def test_acknowledgements_come_along_with_a_fetch(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 2, 2)
    assert one.take(max_records=1) == [(0, 1, 1)]
    answer = one.fetch((0, 1, [ACCEPT]))
    assert acquired(answer) == [(2, 3, 1)]
    assert row(answer).acknowledge_error_code == ErrorCode.none
    late = one.fetch((2, 2, [ACCEPT]), (3, 3, [ACCEPT]), wait=50)
    assert row(late).acknowledge_error_code == ErrorCode.none
    wrong = one.fetch((7, 7, [ACCEPT]), wait=50)
    assert row(wrong).acknowledge_error_code == ErrorCode.invalid_record_state


@pytest.mark.parametrize(
    "acknowledgement",
    [
        (0, 50, [ACCEPT]),
        (100, 101, [ACCEPT]),
        (0, 1, [ACCEPT] * 3),
        (0, 1, []),
        (0, 1, [9]),
        (1, 0, [ACCEPT]),
    ],
)
def test_a_wrong_acknowledgement_is_refused(
    make: Make, topic: str, acknowledgement: tuple[int, int, list[int]]
) -> None:
    one = make()
    fill(one, topic, 5)
    one.take()
    first, last, kinds = acknowledgement
    assert one.settle(first, last, *kinds) is ErrorCode.invalid_request
    assert one.settle(0, 4, ACCEPT) is ErrorCode.none


def test_ranges_out_of_order_are_refused(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 5)
    one.take()
    answer = one.acknowledge((3, 4, [ACCEPT]), (2, 3, [ACCEPT]))
    assert row(answer).error_code is ErrorCode.invalid_request


def test_settling_twice_is_harmless_once_it_lies_behind(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 5)
    one.take()
    assert one.settle(0, 1, ACCEPT) is ErrorCode.none
    assert one.settle(0, 1, ACCEPT) is ErrorCode.none
    assert one.settle(3, 3, ACCEPT) is ErrorCode.none
    assert one.settle(3, 3, ACCEPT) is ErrorCode.invalid_record_state


def test_sessions_have_epochs(make: Make, topic: str) -> None:
    one = make()
    expected = {
        5: ErrorCode.share_session_not_found,
        -1: ErrorCode.share_session_not_found,
    }
    for epoch, error in expected.items():
        assert one.fetch(share_session_epoch=epoch).error_code is error
    assert one.acknowledge((0, 0, [1]), share_session_epoch=0).error_code is (
        ErrorCode.invalid_share_session_epoch
    )
    assert one.acknowledge((0, 0, [1])).error_code is ErrorCode.invalid_share_session_epoch
    assert one.fetch((0, 0, [1])).error_code is ErrorCode.invalid_request
    assert one.fetch(wait=50).error_code is ErrorCode.none
    wrong = one.fetch(share_session_epoch=9)
    assert wrong.error_code is ErrorCode.invalid_share_session_epoch
    assert one.fetch(wait=50).error_code is ErrorCode.none


@pytest.mark.parametrize("changes", [{"group_id": None}, {"member_id": None}, {"member_id": ""}])
def test_a_fetch_without_a_name_is_refused(make: Make, changes: dict[str, Any]) -> None:
    assert make().fetch(**changes).error_code is ErrorCode.invalid_request


def test_a_session_remembers_its_partitions_and_forgets_them(make: Make, topic: str) -> None:
    one = make()
    assert one.fetch(wait=50, topics=[]).responses == ()
    unknown = one.fetch(partition=7, wait=50)
    assert row(unknown).error_code is ErrorCode.unknown_topic_or_partition
    forgotten = [{"topic_id": one.topic_id, "partitions": [7]}]
    assert one.fetch(wait=50, topics=[], forgotten_topics_data=forgotten).responses == ()
    one.fetch(wait=50)
    fill(one, topic, 1)
    assert one.take(topics=[]) == [(0, 0, 1)]


def test_acknowledging_what_does_not_exist_is_an_error_of_its_partition(make: Make) -> None:
    one = make()
    one.fetch(wait=50)
    said = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [ACCEPT]}]

    def error(topic_id: Any, number: int) -> ErrorCode:
        parts = [{"partition_index": number, "acknowledgement_batches": said}]
        answer = one.acknowledge(topics=[{"topic_id": topic_id, "partitions": parts}])
        return ErrorCode(row(answer).error_code)

    assert error(uuid.uuid4(), 0) is ErrorCode.unknown_topic_id
    assert error(one.topic_id, 7) is ErrorCode.unknown_topic_or_partition


def test_closing_the_session_gives_back_what_was_held(make: Make, topic: str) -> None:
    one, two = make(), make()
    fill(one, topic, 6)
    one.take()
    one.settle(2, 2, ACCEPT)
    two.fetch(wait=50)
    one.leave()
    assert one.settle(0, 0, ACCEPT) is ErrorCode.none, "the last word comes after leaving"
    assert one.close().error_code is ErrorCode.none
    assert two.take() == [(1, 1, 2), (3, 5, 2)]


def test_a_connection_that_breaks_gives_back_what_was_held(make: Make, topic: str) -> None:
    one, two = make(), make()
    fill(one, topic, 6)
    one.take()
    two.fetch(wait=50)
    one.wire.close()
    assert two.take() == [(0, 5, 2)]


def test_a_member_that_goes_away_at_the_limit_takes_the_record_with_it(
    make: Make, topic: str
) -> None:
    one = make(share_delivery_count_limit="2")
    fill(one, topic, 1)
    assert one.take() == [(0, 0, 1)]
    one.close()
    one.session = 0
    assert one.take() == [(0, 0, 2)]
    one.close()
    one.session = 0
    assert acquired(one.fetch(wait=300)) == []


def test_only_so_many_records_are_in_flight(make: Make, topic: str) -> None:
    one, two = make(share_partition_max_record_locks="100"), make()
    fill(one, topic, *[30] * 5)
    assert sum(last - first + 1 for first, last, _ in one.take()) == 120
    assert acquired(two.fetch(wait=300)) == []
    assert one.settle(0, 59, ACCEPT) is ErrorCode.none
    assert two.take() == [(120, 149, 1)]


def test_latest_begins_at_the_end(cluster: Cluster, wire: Wire, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    one = Sharer(wire, group, cluster.topic_id(topic))
    produce(wire, topic, batch([(None, b"old")]))
    one.join(topic)

    def sent_and_seen() -> list[Any]:
        produce(wire, topic, batch([(None, b"new")]))
        return values(one.fetch(wait=100))

    # Until its first fetch the group has no place: what is sent before that is old, too.
    assert set(until(sent_and_seen, "a new record")) == {b"new"}


def test_deleted_records_are_not_waited_for(make: Make, topic: str) -> None:
    one = make()
    fill(one, topic, 5, 5)
    assert one.take(max_records=1) == [(0, 4, 1)]
    parts = [{"partition_index": 0, "offset": 7}]
    one.wire.ask("delete_records", 2, topics=[{"name": topic, "partitions": parts}], timeout=60_000)
    (first, last, deliveries), *more = one.take()
    assert (last, deliveries, more) == (9, 1, [])
    assert first in (5, 7)
    assert one.settle(0, 4, ACCEPT) in (ErrorCode.none, ErrorCode.invalid_record_state)
