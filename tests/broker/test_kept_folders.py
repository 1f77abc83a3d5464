"""Data folders that earlier versions have written: `kept/VERSION-HOW.tar.gz` opens, and nothing is missing.

In each: `plain` (3 partitions, 300 records of an idempotent producer, 80 compressed ones), `compacted`,
`transactional` (two transactions committed, one aborted, one open), `trimmed` (40 records, the first 25
deleted), `queue` (10 records, all acknowledged by the share group `workers`; a second partition added), the
groups `group-classic` and `group-consumer` at the end of `plain`, the user `alice`, and a topic that was
deleted.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.repair import repair
from headwater.errors import HeadwaterError
from headwater.log.meta import FORMAT_LINE, META, read_lines, text_of
from tests.broker.serving import Serving, serving
from tests.compat.asking import end_offset, produce
from tests.compat.batches import batch

TOPICS = ("plain", "compacted", "transactional", "trimmed", "queue")
KEPT = sorted((Path(__file__).parent / "kept").glob("*.tar.gz"))
FOREVER = {
    "offsets.retention.minutes": 2**31 - 1,
    "transactional.id.expiration.ms": 2**31 - 1,
    "transaction.max.timeout.ms": 2**31 - 1,
}
"""The folders grow older; what they hold shall not expire."""


@pytest.fixture(params=KEPT, ids=lambda path: path.name.removesuffix(".tar.gz"))
def kept(request: pytest.FixtureRequest, data: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(data, filter="data")
    return data


@pytest.fixture
def opened(kept: Path) -> Iterator[Serving]:
    with serving(kept, FOREVER) as broker:
        yield broker


def values(broker: Serving, topic: str, partition: int = 0) -> list[bytes | None]:
    """What a reader of committed data gets from a partition."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reads",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found = []
        while True:
            message = reader.poll(30)
            assert message is not None, "the partition's end was not reached"
            if message.error() is None:
                found.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise AssertionError(message.error())
    finally:
        reader.close()


def test_every_record_is_there(opened: Serving) -> None:
    plain = [values(opened, "plain", partition) for partition in range(3)]
    assert plain[1] == [b"value %d" % n for n in range(1, 300, 3)]
    assert plain[2] == [b"value %d" % n for n in range(2, 300, 3)]
    packed = [
        f"{codec} {n} ".encode() + b"x" * 100
        for codec in ("gzip", "snappy", "lz4", "zstd")
        for n in range(20)
    ]
    assert plain[0] == [b"value %d" % n for n in range(0, 300, 3)] + packed
    assert values(opened, "trimmed") == [b"%d" % n for n in range(25, 40)]
    latest = {b"value 45", b"value 46", b"value 47", b"value 48"}
    assert latest <= set(values(opened, "compacted"))
    queue = [*values(opened, "queue", 0), *values(opened, "queue", 1)]
    assert queue == [b"%d" % n for n in range(10)]


def test_only_what_was_committed_is_read(opened: Serving) -> None:
    committed = [b"commit %d %d" % (n, each) for n in (0, 2) for each in range(5)]
    assert values(opened, "transactional") == committed
    assert set(opened.broker.transactions.transactions) == {"writer", "unfinished"}


def test_groups_settings_and_users_are_as_they_were(opened: Serving) -> None:
    catalogue, end = opened.broker.catalogue, {0: 180, 1: 100, 2: 100}
    assert {name for name in catalogue.topics if not name.startswith("__")} == set(TOPICS)
    assert catalogue.topics["plain"].configs["max.message.bytes"] == "98765"
    assert catalogue.topics["trimmed"].configs["max.message.bytes"] == "123456"
    assert catalogue.topics["queue"].partitions == 2
    admin = AdminClient({"bootstrap.servers": opened.bootstrap})
    assert list(admin.describe_user_scram_credentials().result(30)) == ["alice"]
    for group in ("group-classic", "group-consumer"):
        asked = [ConsumerGroupTopicPartitions(group)]
        (answer,) = admin.list_consumer_group_offsets(asked).values()
        found = answer.result(30).topic_partitions
        assert {each.partition: each.offset for each in found if each.topic == "plain"} == end


def test_it_can_be_written_to_and_checked(kept: Path) -> None:
    assert inspect(kept).wrong == []
    with serving(kept, FOREVER) as broker, broker.wire() as wire:
        before = end_offset(wire, "trimmed")
        assert produce(wire, "trimmed", batch([(b"k", b"new")])).base_offset == before == 40
    assert FORMAT_LINE.encode() + b"=1" in (kept / META).read_bytes().splitlines()
    assert inspect(kept).wrong == []


@pytest.mark.parametrize("version", ["2", "999"])
def test_a_folder_of_a_later_version_is_refused_and_left_alone(data: Path, version: str) -> None:
    with serving(data):
        pass
    path = data / META
    lines = read_lines(path.read_bytes())
    path.write_bytes(text_of({**lines, FORMAT_LINE: version}))
    before = path.read_bytes()
    for opening in (lambda: serving(data).__enter__(), lambda: inspect(data)):
        with pytest.raises(HeadwaterError, match=f"a later version.* format {version}"):
            opening()
    assert path.read_bytes() == before


@pytest.mark.parametrize("found", ["0", "3", "5", "9", "q", "!", "1x", "99"])
def test_a_damaged_version_is_told_from_a_later_one_and_written_again(
    data: Path, found: str
) -> None:
    with serving(data) as broker:
        broker.create("kept")
        cluster_id = broker.broker.cluster_id
    path = data / META
    path.write_text(path.read_text().replace(f"{FORMAT_LINE}=1", f"{FORMAT_LINE}={found}"))
    with pytest.raises(HeadwaterError, match="is damaged") as refused:
        serving(data).__enter__()
    assert "headwater repair" in (refused.value.hint or "")
    (finding,) = inspect(data).wrong
    assert finding.means == "the broker does not start"
    assert repair(data).after.wrong == []
    with serving(data) as broker:
        assert "kept" in broker.broker.catalogue.topics
        assert broker.broker.cluster_id == cluster_id
