"""Idempotent producers: duplicates, gaps, epochs (KIP-98), and DescribeProducers."""

from __future__ import annotations

import pytest

from .asking import end_offset, new_producer_id, produce, produce_request, read_all
from .batches import batch
from .cluster import Cluster
from .wire import ErrorCode, Wire


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    return cluster.create_topic(topic)


def records(count: int = 2) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"k", b"%d" % each) for each in range(count)]


def test_a_duplicate_gets_the_first_offset_and_is_not_appended(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    first = produce(wire, made, batch(records(), producer=(producer_id, epoch, 0)))
    produce(wire, made, batch(records(), producer=(producer_id, epoch, 2)))
    again = produce(wire, made, batch(records(), producer=(producer_id, epoch, 0)))
    assert (again.error_code, again.base_offset) == (ErrorCode.none, first.base_offset)
    assert end_offset(wire, made) == 4
    assert [each.base_sequence for each in read_all(wire, made)] == [0, 2]


def test_the_last_five_batches_are_remembered_and_no_more(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    for sequence in range(6):
        produce(wire, made, batch(records(1), producer=(producer_id, epoch, sequence)))
    for sequence in range(1, 6):
        again = produce(wire, made, batch(records(1), producer=(producer_id, epoch, sequence)))
        assert (again.error_code, again.base_offset) == (ErrorCode.none, sequence)
    older = produce(wire, made, batch(records(1), producer=(producer_id, epoch, 0)))
    assert older.error_code is ErrorCode.out_of_order_sequence_number
    assert end_offset(wire, made) == 6


def test_a_gap_in_the_sequence_is_refused(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    produce(wire, made, batch(records(), producer=(producer_id, epoch, 0)))
    gap = produce(wire, made, batch(records(), producer=(producer_id, epoch, 5)))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    overlap = produce(wire, made, batch(records(), producer=(producer_id, epoch, 1)))
    assert overlap.error_code is ErrorCode.out_of_order_sequence_number
    assert end_offset(wire, made) == 2


def test_a_retry_with_another_length_is_not_a_duplicate(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    produce(wire, made, batch(records(3), producer=(producer_id, epoch, 0)))
    longer = produce(wire, made, batch(records(4), producer=(producer_id, epoch, 0)))
    assert longer.error_code is ErrorCode.out_of_order_sequence_number
    assert end_offset(wire, made) == 3


def test_an_unknown_producer_may_begin_anywhere(wire: Wire, made: str) -> None:
    """Its earlier batches may have been retained away."""
    producer_id, epoch = new_producer_id(wire)
    answer = produce(wire, made, batch(records(), producer=(producer_id, epoch, 17)))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)
    follow = produce(wire, made, batch(records(), producer=(producer_id, epoch, 19)))
    assert (follow.error_code, follow.base_offset) == (ErrorCode.none, 2)


def test_an_older_epoch_is_fenced(wire: Wire, made: str) -> None:
    producer_id, _ = new_producer_id(wire)
    produce(wire, made, batch(records(), producer=(producer_id, 3, 0)))
    old = produce(wire, made, batch(records(), producer=(producer_id, 2, 2)))
    assert old.error_code is ErrorCode.invalid_producer_epoch
    assert end_offset(wire, made) == 2


def test_a_newer_epoch_must_begin_at_zero(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    produce(wire, made, batch(records(), producer=(producer_id, epoch, 0)))
    wrong = produce(wire, made, batch(records(), producer=(producer_id, epoch + 1, 2)))
    assert wrong.error_code is ErrorCode.out_of_order_sequence_number
    right = produce(wire, made, batch(records(), producer=(producer_id, epoch + 1, 0)))
    assert (right.error_code, right.base_offset) == (ErrorCode.none, 2)


def test_the_sequence_wraps_round_at_the_largest_int(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    last = 2**31 - 1
    produce(wire, made, batch(records(), producer=(producer_id, epoch, last - 1)))
    wrapped = produce(wire, made, batch(records(), producer=(producer_id, epoch, 0)))
    assert (wrapped.error_code, wrapped.base_offset) == (ErrorCode.none, 2)


def test_the_sequence_may_wrap_round_inside_a_batch(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    last = 2**31 - 1
    produce(wire, made, batch(records(), producer=(producer_id, epoch, last)))
    follow = produce(wire, made, batch(records(), producer=(producer_id, epoch, 1)))
    assert (follow.error_code, follow.base_offset) == (ErrorCode.none, 2)


def test_sequences_are_kept_per_partition(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    producer_id, epoch = new_producer_id(wire)
    for partition in (0, 1):
        first = batch(records(), producer=(producer_id, epoch, 0))
        assert produce(wire, topic, first, partition=partition).base_offset == 0


def test_pipelined_batches_of_one_producer_are_all_appended(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    for sequence in range(5):
        one = batch(records(1), producer=(producer_id, epoch, sequence))
        wire.send("produce", 9, **produce_request(made, one))
    answers = [wire.receive()[1].responses[0].partition_responses[0] for _ in range(5)]
    assert [each.base_offset for each in answers] == [0, 1, 2, 3, 4]


def test_init_producer_id_can_raise_the_epoch(wire: Wire) -> None:
    """Without a transactional id a client that lost track simply gets a new id."""
    producer_id, epoch = new_producer_id(wire)
    again = wire.ask(
        "init_producer_id",
        4,
        transaction_timeout=60_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    assert again.error_code is ErrorCode.none
    assert (again.producer_id, again.producer_epoch) > (producer_id, epoch)


def test_describe_producers_lists_who_wrote(wire: Wire, made: str) -> None:
    producer_id, epoch = new_producer_id(wire)
    produce(wire, made, batch(records(3), producer=(producer_id, epoch, 0)))
    topics = [{"name": made, "partition_indexes": [0, 8]}]
    found, missing = wire.ask("describe_producers", 0, topics=topics).topics[0].partitions
    (active,) = found.active_producers
    assert (active.producer_id, active.producer_epoch, active.last_sequence) == (
        producer_id,
        epoch,
        2,
    )
    assert active.current_txn_start_offset == -1
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
