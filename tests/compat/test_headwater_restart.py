"""headwater alone: what clients see before a stop or a kill -9, they see after the restart."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from .asking import EARLIEST, end_offset, new_producer_id, offset_at, produce, read_all
from .batches import batch
from .cluster import Cluster, headwater_process
from .confluent import admin, consumer, producer, send, take
from .wire import ErrorCode


def stop(process: Any, how: signal.Signals) -> None:
    process.send_signal(how)
    assert process.wait(60) in (0, -signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_everything_acknowledged_is_there_after_a_restart(
    tmp_path: Path, topic: str, group: str, how: signal.Signals
) -> None:
    data = tmp_path / "data"
    with headwater_process(data) as (bootstrap, process):
        cluster = Cluster("headwater", bootstrap)
        cluster.create_topic(topic, partitions=2, retention_ms="7777777")
        before = cluster.topic_id(topic)
        send(
            producer(cluster, compression_type="zstd"), topic, [b"%d" % each for each in range(500)]
        )
        client = admin(cluster)
        cluster_id = client.list_topics(timeout=60).cluster_id
        with consumer(cluster, group) as reader:
            reader.subscribe([topic])
            take(reader, 500)
            offsets = [TopicPartition(topic, 0, 3, metadata="note")]
            reader.commit(offsets=offsets, asynchronous=False)
        with cluster.wire() as wire:
            producer_id, epoch = new_producer_id(wire)
            other = cluster.create_topic(f"{topic}-sequences")
            for sequence in range(3):
                done = produce(wire, other, batch(producer=(producer_id, epoch, sequence)))
                assert done.error_code is ErrorCode.none
            gone = cluster.create_topic(f"{topic}-gone")
            wire.ask("delete_topics", 6, topics=[{"name": gone}], timeout=60_000)
            deleted = [{"partition_index": 0, "offset": 1}]
            wire.ask(
                "delete_records", 2, topics=[{"name": other, "partitions": deleted}], timeout=5
            )
        stop(process, how)

    with headwater_process(data) as (bootstrap, process):
        cluster = Cluster("headwater", bootstrap)
        assert cluster.topic_id(topic) == before
        client = admin(cluster)
        listed = client.list_topics(timeout=60)
        assert listed.cluster_id == cluster_id
        assert gone not in listed.topics
        with consumer(cluster, group) as reader:
            (found,) = reader.committed([TopicPartition(topic, 0)], 60)
            assert (found.offset, found.metadata) == (3, "note")
            reader.assign([TopicPartition(topic, each, 0) for each in (0, 1)])
            values = sorted(int(each.value()) for each in take(reader, 500))
            assert values == list(range(500))
        with cluster.wire() as wire:
            assert new_producer_id(wire)[0] > producer_id
            assert offset_at(wire, other, EARLIEST).offset == 1
            again = produce(wire, other, batch(producer=(producer_id, epoch, 2)))
            assert (again.error_code, again.base_offset) == (ErrorCode.none, 2)
            gap = produce(wire, other, batch(producer=(producer_id, epoch, 9)))
            assert gap.error_code is ErrorCode.out_of_order_sequence_number
            assert end_offset(wire, other) == 3
            assert len(read_all(wire, other, 1)) == 2
        stop(process, signal.SIGTERM)


def test_a_group_lives_through_a_restart(tmp_path: Path, topic: str, group: str) -> None:
    """The consumer is not told: it reconnects, finds its group again and reads on."""
    data = tmp_path / "data"
    with headwater_process(data) as (bootstrap, process):
        cluster = Cluster("headwater", bootstrap)
        cluster.create_topic(topic)
        send(producer(cluster), topic, [b"1"])
        with consumer(cluster, group) as reader:
            reader.subscribe([topic])
            (message,) = take(reader, 1)
            reader.commit(message=message, asynchronous=False)
            stop(process, signal.SIGTERM)
            port = int(bootstrap.rpartition(":")[2])
            with headwater_process(data, port=port):
                send(producer(cluster), topic, [b"2"])
                assert [each.value() for each in take(reader, 1)] == [b"2"]
