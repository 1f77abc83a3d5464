"""A partition whose files cannot be read at start is offline: it is named, clients are told, nothing of it
is changed, and everything else is served. When the disk is well again, so is the partition."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from headwater.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from headwater.broker.transactions import coordinator
from headwater.testing.clock import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.inspection.world import read
from tests.broker.serving import Serving, serving
from tests.broker.test_damaged_state import ONE as ONE_PARTITION
from tests.broker.test_damaged_state import garbage
from tests.compat.asking import fetch, produce
from tests.compat.batches import batch
from tests.compat.waiting import until

TOPICS = {"paid": 3}
ONE = batch([(b"k", b"v")])
LOG = "paid-1/00000000000000000000.log"


def write(bootstrap: str, *values: bytes, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for value in values:
        for number in range(TOPICS["paid"]):
            producer.produce("paid", value, partition=number)
        assert producer.flush(30) == 0


@pytest.fixture
def stopped(data: Path) -> Path:
    with serving(data) as broker:
        broker.create("paid", 3)
        write(broker.bootstrap, b"1", b"2", b"3")
    return data


@contextmanager
def a_bad_sector(data: Path) -> Iterator[HandDisk]:
    disk = HandDisk()
    with disk.failing("read", name=LOG):
        yield disk


@contextmanager
def no_permission(data: Path) -> Iterator[HandDisk]:
    disk = HandDisk()
    with disk.failing("open", "create", code=errno.EACCES, name=LOG):
        yield disk


@contextmanager
def a_directory(data: Path) -> Iterator[HandDisk]:
    path = data / LOG
    kept = path.with_name("kept")
    path.rename(kept)
    path.mkdir()
    yield HandDisk()
    path.rmdir()
    kept.rename(path)


@contextmanager
def a_file_instead_of_the_folder(data: Path) -> Iterator[HandDisk]:
    folder = data / "paid-1"
    folder.rename(data / "kept")
    folder.write_bytes(b"")
    yield HandDisk()
    folder.unlink()
    (data / "kept").rename(folder)


Harm = Callable[[Path], AbstractContextManager[HandDisk]]
HARMS = [a_bad_sector, no_permission, a_directory, a_file_instead_of_the_folder]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_that_cannot_be_read_is_offline_and_the_rest_is_served(
    stopped: Path, harm: Harm, clean: bool
) -> None:
    if not clean:
        (stopped / ".kafka_cleanshutdown").unlink()
    before = files_of(stopped / "paid-1")
    with harm(stopped) as disk, serving(stopped, files=disk) as broker:
        assert "paid-1 is offline" in broker.broker.health.damage["paid-1"]
        with broker.wire() as wire:
            assert (
                produce(wire, "paid", ONE, partition=1).error_code is ErrorCode.kafka_storage_error
            )
            assert fetch(wire, "paid", partitions=[1]).error_code is ErrorCode.kafka_storage_error
            _others_are_served(broker)
    kept = files_of(stopped / "paid-1")
    assert {name: kept[name] for name in before if name.endswith(".log")} == {
        name: before[name] for name in before if name.endswith(".log")
    }
    with serving(stopped) as broker:
        assert broker.broker.health.damage == {}
        write(broker.bootstrap, b"5")
        assert len(read(broker.bootstrap, topics=TOPICS)) == 3 * 3 + 2 + 3


def _others_are_served(broker: Serving) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in (0, 2):
        producer.produce("paid", b"4", partition=number)
    assert producer.flush(30) == 0
    assert len(read(broker.bootstrap, topics={"paid": 1})) == 4


def test_a_tail_that_was_not_synced_is_still_looked_at_when_the_partition_comes_back(
    stopped: Path,
) -> None:
    (stopped / ".kafka_cleanshutdown").unlink()
    with (stopped / LOG).open("ab") as file:
        file.write(b"\x01" * 100)  # torn by a crash
    with a_bad_sector(stopped) as disk, serving(stopped, files=disk):
        pass
    assert not (stopped / ".kafka_cleanshutdown").exists()
    with serving(stopped) as broker:
        write(broker.bootstrap, b"4")
        assert len(read(broker.bootstrap, topics=TOPICS)) == 12


def test_committed_offsets_that_cannot_be_read_are_not_none(stopped: Path) -> None:
    with serving(stopped) as broker:
        commit(broker.bootstrap, 2)
        offsets = broker.call(lambda: broker.broker.topics.hashed("__consumer_offsets", "readers"))
    disk = HandDisk()
    with (
        disk.failing("read", name=f"__consumer_offsets-{offsets}/*.log"),
        serving(stopped, files=disk) as broker,
        broker.wire() as wire,
    ):
        found = wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=["readers"])
        assert found.coordinators[0].error_code is ErrorCode.coordinator_not_available
        asked = {"group_id": "readers", "topics": None, "member_id": None, "member_epoch": -1}
        (group,) = wire.ask("offset_fetch", 9, groups=[asked], require_stable=False).groups
        assert group.error_code is ErrorCode.coordinator_not_available
    with serving(stopped) as broker:
        assert committed(broker.bootstrap) == 2


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("paid", 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("paid", 0)], 30)
    consumer.close()
    return int(found.offset)


@pytest.mark.parametrize("name", ["paid-1", "__transaction_state-*"])
def test_a_transaction_waits_for_what_is_offline_and_is_not_ended_without_it(
    stopped: Path, name: str
) -> None:
    settings = {"transactional.id": "till"}
    with serving(stopped) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(3):
            producer.produce("paid", b"open", partition=number)
        producer.flush(30)
    disk = HandDisk()
    with disk.failing("read", name=f"{name}/*.log"), serving(stopped, files=disk) as broker:
        opened = broker.log("paid", 0).producers.open_transactions
        assert broker.call(lambda: list(opened))
    with serving(stopped) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
        producer.init_transactions(30)  # ends what was open, in every partition
        for number in range(3):
            log = broker.log("paid", number)
            assert broker.call(lambda log=log: log.last_stable_offset() == log.durable_offset)


def test_a_marker_is_written_once_while_another_partition_of_the_transaction_is_offline(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "RETRY_SECONDS", 0.01)
    with serving(stopped) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "till"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(3):
            producer.produce("paid", b"open", partition=number)
        producer.flush(30)
    disk, clock = HandDisk(), ManualClock(time.time_ns() // 1_000_000 + 3_600_000)
    with (
        disk.failing("read", name="paid-1/*.log"),
        serving(stopped, files=disk, clock=clock) as broker,
    ):
        transactions, log, attempts = broker.broker.transactions, broker.log("paid", 0), []
        write, before = transactions.markers.write, log.next_offset
        monkeypatch.setattr(
            transactions.markers, "write", lambda *a, **k: attempts.append(a) or write(*a, **k)
        )
        broker.call(transactions.abort_overdue)
        until(lambda: len(attempts) > 3, "it to be tried again")
        assert broker.call(lambda: log.durable_offset) == before + 1


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE])
def test_a_state_topic_that_cannot_be_read_anywhere_is_offline_and_the_broker_starts(
    data: Path, topic: str
) -> None:
    """Not only at its end, which every start looks at."""
    settings = {**ONE_PARTITION, "num.partitions": 1}
    with serving(data, settings) as broker, broker.wire() as wire:
        broker.create("t")
        for number in range(3):
            broker.run(garbage(broker, topic, b"\0\7%d" % number, b"of no kind that there is"))
            log = broker.log(topic)
            broker.call(lambda log=log: log.roll(0))
    first, disk = f"{topic}-0/{0:020d}.log", HandDisk()
    with disk.failing("read", name=first), serving(data, settings, files=disk) as broker:
        assert f"{first} could not be read" in broker.broker.health.damage[f"{topic}-0"]
        with broker.wire() as wire:
            assert produce(wire, "t", ONE).error_code is ErrorCode.none
    with serving(data, settings) as broker:
        assert broker.broker.health.damage == {}
        assert broker.log(topic).next_offset == 3


def test_dead_letters_that_cannot_be_read_do_not_stop_the_start(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("dlq.g", 1, internal_segment_bytes=200)
        for _ in range(3):
            produce(wire, "dlq.g", batch([(None, bytes(90))]))
    disk = HandDisk()
    name = f"dlq.g-0/{0:020d}.log"
    with disk.failing("read", name=name), serving(data, files=disk) as broker:
        found = broker.call(lambda: list(broker.broker.shares.dead_letters.newest()))
        assert found == []
