"""A disk that fills up: new records are refused in time, everything else goes on, and so do they."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.broker.disk_space import decide
from headwater.log import reserve
from headwater.log.files import Space
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import end_offset, fetch, produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

MEBIBYTE = 1024**2
LIMIT = {"log.min.free.bytes": 100 * MEBIBYTE}


@pytest.mark.parametrize(
    ("free", "total", "refusing", "expected"),
    [
        (101, 10_000, False, (100, False)),
        (99, 10_000, False, (100, True)),
        (105, 10_000, True, (100, True)),  # a tenth more, or it would flicker
        (110, 10_000, True, (100, False)),
        (60, 1_000, False, (50, False)),  # a small disk
        (0, 10_000, False, (100, True)),
    ],
)
def test_the_limit_and_its_margin(
    free: int, total: int, refusing: bool, expected: tuple[int, bool]
) -> None:
    assert decide(Space(free, total), 100, refusing, chosen=False) == expected


def test_a_limit_that_was_chosen_is_not_made_smaller() -> None:
    assert decide(Space(60, 1_000), 100, False, chosen=True) == (100, True)


def test_no_limit_refuses_nothing() -> None:
    assert decide(Space(0, 10_000), 0, False, chosen=True) == (0, False)


def low(broker: Serving, disk: HandDisk, free: int = 10 * MEBIBYTE) -> None:
    disk.free_bytes = free
    until(lambda: broker.broker.disk_space.refusing, "the watch to see it")


def test_records_are_refused_below_the_limit_and_taken_again_when_there_is_room(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        assert produce(wire, "t", batch()).error_code is ErrorCode.none
        low(broker, disk)
        refused = produce(wire, "t", batch())
        assert refused.error_code is ErrorCode.kafka_storage_error
        assert "10 MiB left" in refused.error_message
        assert "log.min.free.bytes" in refused.error_message
        assert fetch(wire, "t", 0).records, "reads go on"
        assert broker.broker.health.disk.refusing
        assert broker.broker.disk_space.refusing_since_ms is not None
        disk.free_bytes = 105 * MEBIBYTE
        broker.run(broker.broker.disk_space.watch(broker.broker.executor))
        assert produce(wire, "t", batch()).error_code is ErrorCode.kafka_storage_error
        disk.free_bytes = 200 * MEBIBYTE
        until(lambda: not broker.broker.disk_space.refusing, "the watch to see it")
        assert produce(wire, "t", batch()).base_offset == 1
        assert not broker.broker.health.disk.refusing


def test_what_is_stored_already_is_acknowledged_below_the_limit(data: Path) -> None:
    disk = HandDisk()
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        data_of = [batch([(None, b"%d" % n)], producer=(5, 0, n)) for n in range(2)]
        assert produce(wire, "t", data_of[0]).error_code is ErrorCode.none
        low(broker, disk)
        assert produce(wire, "t", data_of[0]).base_offset == 0, "a retry takes no room"
        assert produce(wire, "t", data_of[1]).error_code is ErrorCode.kafka_storage_error


def test_commits_ends_of_transactions_and_deletions_go_on_below_the_limit(data: Path) -> None:
    disk = HandDisk()
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        create(wire, "doomed")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "p"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"in time")
        producer.flush(10)
        low(broker, disk)
        consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
        producer.commit_transaction(30)
        log = broker.log("t")
        assert broker.call(lambda: log.last_stable_offset()) == end_offset(wire, "t") == 2
        part = [{"partition_index": 0, "offset": 1}]
        asked = [{"name": "t", "partitions": part}]
        row = wire.ask("delete_records", 2, topics=asked, timeout=9000).topics[0].partitions[0]
        assert (row.error_code, row.low_watermark) == (ErrorCode.none, 1)
        assert delete(wire, "doomed") is ErrorCode.none
        consumer.close()


def test_topics_and_partitions_are_not_made_below_the_limit(data: Path) -> None:
    disk = HandDisk()
    settings = {**LIMIT, "auto.create.topics.enable": True}
    with serving(data, settings, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        low(broker, disk)
        new = {"name": "new", "num_partitions": 1, "replication_factor": 1}
        row = wire.ask("create_topics", 7, topics=[new], timeout=9000).topics[0]
        assert row.error_code is ErrorCode.kafka_storage_error
        assert "log.min.free.bytes" in row.error_message
        more = [{"name": "t", "count": 2, "assignments": None}]
        grown = wire.ask("create_partitions", 3, topics=more, timeout=9000).results[0]
        assert grown.error_code is ErrorCode.kafka_storage_error
        auto = wire.ask("metadata", 12, topics=[{"name": "m"}], allow_auto_topic_creation=True)
        assert auto.topics[0].error_code is ErrorCode.kafka_storage_error


def test_a_write_that_finds_no_room_is_looked_into_at_once(data: Path) -> None:
    """And not a second later, when the last byte is gone."""
    disk = HandDisk()
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        looks = broker.call(lambda: _count(broker, disk))
        with disk.failing("write", code=errno.ENOSPC, name="t-0/*.log"):
            assert produce(wire, "t", batch()).error_code is ErrorCode.kafka_storage_error
        until(lambda: bool(looks), "a look at the disk")


def _count(broker: Serving, disk: HandDisk) -> list[Any]:
    """Looks at the disk that did not come from the watch."""
    looks: list[Any] = []
    space = broker.broker.disk_space
    before = space.write_failed

    def counted(error: BaseException, executor: Any) -> None:
        before(error, executor)
        looks.append(error)

    space.write_failed = counted  # type: ignore[method-assign]
    return looks


def test_a_broker_that_starts_without_room_serves_reads(data: Path) -> None:
    disk = HandDisk()
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch())
    disk.free_bytes = 0
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        assert broker.broker.disk_space.refusing
        assert fetch(wire, "t", 0).records
        assert produce(wire, "t", batch()).error_code is ErrorCode.kafka_storage_error


def test_the_limit_can_be_changed_while_the_broker_runs(data: Path) -> None:
    disk = HandDisk()
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        low(broker, disk)
        _set_limit(wire, "0")
        until(lambda: produce(wire, "t", batch()).error_code is ErrorCode.none, "room")


def test_a_limit_above_what_is_free_is_taken_at_its_word_and_can_be_taken_back(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        _set_limit(wire, str(2**62))
        until(lambda: broker.broker.disk_space.refusing, "the watch to see it")
        assert produce(wire, "t", batch()).error_code is ErrorCode.kafka_storage_error
        _set_limit(wire, "1")
        until(lambda: produce(wire, "t", batch()).error_code is ErrorCode.none, "room")


def _set_limit(wire: Wire, value: str) -> None:
    change = {"name": "log.min.free.bytes", "config_operation": 0, "value": value}
    resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource])
    assert answer.responses[0].error_code is ErrorCode.none


def test_the_log_directory_tells_its_room(data: Path) -> None:
    """KIP-827."""
    disk = HandDisk()
    disk.free_bytes = 123 * MEBIBYTE
    with serving(data, LIMIT, files=disk) as broker, broker.wire() as wire:
        found = _log_dir(wire)
        assert found.usable_bytes == 123 * MEBIBYTE
        assert found.total_bytes > found.usable_bytes
        assert broker.broker.disk_space.free_bytes == 123 * MEBIBYTE


def _log_dir(wire: Wire) -> Any:
    return wire.ask("describe_log_dirs", 4, topics=None).results[0]


class Brimful(HandDisk):
    """Nothing is left on it but what the reserve has: whoever needs room gets it once that is gone."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self._reserve, self.is_brimful = data / reserve.NAME, False
        for operation in ("write", "write_atomic", "create"):
            self.on(operation, self._fail)

    def _fail(self, path: Path) -> None:
        if self.is_brimful and self._reserve.exists() and not path.is_dir():
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def space(self, path: Path) -> Space:
        return Space(0, 10_000 * MEBIBYTE) if self.is_brimful else super().space(path)


