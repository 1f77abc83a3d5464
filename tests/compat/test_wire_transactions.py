"""Transactions by hand, in both versions of the protocol: the steps, and every error code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .asking import LATEST, end_offset, fetch, fetch_request, find_coordinator
from .batches import CONTROL, read_batches
from .cluster import Cluster
from .transacting import Transactor
from .waiting import until
from .wire import ErrorCode, Wire

New = Callable[..., Transactor]
COMMITTED = 1


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    return cluster.create_topic(topic, partitions=2)


@pytest.fixture(params=[1, 2], ids=["tv1", "tv2"])
def new(wire: Wire, new_name: Callable[[], str], request: pytest.FixtureRequest) -> New:
    """Makes producers of one of the two versions, ready to begin."""
    return lambda **more: Transactor(wire, new_name(), request.param, **more).init()


@pytest.fixture
def modern(wire: Wire, new_name: Callable[[], str]) -> New:
    return lambda **more: Transactor(wire, new_name(), 2, **more).init()


def values(wire: Wire, topic: str, isolation: int, partition: int = 0) -> list[bytes | None]:
    """What a reader gets, aborted transactions left out as a client does it."""
    answer = fetch(wire, topic, partitions=[partition], isolation_level=isolation, max_wait=0)
    assert answer.error_code is ErrorCode.none
    aborted = {(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()}
    skipping: set[int] = set()
    found: list[bytes | None] = []
    for each in read_batches(answer.records):
        skipping |= {producer for producer, first in aborted if first == each.base_offset}
        if each.attributes & CONTROL:
            skipping.discard(each.producer_id)
        elif each.producer_id not in skipping:
            found += [value for _, value in each.pairs]
    return found


# ---- what readers see ----------------------------------------------------------------------------


def test_committed_records_are_read_and_aborted_ones_are_not(
    wire: Wire, made: str, new: New
) -> None:
    one = new()
    for commit, value in ((True, b"a"), (False, b"b"), (True, b"c"), (False, b"d")):
        one.write(made, value)
        one.end(commit)
    assert values(wire, made, COMMITTED) == [b"a", b"c"]
    assert values(wire, made, 0) == [b"a", b"b", b"c", b"d"]
    assert end_offset(wire, made) == 8  # a marker takes an offset of its own


def test_nothing_behind_an_open_transaction_is_read_as_committed(
    wire: Wire, made: str, new: New
) -> None:
    slow, quick = new(), new()
    slow.write(made, b"slow")
    quick.write(made, b"quick")
    quick.end()
    assert values(wire, made, COMMITTED) == []
    answer = fetch(wire, made, isolation_level=COMMITTED, max_wait=0)
    assert (answer.last_stable_offset, answer.high_watermark) == (0, 3)
    slow.end()
    assert values(wire, made, COMMITTED) == [b"slow", b"quick"]
    assert fetch(wire, made, isolation_level=COMMITTED, max_wait=0).last_stable_offset == 4


def test_the_latest_offset_for_committed_readers_is_the_stable_one(
    wire: Wire, made: str, new: New
) -> None:
    one = new()
    one.write(made, b"a", b"b")

    def latest(isolation: int) -> int:
        wanted = [{"partition_index": 0, "timestamp": LATEST}]
        topics = [{"name": made, "partitions": wanted}]
        answer = wire.ask(
            "list_offsets", 8, replica_id=-1, isolation_level=isolation, topics=topics
        )
        return int(answer.topics[0].partitions[0].offset)

    assert (latest(0), latest(COMMITTED)) == (2, 0)
    one.end()
    assert (latest(0), latest(COMMITTED)) == (3, 3)


def test_a_record_behind_an_open_transaction_is_not_found_by_time(
    wire: Wire, made: str, new: New
) -> None:
    one = new()
    one.write(made, b"a")

    def by_time(isolation: int, timestamp: int = 1) -> int:
        wanted = [{"partition_index": 0, "timestamp": timestamp}]
        topics = [{"name": made, "partitions": wanted}]
        answer = wire.ask(
            "list_offsets", 8, replica_id=-1, isolation_level=isolation, topics=topics
        )
        return int(answer.topics[0].partitions[0].offset)

    assert (by_time(0), by_time(COMMITTED), by_time(COMMITTED, -3)) == (0, -1, -1)
    one.end()
    assert by_time(COMMITTED) == 0


def test_a_waiting_committed_reader_wakes_when_the_transaction_ends(
    wire: Wire, cluster: Cluster, made: str, new: New
) -> None:
    one = new()
    one.write(made, b"a")
    with cluster.wire() as reader:
        asked = fetch_request(made, max_wait=10_000, isolation_level=COMMITTED)
        reader.send("fetch", 12, **asked)
        one.write(made, b"b")
        one.end()
        row = reader.receive()[1].responses[0].partitions[0]
    assert [each.count for each in read_batches(row.records)][:2] == [1, 1]


def test_aborted_transactions_are_named_for_the_fetched_range_only(
    wire: Wire, made: str, new: New
) -> None:
    one = new()
    for _ in range(3):
        one.write(made, b"x")
        one.end(False)
    answer = fetch(wire, made, isolation_level=COMMITTED, max_wait=0)
    assert [each.first_offset for each in answer.aborted_transactions] == [0, 2, 4]
    later = fetch(wire, made, 3, isolation_level=COMMITTED, max_wait=0)
    assert [each.first_offset for each in later.aborted_transactions] == [2, 4]
    assert fetch(wire, made, isolation_level=0, max_wait=0).aborted_transactions is None


def test_describe_producers_shows_where_the_open_transaction_begins(
    wire: Wire, made: str, new: New
) -> None:
    one = new()
    one.write(made, b"a", b"b")
    one.write(made, b"c")
    topics = [{"name": made, "partition_indexes": [0]}]
    answer = wire.ask("describe_producers", 0, topics=topics)
    (active,) = answer.topics[0].partitions[0].active_producers
    assert (active.producer_id, active.producer_epoch) == (one.id, one.epoch)
    assert (active.last_sequence, active.current_txn_start_offset) == (2, 0)
    one.end()


# ---- epochs --------------------------------------------------------------------------------------


def test_each_init_raises_the_epoch(new: New) -> None:
    one = new()
    assert one.epoch == 0
    first = one.id
    assert one.init().epoch == 1
    assert one.id == first


def test_the_end_raises_the_epoch_only_in_version_2(made: str, modern: New, wire: Wire) -> None:
    one = modern()
    one.write(made, b"a")
    answer = one.ask_end(True)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.none, one.id)
    assert answer.producer_epoch == one.epoch + 1
    one.settle()
    old = Transactor(wire, one.name, 1).init()
    old.write(made, b"b")
    assert old.ask_end(True).error_code is ErrorCode.none
    old.settle()
    assert old.described().epoch == old.epoch


def test_init_while_a_transaction_is_open_aborts_it_first(wire: Wire, made: str, new: New) -> None:
    one = new()
    one.write(made, b"left behind")
    answer = one.ask_init()
    assert (answer.error_code, answer.producer_id) == (ErrorCode.concurrent_transactions, -1)
    one.settle()
    assert one.state() == "CompleteAbort"
    assert one.described().epoch == one.epoch + 1
    again = one.ask_init()
    assert (again.error_code, again.producer_epoch) == (ErrorCode.none, one.epoch + 2)
    assert values(wire, made, COMMITTED) == []


def test_a_fenced_producer_is_refused_everywhere(
    wire: Wire, made: str, group: str, new: New
) -> None:
    find_coordinator(wire, group)
    old = new()
    old.write(made, b"a")
    Transactor(wire, old.name, old.version).init()
    fenced, epoch = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch
    assert [old.produce(made, version=v).error_code for v in (9, 11, 12)] == [epoch] * 3
    assert [old.add(made, 0, version=v) for v in (0, 1, 2, 3)] == [epoch, epoch, fenced, fenced]
    ends = [old.ask_end(True, version).error_code for version in (0, 1, 2, 4, 5)]
    assert ends == [epoch, epoch, fenced, fenced, fenced]
    assert [old.add_offsets(group, v) for v in (0, 1, 2, 4)] == [epoch, epoch, fenced, fenced]
    sent = [old.send_offsets(group, made, {0: 1}, version=v) for v in (0, 3, 4, 5)]
    assert sent == [epoch] * 4


def test_init_with_the_own_id_and_epoch_raises_it_once(new: New) -> None:
    one = new()
    mine = {"producer_id": one.id, "producer_epoch": one.epoch}
    for _ in range(2):  # the second is a retry whose answer was lost
        answer = one.ask_init(**mine)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, one.epoch + 1)


def test_init_with_somebody_elses_id_or_epoch_is_fenced(new: New) -> None:
    one = new()
    wrong: list[dict[str, int]] = [
        {"producer_id": one.id, "producer_epoch": one.epoch + 7},
        {"producer_id": one.id + 1000, "producer_epoch": 0},
    ]
    for each in wrong:
        assert one.ask_init(**each).error_code is ErrorCode.producer_fenced
        assert one.ask_init(version=3, **each).error_code is ErrorCode.invalid_producer_epoch


def test_a_sequence_begins_at_0_with_every_epoch(made: str, modern: New) -> None:
    one = modern()
    one.write(made, b"a", b"b")
    one.end()
    refused = one.produce(made, sequence=2).error_code
    assert refused is ErrorCode.out_of_order_sequence_number
    assert one.produce(made, sequence=0).error_code is ErrorCode.none


# ---- partitions ----------------------------------------------------------------------------------


def test_a_partition_must_be_added_before_it_is_written_to(made: str, new: New) -> None:
    one = new()
    for version, error in (
        (9, ErrorCode.invalid_txn_state),
        (10, ErrorCode.invalid_txn_state),
        (11, ErrorCode.transaction_abortable),
        (12, ErrorCode.none),
    ):
        assert one.produce(made, version=version).error_code is error


def test_a_produce_of_version_12_adds_its_partition(made: str, modern: New) -> None:
    one = modern()
    assert one.produce(made, partition=1).error_code is ErrorCode.none
    assert one.state() == "Ongoing"
    assert one.described().partitions == {(made, 1)}


def test_transactional_records_need_a_transactional_id(made: str, new: New) -> None:
    one = new()
    refused = ErrorCode.transactional_id_authorization_failed
    assert one.produce(made, name=None).error_code is refused
    unknown = one.produce(made, name="nobody").error_code
    assert unknown is ErrorCode.invalid_producer_id_mapping


def test_plain_records_are_refused_within_a_transaction(made: str, new: New) -> None:
    one = new()
    one.write(made, b"a")
    row = one.produce(made, transactional=False)
    assert row.error_code is ErrorCode.invalid_txn_state


def test_plain_records_of_a_transactional_producer_are_taken_outside(made: str, new: New) -> None:
    assert new().produce(made, transactional=False, name=None).error_code is ErrorCode.none


def test_if_one_partition_is_missing_none_is_added(wire: Wire, made: str, new: New) -> None:
    one = new()
    answer = wire.ask(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id=one.name,
        v3_and_below_producer_id=one.id,
        v3_and_below_producer_epoch=one.epoch,
        v3_and_below_topics=[{"name": made, "partitions": [0, 9]}],
    )
    found = {
        each.partition_index: each.partition_error_code
        for each in answer.results_by_topic_v3_and_below[0].results_by_partition
    }
    assert found == {
        0: ErrorCode.operation_not_attempted,
        9: ErrorCode.unknown_topic_or_partition,
    }
    assert one.state() == "Empty"


def test_brokers_may_ask_and_add_for_several_transactions(
    wire: Wire, made: str, modern: New
) -> None:
    one = modern()
    one.write(made, b"a", partition=1)

    def asked(name: str, verify_only: bool) -> dict[str, Any]:
        return {
            "transactional_id": name,
            "producer_id": one.id,
            "producer_epoch": one.epoch,
            "verify_only": verify_only,
            "topics": [{"name": made, "partitions": [0, 1]}],
        }

    wanted = [asked(one.name, True), asked("nobody", False)]
    answer = wire.ask("add_partitions_to_txn", 5, transactions=wanted)
    found = {
        (result.transactional_id, each.partition_index): each.partition_error_code
        for result in answer.results_by_transaction
        for each in result.topic_results[0].results_by_partition
    }
    assert found == {
        (one.name, 0): ErrorCode.transaction_abortable,
        (one.name, 1): ErrorCode.none,
        ("nobody", 0): ErrorCode.invalid_producer_id_mapping,
        ("nobody", 1): ErrorCode.invalid_producer_id_mapping,
    }


# ---- the end -------------------------------------------------------------------------------------


def test_an_end_may_be_repeated_but_not_reversed(made: str, new: New) -> None:
    for commit in (True, False):
        one = new()
        one.write(made, b"a")
        first = one.ask_end(commit)
        one.settle()
        again = one.ask_end(commit)
        assert again.error_code is ErrorCode.none
        if one.version == 2:
            assert again.producer_epoch == first.producer_epoch
        assert one.ask_end(not commit).error_code is ErrorCode.invalid_txn_state


def test_a_commit_of_nothing_is_refused(new: New) -> None:
    assert new().ask_end(True).error_code is ErrorCode.invalid_txn_state


def test_an_abort_of_nothing_is_allowed_in_version_2(new: New) -> None:
    one = new()
    answer = one.ask_end(False)
    if one.version == 1:
        assert answer.error_code is ErrorCode.invalid_txn_state
    else:
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, one.epoch + 1)
        one.settle()
        one.epoch += 1
        assert one.ask_end(True).error_code is ErrorCode.invalid_txn_state
        assert one.ask_end(False).producer_epoch == one.epoch + 1


def test_wrong_names_ids_and_epochs_are_told_apart(made: str, new: New) -> None:
    one = new()
    mapping, fenced = ErrorCode.invalid_producer_id_mapping, ErrorCode.producer_fenced
    one.id += 1000
    assert (one.produce(made).error_code, one.add(made, 0)) == (mapping, mapping)
    assert one.ask_end(True).error_code is mapping
    one.id -= 1000
    one.epoch += 5
    assert one.produce(made).error_code is ErrorCode.invalid_producer_epoch
    assert (one.add(made, 0), one.ask_end(True).error_code) == (fenced, fenced)
    one.name = "nobody"
    assert (one.add(made, 0), one.ask_end(True).error_code) == (mapping, mapping)
    assert one.described().error is ErrorCode.transactional_id_not_found
    one.name = ""
    invalid = ErrorCode.invalid_request
    assert one.ask_init().error_code is invalid
    assert (one.add(made, 0), one.ask_end(True).error_code) == (invalid, invalid)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_time_outs_have_bounds(modern: New, timeout_ms: int) -> None:
    answer = modern().ask_init(transaction_timeout=timeout_ms)
    assert answer.error_code is ErrorCode.invalid_transaction_timeout


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    wire: Wire, made: str, new: New
) -> None:
    one = new(timeout_ms=300)
    one.write(made, b"slow")
    until(lambda: one.state() == "CompleteAbort", "the time-out")
    assert one.described().epoch == one.epoch + 1
    assert values(wire, made, COMMITTED) == []
    assert one.produce(made).error_code is ErrorCode.invalid_producer_epoch
    if one.version == 1:
        assert one.ask_end(False).error_code is ErrorCode.producer_fenced
    else:
        assert one.ask_end(True).error_code is ErrorCode.invalid_txn_state
        assert one.ask_end(False).error_code is ErrorCode.none
    mine = {"producer_id": one.id, "producer_epoch": one.epoch}
    assert one.ask_init(**mine).error_code is ErrorCode.none  # nobody else has asked: it may go on
