"""Offsets that are committed with a transaction, and the tools' view of transactions, by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .asking import fetch, find_coordinator
from .cluster import Cluster
from .transacting import Transactor
from .waiting import until
from .wire import ErrorCode, Wire

New = Callable[..., Transactor]
NONE, UNSTABLE = ErrorCode.none, ErrorCode.unstable_offset_commit


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    return cluster.create_topic(topic, partitions=2)


@pytest.fixture(params=[1, 2], ids=["tv1", "tv2"])
def new(wire: Wire, group: str, new_name: Callable[[], str], request: pytest.FixtureRequest) -> New:
    find_coordinator(wire, group)
    return lambda **more: Transactor(wire, new_name(), request.param, **more).init()


def offsets(wire: Wire, group: str, topic: str, stable: bool) -> list[tuple[int, ErrorCode]]:
    topics = [{"name": topic, "partition_indexes": [0, 1]}]
    groups = [{"group_id": group, "topics": topics}]
    answer = wire.ask("offset_fetch", 8, groups=groups, require_stable=stable)
    rows = answer.groups[0].topics[0].partitions
    return [(each.committed_offset, ErrorCode(each.error_code)) for each in rows]


def send(one: Transactor, group: str, topic: str, found: dict[int, int]) -> None:
    if one.version == 1:
        one.retried(lambda: one.add_offsets(group))
    one.retried(lambda: one.send_offsets(group, topic, found))


def test_offsets_appear_with_the_commit(wire: Wire, made: str, group: str, new: New) -> None:
    one = new()
    send(one, group, made, {0: 5})
    assert offsets(wire, group, made, False) == [(-1, NONE), (-1, NONE)]
    assert offsets(wire, group, made, True) == [(-1, UNSTABLE), (-1, NONE)]
    one.end()
    until(lambda: offsets(wire, group, made, True) == [(5, NONE), (-1, NONE)], "the offset")


def test_offsets_of_an_aborted_transaction_vanish(
    wire: Wire, made: str, group: str, new: New
) -> None:
    one = new()
    send(one, group, made, {0: 5, 1: 6})
    one.end(True)
    until(lambda: offsets(wire, group, made, True) == [(5, NONE), (6, NONE)], "the offsets")
    send(one, group, made, {0: 50})
    assert offsets(wire, group, made, False) == [(5, NONE), (6, NONE)]
    one.end(False)
    until(lambda: offsets(wire, group, made, True) == [(5, NONE), (6, NONE)], "the abort")


def test_a_plain_commit_meanwhile_is_what_counts(
    wire: Wire, made: str, group: str, new: New
) -> None:
    """The later record of the two wins, whatever the transaction does."""
    one = new()
    send(one, group, made, {0: 5})
    partitions = [{"partition_index": 0, "committed_offset": 7}]
    topics = [{"name": made, "partitions": partitions}]
    wire.ask(
        "offset_commit",
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=topics,
    )
    one.end()
    until(lambda: offsets(wire, group, made, True)[0] == (7, NONE), "the offset")


def test_offsets_must_be_added_before_they_are_sent(made: str, group: str, new: New) -> None:
    one = new()
    invalid = ErrorCode.invalid_txn_state
    for version, error in (
        (0, invalid),
        (3, invalid),
        (4, ErrorCode.transaction_abortable),
        (5, NONE),
    ):
        assert one.send_offsets(group, made, {0: 1}, version=version) is error


def test_what_cannot_be_committed_is_refused(made: str, group: str, new: New) -> None:
    one = new()
    one.version = 2
    assert one.send_offsets("", made, {0: 1}) is ErrorCode.invalid_group_id
    assert one.send_offsets(group, "nowhere", {0: 1}) is ErrorCode.unknown_topic_or_partition
    stranger = {"generation_id": 3, "member_id": "stranger"}
    assert one.send_offsets(group, made, {0: 1}, **stranger) is ErrorCode.illegal_generation


# ---- looking -------------------------------------------------------------------------------------


def test_transactions_can_be_listed_by_state_id_age_and_name(
    wire: Wire, made: str, new: New
) -> None:
    one = new()
    one.write(made, b"a")

    def listed(version: int = 2, **filters: object) -> list[str]:
        answer = wire.ask("list_transactions", version, **filters)
        assert answer.error_code is NONE
        return [each.transactional_id for each in answer.transaction_states]

    assert one.name in listed(version=0, state_filters=["Ongoing"])
    assert one.name not in listed(state_filters=["Empty", "CompleteCommit"])
    assert listed(producer_id_filters=[one.id]) == [one.name]
    assert listed(version=1, producer_id_filters=[one.id], duration_filter=100_000) == []
    until(lambda: listed(version=1, producer_id_filters=[one.id], duration_filter=1), "some age")
    assert listed(transactional_id_pattern=one.name[:-2] + ".*") == [one.name]
    assert listed(transactional_id_pattern=one.name[:-2]) == []
    one.end()


def test_states_that_there_are_not_are_named(wire: Wire, made: str, new: New) -> None:
    one = new()
    answer = wire.ask("list_transactions", 1, state_filters=["Nonsense"])
    assert (answer.unknown_state_filters, answer.transaction_states) == (("Nonsense",), ())
    both = wire.ask("list_transactions", 1, state_filters=["Nonsense", "Empty"])
    assert both.unknown_state_filters == ("Nonsense",)
    assert one.name in [each.transactional_id for each in both.transaction_states]


def test_a_pattern_that_is_none_is_refused(wire: Wire, new: New) -> None:
    answer = wire.ask("list_transactions", 2, transactional_id_pattern="((")
    assert answer.error_code is ErrorCode.invalid_regular_expression


def test_a_transaction_can_be_described(made: str, new: New) -> None:
    one = new(timeout_ms=54_321)
    one.write(made, b"a", partition=1)
    found = one.described()
    assert (found.error, found.state, found.timeout_ms) == (NONE, "Ongoing", 54_321)
    assert (found.producer_id, found.epoch) == (one.id, one.epoch)
    assert found.partitions == {(made, 1)}
    assert found.start_ms > 0
    one.end()
    assert one.described().partitions == frozenset()


# ---- markers -------------------------------------------------------------------------------------


def mark(
    one: Transactor, topic: str, partition: int = 0, version: int = 1, **more: object
) -> object:
    marker = {
        "producer_id": one.id,
        "producer_epoch": one.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        **more,
    }
    answer = one.wire.ask("write_txn_markers", version, markers=[marker])
    return answer.markers[0].topics[0].partitions[0].error_code


def test_a_marker_written_by_hand_ends_the_transaction_in_its_partition(
    wire: Wire, made: str, new: New
) -> None:
    one = new()
    one.write(made, b"hanging")
    assert mark(one, made) is NONE
    answer = fetch(wire, made, isolation_level=1, max_wait=0)
    assert [each.first_offset for each in answer.aborted_transactions] == [0]
    assert answer.last_stable_offset == 2


def test_markers_of_the_past_are_refused(made: str, new: New) -> None:
    one = new()
    one.write(made, b"a")
    assert mark(one, "nowhere") is ErrorCode.unknown_topic_or_partition
    assert mark(one, made, 9) is ErrorCode.unknown_topic_or_partition
    same_epoch = mark(one, made, version=2, transaction_version=2)
    assert same_epoch is ErrorCode.invalid_producer_epoch
    assert mark(one, made, coordinator_epoch=3) is NONE
    late = mark(one, made, coordinator_epoch=2)
    assert late is ErrorCode.transaction_coordinator_fenced