def test_with_nothing_left_records_can_be_deleted_and_the_broker_starts(data: Path) -> None:
    disk = Brimful(data)
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", segment_bytes=MEBIBYTE)
        for _ in range(3):
            produce(wire, "t", batch([(None, bytes(700_000))]))
        until((data / reserve.NAME).exists, "something to be laid by")
        disk.is_brimful = True
        asked = {"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}
        answer = wire.ask("delete_records", 2, topics=[asked], timeout=9000)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none
        assert len(list((data / "t-0").glob("*.log"))) == 1
        disk.is_brimful = False
        until((data / reserve.NAME).exists, "it to be laid by again")
        disk.is_brimful = True
    with serving(data, files=disk) as broker, broker.wire() as wire:
        assert fetch(wire, "t", 2).records
    disk.is_brimful = False
    with serving(data, files=disk):
        until((data / reserve.NAME).exists, "it to be laid by again")


def test_with_nothing_left_retention_makes_room(data: Path) -> None:
    disk = Brimful(data)
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", segment_bytes=MEBIBYTE, retention_bytes=1)
        for _ in range(3):
            produce(wire, "t", batch([(None, bytes(700_000))]))
        until((data / reserve.NAME).exists, "something to be laid by")
        disk.is_brimful = True
        broker.run(broker.broker.housekeeping.retain())
        assert broker.log("t").start_offset > 0
        assert not list((data / "t-0").glob(f"{0:020d}.log"))


def test_with_nothing_left_retention_makes_room_behind_a_snapshot_that_was_not_saved(
    data: Path,
) -> None:
    disk = Brimful(data)
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", segment_bytes=MEBIBYTE, retention_bytes=1)
        with disk.failing("write_atomic", code=errno.ENOSPC, name="*.snapshot"):
            for _ in range(3):
                produce(wire, "t", batch([(None, bytes(700_000))]))
        until((data / reserve.NAME).exists, "something to be laid by")
        disk.is_brimful = True
        broker.run(broker.broker.housekeeping.retain())
        assert broker.log("t").start_offset > 0
        assert not list((data / "t-0").glob(f"{0:020d}.log"))
