"""Fetch at the level of bytes: limits, long poll, sessions (KIP-227), errors."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .asking import end_offset, fetch, fetch_request, produce
from .batches import batch, read_batches
from .cluster import Cluster
from .waiting import AT_ONCE_SECONDS, LONG_MS
from .wire import ErrorCode, Wire

KILOBYTE = [(b"k", b"x" * 1000)]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_returns_the_batch(
    wire: Wire, cluster: Cluster, topic: str, version: int
) -> None:
    cluster.create_topic(topic)
    produce(wire, topic, batch())
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}]
    which = {"topic": topic} if version < 13 else {"topic_id": cluster.topic_id(topic)}
    values: dict[str, Any] = {"max_wait": 100, "min_bytes": 1, "max_bytes": 10_000}
    values["topics"] = [{**which, "partitions": wanted}]
    if version < 15:
        values["replica_id"] = -1
    answer = wire.ask("fetch", version, **values)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code is ErrorCode.none
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 1)
    assert read_batches(partition.records)[0].pairs == [(b"k", b"v")]
    if version >= 5:
        assert partition.log_start_offset == 0
    if version >= 7:
        assert (answer.error_code, answer.session_id) == (ErrorCode.none, 0)


def test_a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    produce(wire, topic, batch([(b"k", b"%d" % each) for each in range(10)]))
    (found,) = read_batches(fetch(wire, topic, offset=7).records)
    assert (found.base_offset, found.last_offset) == (0, 9)


@pytest.mark.parametrize("offset", [-1, 4, 1_000_000])
def test_an_offset_outside_the_log_is_out_of_range(
    wire: Wire, cluster: Cluster, topic: str, offset: int
) -> None:
    cluster.create_topic(topic)
    produce(wire, topic, batch(KILOBYTE * 3))
    answer = fetch(wire, topic, offset=offset, max_wait=2000)
    assert answer.error_code is ErrorCode.offset_out_of_range
    assert not answer.records
    assert fetch(wire, topic, offset=3, max_wait=1).error_code is ErrorCode.none


def test_unknown_topics_partitions_and_ids_are_named(
    wire: Wire, cluster: Cluster, topic: str, new_uuid: Any
) -> None:
    assert fetch(wire, topic).error_code is ErrorCode.unknown_topic_or_partition
    cluster.create_topic(topic)
    missing = fetch(wire, topic, partitions=[9])
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    values = fetch_request(topic)
    values["topics"][0] = {
        "topic_id": new_uuid,
        "partitions": values["topics"][0]["partitions"],
    }
    answer = wire.ask("fetch", 13, **values)
    assert answer.responses[0].topic_id == new_uuid
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_id


def test_a_wrong_leader_epoch_is_refused(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    values = fetch_request(topic)
    values["topics"][0]["partitions"][0]["current_leader_epoch"] = 5
    answer = wire.ask("fetch", 12, **values)
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch


def test_fetch_waits_until_max_wait_when_there_is_nothing(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    began = time.monotonic()
    answer = fetch(wire, topic, max_wait=400)
    assert 0.35 < time.monotonic() - began < AT_ONCE_SECONDS
    assert (answer.error_code, answer.records or b"") == (ErrorCode.none, b"")


def test_fetch_waits_until_min_bytes(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    wire.send("fetch", 12, **fetch_request(topic, min_bytes=1500, max_wait=LONG_MS))
    with cluster.wire() as other:
        produce(other, topic, batch(KILOBYTE))
        began = time.monotonic()
        produce(other, topic, batch(KILOBYTE))
    answer = wire.receive()[1].responses[0].partitions[0]
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert len(read_batches(answer.records)) == 2


def test_fetch_with_an_error_does_not_wait(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    values = fetch_request(topic, partitions=[0, 1], max_wait=LONG_MS)
    values["topics"][0]["partitions"][1]["fetch_offset"] = 99
    began = time.monotonic()
    answer = wire.ask("fetch", 12, **values)
    codes = {each.partition_index: each.error_code for each in answer.responses[0].partitions}
    assert codes == {0: ErrorCode.none, 1: ErrorCode.offset_out_of_range}
    assert time.monotonic() - began < AT_ONCE_SECONDS


def test_partition_max_bytes_limits_but_always_gives_one_batch(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    for _ in range(5):
        produce(wire, topic, batch(KILOBYTE))
    one = fetch(wire, topic, partition_max_bytes=1)
    assert len(read_batches(one.records)) == 1
    some = fetch(wire, topic, partition_max_bytes=2500)
    assert len(read_batches(some.records)) == 2
    assert len(some.records) <= 2500


def test_max_bytes_limits_the_whole_answer(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=3)
    for partition in range(3):
        produce(wire, topic, batch(KILOBYTE), partition=partition)
    values = fetch_request(topic, partitions=[0, 1, 2], max_bytes=1500)
    answer = wire.ask("fetch", 12, **values)
    sizes = [len(each.records or b"") for each in answer.responses[0].partitions]
    assert len(sizes) == 3
    assert 1000 < sum(sizes) <= 2600
    assert sizes[0] > 1000


def session(wire: Wire, topic: str, session_id: int, epoch: int, **more: Any) -> Any:
    values = fetch_request(topic, max_wait=50, session_id=session_id, session_epoch=epoch)
    return wire.ask("fetch", 12, **{**values, **more})


def test_a_session_sends_only_what_changed(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    produce(wire, topic, batch())
    both = fetch_request(topic, partitions=[0, 1])["topics"]
    full = session(wire, topic, 0, 0, topics=both)
    assert full.session_id != 0
    assert {each.partition_index for each in full.responses[0].partitions} == {0, 1}

    moved = fetch_request(topic, offset=1)["topics"]
    quiet = session(wire, topic, full.session_id, 1, topics=moved)
    assert (quiet.error_code, quiet.session_id) == (ErrorCode.none, full.session_id)
    assert quiet.responses == ()

    produce(wire, topic, batch(), partition=1)
    news = session(wire, topic, full.session_id, 2, topics=[])
    assert [each.partition_index for each in news.responses[0].partitions] == [1]
    assert read_batches(news.responses[0].partitions[0].records)[0].base_offset == 0


def test_a_forgotten_partition_is_not_sent_again(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    both = fetch_request(topic, partitions=[0, 1])["topics"]
    opened = session(wire, topic, 0, 0, topics=both)
    forget = [{"topic": topic, "partitions": [0]}]
    session(wire, topic, opened.session_id, 1, topics=[], forgotten_topics_data=forget)
    produce(wire, topic, batch(), partition=0)
    produce(wire, topic, batch(), partition=1)
    news = session(wire, topic, opened.session_id, 2, topics=[])
    assert [each.partition_index for each in news.responses[0].partitions] == [1]


def test_a_session_can_gain_a_partition(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    opened = session(wire, topic, 0, 0)
    produce(wire, topic, batch(), partition=1)
    more = fetch_request(topic, partitions=[1])["topics"]
    news = session(wire, topic, opened.session_id, 1, topics=more)
    assert [each.partition_index for each in news.responses[0].partitions] == [1]


def test_a_wrong_session_epoch_is_refused(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    opened = session(wire, topic, 0, 0)
    wrong = session(wire, topic, opened.session_id, 9, topics=[])
    assert wrong.error_code is ErrorCode.invalid_fetch_session_epoch
    assert wrong.responses == ()
    assert session(wire, topic, opened.session_id, 1, topics=[]).error_code is ErrorCode.none


def test_an_unknown_session_is_refused(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    answer = session(wire, topic, 123_456, 1, topics=[])
    assert answer.error_code is ErrorCode.fetch_session_id_not_found
    assert answer.responses == ()


def test_epoch_minus_one_closes_a_session(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    opened = session(wire, topic, 0, 0)
    closed = session(wire, topic, opened.session_id, -1)
    assert (closed.error_code, closed.session_id) == (ErrorCode.none, 0)
    again = session(wire, topic, opened.session_id, 1, topics=[])
    assert again.error_code is ErrorCode.fetch_session_id_not_found


def test_a_session_outlives_its_connection(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    with cluster.wire() as first:
        opened = session(first, topic, 0, 0)
    produce(wire, topic, batch())
    news = session(wire, topic, opened.session_id, 1, topics=[])
    assert news.error_code is ErrorCode.none
    assert read_batches(news.responses[0].partitions[0].records)


def test_sessions_by_topic_id_report_a_topic_that_went_away(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    topics = [{"topic_id": cluster.topic_id(topic), "partitions": wanted}]
    values = {"max_wait": 300, "min_bytes": 1, "max_bytes": 1000}
    opened = wire.ask("fetch", 17, **values, session_epoch=0, topics=topics)
    wire.ask("delete_topics", 6, topics=[{"name": topic}], timeout=60_000)
    news = wire.ask("fetch", 17, **values, session_id=opened.session_id, session_epoch=1, topics=[])
    assert news.error_code is ErrorCode.none
    assert news.responses[0].partitions[0].error_code in {
        ErrorCode.unknown_topic_id,  # or the name, which Apache Kafka's session may still know
        ErrorCode.unknown_topic_or_partition,
    }


def test_read_committed_sees_plain_records_at_once(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    produce(wire, topic, batch())
    answer = fetch(wire, topic, isolation_level=1)
    assert len(read_batches(answer.records)) == 1
    assert answer.last_stable_offset == 1
    assert not answer.aborted_transactions


def test_a_record_is_fetched_only_after_it_was_acknowledged(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    for expected in range(1, 21):
        produce(wire, topic, batch())
        assert fetch(wire, topic).high_watermark == expected == end_offset(wire, topic)
