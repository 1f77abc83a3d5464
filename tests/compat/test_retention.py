"""What the log forgets: retention by time and size, compaction with tombstones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition

from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, java_tool, kafka_jars

from .asking import EARLIEST, end_offset, fetch, offset_at, produce
from .batches import batch
from .cluster import Cluster
from .confluent import consumer, producer, send, take_error
from .missing import skip_or_fail
from .waiting import until
from .wire import ErrorCode, Wire


def test_records_older_than_retention_go(
    wire: Wire, cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, retention_ms="60000")
    old = int(time.time() * 1000) - 3_600_000
    for _ in range(3):
        assert produce(wire, topic, batch(timestamps=[old])).error_code is ErrorCode.none
    until(lambda: offset_at(wire, topic, EARLIEST).offset == 3, "retention")
    assert end_offset(wire, topic) == 3
    assert fetch(wire, topic, 0).error_code is ErrorCode.offset_out_of_range
    assert produce(wire, topic, batch()).base_offset == 3
    with consumer(cluster, group, auto_offset_reset="error") as reader:
        reader.assign([TopicPartition(topic, 0, 1)])
        code = take_error(reader).code()
        assert code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def test_the_oldest_segments_go_when_the_log_is_too_large(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, segment_bytes="1048576", retention_bytes="2200000")
    for _ in range(50):
        produce(wire, topic, batch([(b"k", b"x" * 100_000)]))
    first = until(lambda: offset_at(wire, topic, EARLIEST).offset, "retention")
    assert 10 <= first <= 30
    assert end_offset(wire, topic) == 50
    assert fetch(wire, topic, first - 1).error_code is ErrorCode.offset_out_of_range
    assert fetch(wire, topic, first).error_code is ErrorCode.none


def test_a_longer_retention_set_later_keeps_what_is_there(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, retention_ms="-1")
    old = int(time.time() * 1000) - 30 * 86_400_000
    produce(wire, topic, batch(timestamps=[old]))
    other = cluster.create_topic(f"{topic}-other", retention_ms="60000")
    produce(wire, other, batch(timestamps=[old]))
    until(lambda: offset_at(wire, other, EARLIEST).offset == 1, "retention of the other topic")
    assert offset_at(wire, topic, EARLIEST).offset == 0


COMPACTED = {
    "cleanup_policy": "compact",
    "segment_ms": "100",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "100",
}


def latest_by_key(
    cluster: Cluster, topic: str, group: str
) -> dict[bytes, list[tuple[int, object]]]:
    """Everything that can be read from the beginning: key → [(offset, value)]."""
    found: dict[bytes, list[tuple[int, object]]] = {}
    with consumer(cluster, group) as reader:
        here = TopicPartition(topic, 0, 0)
        _, end = reader.get_watermark_offsets(here, 60)
        reader.assign([here])
        position = 0
        while position < end:
            for message in reader.consume(500, 0.1):
                found.setdefault(message.key(), []).append((message.offset(), message.value()))
            position = max(position, reader.position([here])[0].offset)
    return found


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_compaction_keeps_the_newest_of_every_key(
    wire: Wire, cluster: Cluster, topic: str, group: str, codec: str
) -> None:
    cluster.create_topic(topic, **COMPACTED)
    writer = producer(cluster, compression_type=codec, linger_ms=0)
    for round_ in range(30):
        for key in range(10):
            writer.produce(topic, b"%d" % round_, b"key-%d" % key)
    writer.produce(topic, None, b"key-3")
    writer.flush(60)
    newest = {b"key-%d" % key: (290 + key, b"29") for key in range(10) if key != 3}

    def compacted() -> bool:
        send(writer, topic, [b"x"], key=b"roll")  # a write after segment.ms begins a new segment
        rows = latest_by_key(cluster, topic, group)
        return all(len(rows.get(key, ())) == 1 for key in newest)

    until(compacted, "compaction", timeout=30, pause=0.15)
    rows = latest_by_key(cluster, topic, group)
    assert {key: rows[key][0] for key in newest} == newest
    assert [value for _, value in rows.get(b"key-3", [])] in ([None], [])

    def tombstone_gone() -> bool:
        send(writer, topic, [b"x"], key=b"roll")
        return b"key-3" not in latest_by_key(cluster, topic, group)

    until(tombstone_gone, "the tombstone to go", timeout=30, pause=0.15)
    assert {key: latest_by_key(cluster, topic, group)[key][0] for key in newest} == newest


def test_the_files_can_be_read_by_kafkas_own_tool(wire: Wire, cluster: Cluster, topic: str) -> None:
    if cluster.data is None:
        pytest.skip("the data folder of an outside server is not known")
    try:
        kafka_jars()
    except MissingServer as missing:
        skip_or_fail(f"Kafka's tools cannot run here: {missing}")
    cluster.create_topic(topic, segment_bytes="1048576", index_interval_bytes="1000")
    send(
        producer(cluster, compression_type="lz4"),
        topic,
        [b"%09d" % each * 50 for each in range(9000)],
    )
    folder = Path(cluster.data) / f"{topic}-0"
    segments = sorted(folder.glob("*.log"))
    assert segments[0].name == "00000000000000000000.log"
    files = [
        str(each)
        for pattern in ("*.log", "*.index", "*.timeindex")
        for each in folder.glob(pattern)
    ]
    done = java_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--files", ",".join(files)),
        jvm=QUICK_JVM,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("| offset: ") == 9000
    assert "isvalid: false" not in said
    for complaint in ("Mismatches in", "Non-consecutive", "corrupt", "Exception"):
        assert complaint not in said
