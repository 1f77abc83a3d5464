"""Produce at the level of bytes: every lie a batch can tell is refused and leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest

from .asking import end_offset, fetch, produce, produce_request, read_all
from .batches import (
    GZIP,
    LOG_APPEND_TIME,
    NOW_MS,
    batch,
    read_batches,
)
from .cluster import Cluster
from .waiting import until
from .wire import ConnectionClosed, ErrorCode, Wire

THREE = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
GOOD = batch(THREE)


def test_offsets_are_given_by_the_log(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    assert produce(wire, topic, GOOD).base_offset == 0
    assert produce(wire, topic, batch(THREE[:1])).base_offset == 3
    first, second = read_all(wire, topic)
    assert (first.base_offset, first.last_offset, first.pairs) == (0, 2, THREE)
    assert (second.base_offset, second.last_offset, second.pairs) == (3, 3, THREE[:1])
    assert first.leader_epoch == second.leader_epoch == 0


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_appends(
    wire: Wire, cluster: Cluster, topic: str, version: int
) -> None:
    cluster.create_topic(topic)
    request = produce_request(topic, GOOD)
    if version >= 13:
        request["topic_data"][0]["topic_id"] = cluster.topic_id(
            request["topic_data"][0].pop("name")
        )
    answer = wire.ask("produce", version, **request)
    partition = answer.responses[0].partition_responses[0]
    assert (partition.error_code, partition.base_offset) == (ErrorCode.none, 0)
    if version >= 5:
        assert partition.log_start_offset == 0
    assert partition.log_append_time is None
    assert end_offset(wire, topic) == 3


@pytest.mark.known_difference(
    target="headwater",
    reason="headwater refuses a partition's bytes that are not exactly one batch (INVALID_RECORD)",
)
def test_bytes_after_the_last_whole_batch_are_ignored(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    assert produce(wire, topic, GOOD + b"\x00\x01\x02").error_code is ErrorCode.none
    assert [each.pairs for each in read_all(wire, topic)] == [THREE]


def test_a_compressed_batch_is_stored_as_it_came(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    packed = batch(THREE, attributes=GZIP)
    produce(wire, topic, packed)
    stored = fetch(wire, topic).records
    assert stored[21:] == packed[21:]
    assert read_batches(stored)[0].pairs == THREE


def test_the_topics_codec_is_applied_by_the_broker(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, compression_type="gzip")
    produce(wire, topic, GOOD)
    (stored,) = read_all(wire, topic)
    assert stored.attributes & 7 == GZIP
    assert stored.pairs == THREE


def test_a_topic_of_type_uncompressed_unpacks(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, compression_type="uncompressed")
    produce(wire, topic, batch(THREE, attributes=GZIP))
    (stored,) = read_all(wire, topic)
    assert stored.attributes & 7 == 0
    assert stored.pairs == THREE


def test_log_append_time_is_stamped_by_the_broker(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, message_timestamp_type="LogAppendTime")
    answer = produce(wire, topic, batch(THREE, timestamps=[1, 2, 3]))
    (stored,) = read_all(wire, topic)
    assert stored.attributes & LOG_APPEND_TIME
    assert answer.log_append_time is not None
    assert stored.max_timestamp == round(answer.log_append_time.timestamp() * 1000) >= NOW_MS


@pytest.mark.parametrize("acks", [2, -2])
def test_required_acks_other_than_0_1_and_all_are_refused(
    wire: Wire, cluster: Cluster, topic: str, acks: int
) -> None:
    cluster.create_topic(topic)
    assert produce(wire, topic, GOOD, acks=acks).error_code is ErrorCode.invalid_required_acks
    assert end_offset(wire, topic) == 0


def test_acks_0_appends_and_answers_nothing(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    wire.send("produce", 9, answer=False, **produce_request(topic, GOOD, acks=0))
    until(lambda: end_offset(wire, topic) == 3, "the record that nobody acknowledged")


def test_acks_0_with_an_error_closes_the_connection(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    wire.send("produce", 9, answer=False, **produce_request(topic, batch(crc_error=1), acks=0))
    with pytest.raises(ConnectionClosed):
        wire.receive_bytes()


def test_unknown_topics_and_partitions_are_named_in_the_answer(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    missing = produce(wire, topic, GOOD)
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    cluster.create_topic(topic)
    assert produce(wire, topic, GOOD, partition=7).error_code is (
        ErrorCode.unknown_topic_or_partition
    )
    assert produce(wire, topic, GOOD, partition=-1).error_code is (
        ErrorCode.unknown_topic_or_partition
    )


def test_an_unknown_topic_id_is_named_in_the_answer(wire: Wire, new_uuid: Any) -> None:
    data = [{"index": 0, "records": GOOD}]
    topics = [{"topic_id": new_uuid, "partition_data": data}]
    answer = wire.ask("produce", 13, acks=-1, timeout=60_000, topic_data=topics)
    assert answer.responses[0].topic_id == new_uuid
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_id


def test_one_bad_partition_does_not_harm_the_others(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    data = [{"index": 0, "records": batch(crc_error=1)}, {"index": 1, "records": GOOD}]
    topics = [{"name": topic, "partition_data": data}]
    answer = wire.ask("produce", 9, acks=-1, timeout=60_000, topic_data=topics)
    codes = {each.index: each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {0: ErrorCode.corrupt_message, 1: ErrorCode.none}
    assert (end_offset(wire, topic, 0), end_offset(wire, topic, 1)) == (0, 3)


def test_a_record_larger_than_the_topic_allows_is_refused(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, max_message_bytes="1000")
    large = produce(wire, topic, batch([(b"k", b"x" * 1000)]))
    assert large.error_code is ErrorCode.message_too_large
    assert end_offset(wire, topic) == 0
    assert produce(wire, topic, batch([(b"k", b"x" * 900)])).error_code is ErrorCode.none


def test_a_compacted_topic_refuses_records_without_a_key(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, cleanup_policy="compact")
    pairs = [(b"k", b"v"), (None, b"x"), (b"k", None)]
    answer = produce(wire, topic, batch(pairs))
    assert answer.error_code is ErrorCode.invalid_record
    assert [each.batch_index for each in answer.record_errors] == [1]
    assert answer.error_message
    assert end_offset(wire, topic) == 0
    assert produce(wire, topic, batch([(b"k", b"v"), (b"k", None)])).error_code is ErrorCode.none
