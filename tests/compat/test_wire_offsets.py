"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords at the level of bytes."""

from __future__ import annotations

from typing import Any

import pytest

from .asking import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    end_offset,
    fetch,
    offset_at,
    produce,
)
from .batches import GZIP, NOW_MS, batch
from .cluster import Cluster
from .wire import ErrorCode, Wire

T = NOW_MS - 10_000


@pytest.fixture
def timed(wire: Wire, cluster: Cluster, topic: str) -> str:
    """Offset → time:  0 → T, 1 → T+10, 2 → T+30 | 3 → T+20, 4 → T+50 | 5 → T+40."""
    cluster.create_topic(topic)
    for attributes, times in ((0, (0, 10, 30)), (GZIP, (20, 50)), (0, (40,))):
        pairs = [(b"k", b"v")] * len(times)
        stamps = [T + each for each in times]
        answer = produce(wire, topic, batch(pairs, timestamps=stamps, attributes=attributes))
        assert answer.error_code is ErrorCode.none
    return topic


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (EARLIEST, 0, -1),
        (LATEST, 6, -1),
        (MAX_TIMESTAMP, 4, T + 50),
        (EARLIEST_LOCAL, 0, -1),
        (LATEST_TIERED, -1, -1),
        (0, 0, T),
        (T, 0, T),
        (T + 1, 1, T + 10),
        (T + 11, 2, T + 30),
        (T + 31, 4, T + 50),
        (T + 50, 4, T + 50),
        (T + 51, -1, -1),
    ],
    # Not by the values, which are other ones each time: every process must call them the same.
    ids=range(12),
)
def test_the_offset_for_a_time(
    wire: Wire, timed: str, timestamp: int, offset: int, found: int
) -> None:
    answer = offset_at(wire, timed, timestamp, version=9)
    assert answer.error_code is ErrorCode.none
    assert (answer.offset, answer.timestamp) == (offset, found)


@pytest.mark.parametrize("timestamp", [EARLIEST, LATEST, MAX_TIMESTAMP, 0])
def test_the_offset_for_a_time_in_an_empty_topic(
    wire: Wire, cluster: Cluster, topic: str, timestamp: int
) -> None:
    cluster.create_topic(topic)
    answer = offset_at(wire, topic, timestamp)
    expected = 0 if timestamp in (EARLIEST, LATEST) else -1
    assert (answer.error_code, answer.offset) == (ErrorCode.none, expected)


def test_special_times_are_refused_where_a_version_does_not_know_them(
    wire: Wire, timed: str
) -> None:
    for version, timestamp in ((6, MAX_TIMESTAMP), (7, EARLIEST_LOCAL), (8, LATEST_TIERED)):
        answer = offset_at(wire, timed, timestamp, version=version)
        assert answer.error_code is ErrorCode.unsupported_version, (version, timestamp)
    assert offset_at(wire, timed, -77, version=9).error_code is ErrorCode.unsupported_version


def test_offsets_of_unknown_partitions_are_errors(wire: Wire, timed: str) -> None:
    missing = offset_at(wire, timed, LATEST, partition=5)
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    assert missing.offset == -1
    elsewhere = offset_at(wire, f"{timed}-not", LATEST)
    assert elsewhere.error_code is ErrorCode.unknown_topic_or_partition


def test_the_leader_epoch_comes_with_the_offset(wire: Wire, timed: str) -> None:
    assert offset_at(wire, timed, LATEST).leader_epoch == 0
    assert offset_at(wire, timed, T + 11).leader_epoch == 0


def test_a_newer_leader_epoch_than_ours_is_unknown(wire: Wire, timed: str) -> None:
    wanted = [{"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": 4}]
    topics = [{"name": timed, "partitions": wanted}]
    answer = wire.ask("list_offsets", 8, replica_id=-1, topics=topics)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize(("epoch", "expected_epoch", "end"), [(0, 0, 6), (1, -1, -1), (-1, -1, -1)])
def test_the_end_of_a_leader_epoch(
    wire: Wire, timed: str, epoch: int, expected_epoch: int, end: int
) -> None:
    answer = epoch_end(wire, timed, epoch)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (
        ErrorCode.none,
        expected_epoch,
        end,
    )


def test_the_end_of_an_epoch_of_an_unknown_partition(wire: Wire, timed: str) -> None:
    answer = epoch_end(wire, f"{timed}-not", 0)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


def epoch_end(wire: Wire, topic: str, epoch: int) -> Any:
    partitions = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]
    topics = [{"topic": topic, "partitions": partitions}]
    answer = wire.ask("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
    return answer.topics[0].partitions[0]


def delete_records(wire: Wire, topic: str, offset: int, partition: int = 0) -> Any:
    partitions = [{"partition_index": partition, "offset": offset}]
    topics = [{"name": topic, "partitions": partitions}]
    return wire.ask("delete_records", 2, topics=topics, timeout=60_000).topics[0].partitions[0]


def test_deleted_records_are_gone_for_good(wire: Wire, timed: str) -> None:
    answer = delete_records(wire, timed, 4)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 4)
    assert offset_at(wire, timed, EARLIEST).offset == 4
    assert end_offset(wire, timed) == 6
    assert fetch(wire, timed, offset=3).error_code is ErrorCode.offset_out_of_range
    kept = fetch(wire, timed, offset=4)
    assert (kept.error_code, kept.log_start_offset) == (ErrorCode.none, 4)
    assert offset_at(wire, timed, 0).offset == 4


def test_records_may_be_deleted_up_to_the_end(wire: Wire, timed: str) -> None:
    assert delete_records(wire, timed, -1).low_watermark == 6
    assert offset_at(wire, timed, EARLIEST).offset == end_offset(wire, timed) == 6
    assert produce(wire, timed, batch()).base_offset == 6


def test_deleting_backwards_changes_nothing(wire: Wire, timed: str) -> None:
    delete_records(wire, timed, 4)
    again = delete_records(wire, timed, 2)
    assert (again.error_code, again.low_watermark) == (ErrorCode.none, 4)


def test_deleting_beyond_the_end_is_out_of_range(wire: Wire, timed: str) -> None:
    assert delete_records(wire, timed, 7).error_code is ErrorCode.offset_out_of_range
    assert delete_records(wire, timed, -5).error_code is ErrorCode.offset_out_of_range
    assert delete_records(wire, timed, 1, partition=4).error_code is (
        ErrorCode.unknown_topic_or_partition
    )
    assert offset_at(wire, timed, EARLIEST).offset == 0


def test_deleting_from_a_compacted_topic_is_a_policy_violation(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, cleanup_policy="compact")
    produce(wire, topic, batch())
    assert delete_records(wire, topic, 1).error_code is ErrorCode.policy_violation
