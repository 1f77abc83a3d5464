"""A disk that is full or fails: those who wrote are told, the others go on, refused records stay away."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from headwater.log.checkpoints import read_start_offset
from headwater.log.files import Files
from tests.broker.disks import HandDisk
from tests.broker.serving import create, delete, serving
from tests.compat.asking import end_offset, fetch, produce, produce_request, read_all
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

T_LOG = "t-0/*.log"


def put(wire: Wire, value: bytes, topic: str = "t", partition: int = 0) -> ErrorCode:
    row = produce(wire, topic, batch([(None, value)]), partition=partition)
    code: ErrorCode = row.error_code
    return code


def values(wire: Wire, topic: str = "t") -> list[bytes | None]:
    return [value for each in read_all(wire, topic) for _, value in each.pairs]


def send(wire: Wire, value: bytes, topic: str = "t") -> None:
    wire.send("produce", 9, **produce_request(topic, batch([(None, value)])))


def answer(wire: Wire) -> Any:
    return wire.receive()[1].responses[0].partition_responses[0]


# ---- writing fails: refused, and taken again once it works -------------------------------------------


@pytest.mark.parametrize(
    "durability",
    ["disk", "os"],
)
def test_a_full_disk_refuses_and_takes_writes_again_when_there_is_space(
    data: Path, durability: str
) -> None:
    disk = HandDisk()
    with serving(data, files=disk, durability=durability) as broker, broker.wire() as wire:
        broker.create("t")
        broker.create("other")
        assert put(wire, b"one") is ErrorCode.none
        with disk.failing("write", code=errno.ENOSPC, name=T_LOG):
            assert put(wire, b"refused") is ErrorCode.kafka_storage_error
            assert put(wire, b"refused") is ErrorCode.kafka_storage_error
            assert put(wire, b"elsewhere", "other") is ErrorCode.none
            assert values(wire) == [b"one"], "what is stored can still be read"
        until(lambda: put(wire, b"two") is ErrorCode.none, "the log to be recovered")
        assert values(wire) == [b"one", b"two"]
    with serving(data) as broker, broker.wire() as wire:
        assert values(wire) == [b"one", b"two"]
        assert values(wire, "other") == [b"elsewhere"]


def test_a_disk_without_any_space_left_does_not_fence_the_partition_for_good(data: Path) -> None:
    """Nothing at all can be written, not even a checkpoint."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        assert put(wire, b"one") is ErrorCode.none
        with disk.full():
            for _ in range(3):
                assert put(wire, b"refused") is ErrorCode.kafka_storage_error
        until(lambda: put(wire, b"two") is ErrorCode.none, "the log to be recovered")
        assert values(wire) == [b"one", b"two"]


@pytest.mark.parametrize(
    "durability",
    ["disk", "os"],
)
def test_a_refused_write_is_not_acknowledged_by_the_success_of_a_later_one(
    data: Path, durability: str
) -> None:
    disk = HandDisk()
    with serving(data, files=disk, durability=durability) as broker, broker.wire() as wire:
        broker.create("t")
        with disk.failing("write", code=errno.ENOSPC, name=T_LOG), broker.wire() as first:
            send(first, b"refused")
            assert answer(first).error_code is ErrorCode.kafka_storage_error
        until(lambda: put(wire, b"taken") is ErrorCode.none, "the log to be recovered")
        assert values(wire) == [b"taken"]


def test_what_waited_behind_a_failed_write_is_refused_with_it_and_never_comes_back(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker:
        broker.create("t")
        wires = [Wire(broker.bootstrap) for _ in range(3)]
        assert put(wires[0], b"one") is ErrorCode.none
        with (
            disk.held("write", T_LOG) as held,
            disk.failing("write", code=errno.ENOSPC, name=T_LOG),
        ):
            send(wires[0], b"refused 0")
            held.until_reached()
            send(wires[1], b"refused 1")
            send(wires[2], b"refused 2" * 100)
            until(lambda: broker.call(lambda: broker.log("t").next_offset) == 4, "all three")
            held.release()
            codes = {answer(wire).error_code for wire in wires}
        assert codes == {ErrorCode.kafka_storage_error}
        taken = [b"taken %d" % number for number in range(20)]
        for value in taken:
            assert put(wires[0], value) is ErrorCode.none
        assert values(wires[0]) == [b"one", *taken]
        for wire in wires:
            wire.close()
    with serving(data) as broker, broker.wire() as wire:
        assert values(wire) == [b"one", *taken], "a clean stop wrote what had been refused"
        assert put(wire, b"more") is ErrorCode.none


def test_the_log_after_a_failed_write_is_checkpointed_as_the_one_before(data: Path) -> None:
    """DeleteRecords after it survives the restart, as every DeleteRecords does."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        with disk.failing("write", code=errno.ENOSPC, name=T_LOG):
            assert put(wire, b"refused") is ErrorCode.kafka_storage_error
        for number in range(10):
            assert put(wire, b"%d" % number) is ErrorCode.none
        wanted = [{"partition_index": 0, "offset": 7}]
        wire.ask("delete_records", 2, topics=[{"name": "t", "partitions": wanted}], timeout=9000)
    with serving(data) as broker, broker.wire() as wire:
        assert fetch(wire, "t", 6).error_code is ErrorCode.offset_out_of_range
        assert broker.log("t").start_offset == 7
        assert broker.broker.store.reports["t", 0].scanned_bytes == 0


def test_an_idempotent_producer_may_send_again_what_a_full_disk_refused(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        batches = [batch([(None, b"%d" % n)], producer=(5, 0, n)) for n in range(4)]
        assert produce(wire, "t", batches[0]).error_code is ErrorCode.none
        with disk.failing("write", code=errno.ENOSPC, name=T_LOG):
            assert produce(wire, "t", batches[1]).error_code is ErrorCode.kafka_storage_error
        rows = [produce(wire, "t", each) for each in batches]
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (ErrorCode.none, number) for number in range(4)
        ]
        assert values(wire) == [b"0", b"1", b"2", b"3"]


def test_other_partitions_of_the_same_request_are_stored(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t", 3)
        with disk.failing("write", code=errno.ENOSPC, name="t-1/*.log"):
            rows = [{"index": number, "records": batch()} for number in range(3)]
            asked = [{"name": "t", "partition_data": rows}]
            found = wire.ask("produce", 9, acks=-1, timeout=5000, topic_data=asked)
        codes = [row.error_code for row in found.responses[0].partition_responses]
        assert codes == [ErrorCode.none, ErrorCode.kafka_storage_error, ErrorCode.none]
        assert [end_offset(wire, "t", number) for number in range(3)] == [1, 0, 1]


# ---- syncing fails: nobody knows what the disk has ------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_failed_sync_fences_its_partition_until_the_next_start(data: Path, again: bool) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        broker.create("other")
        assert put(wire, b"one") is ErrorCode.none
        with disk.failing("sync", name=T_LOG):
            assert put(wire, b"refused") is ErrorCode.kafka_storage_error
        if again:
            assert put(wire, b"refused") is ErrorCode.kafka_storage_error
        assert values(wire) == [b"one"], "readable, as far as it was durable"
        assert put(wire, b"elsewhere", "other") is ErrorCode.none
    with serving(data) as broker, broker.wire() as wire:
        assert values(wire) == [b"one"], "what was refused has come back"
        assert put(wire, b"two") is ErrorCode.none
        assert values(wire) == [b"one", b"two"]
        assert values(wire, "other") == [b"elsewhere"]


def test_what_waited_behind_a_failed_sync_is_refused_and_never_comes_back(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker:
        broker.create("t")
        with broker.wire() as first, broker.wire() as second:
            assert put(first, b"one") is ErrorCode.none
            with disk.held("sync", T_LOG) as held, disk.failing("sync", name=T_LOG):
                send(first, b"refused")
                held.until_reached()
                send(second, b"refused")
                until(lambda: broker.call(lambda: broker.log("t").next_offset) == 3, "both")
                held.release()
                codes = {answer(wire).error_code for wire in (first, second)}
            assert codes == {ErrorCode.kafka_storage_error}
    with serving(data) as broker, broker.wire() as wire:
        assert values(wire) == [b"one"]
        assert put(wire, b"two") is ErrorCode.none


# ---- the broker's own logs ---------------------------------------------------------------------------


CATALOGUE = "__headwater_catalogue-0/*.log"


@pytest.mark.parametrize("name", [CATALOGUE, "*"], ids=["catalogue", "everything"])
def test_a_topic_that_cannot_be_made_is_refused_with_a_code(data: Path, name: str) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        asked = {"name": "t", "num_partitions": 2, "replication_factor": 1}
        with disk.failing("write", "write_atomic", "create", code=errno.ENOSPC, name=name):
            made = wire.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0]
            assert made.error_code is ErrorCode.kafka_storage_error
            assert not wire.ask("metadata", 12, topics=None).topics
        until(
            lambda: (
                wire.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0].error_code
                is ErrorCode.none
            ),
            "the catalogue to be recovered",
        )
        assert put(wire, b"one") is ErrorCode.none


def test_a_topic_whose_folders_cannot_be_made_is_not_left_half_made(data: Path) -> None:
    """The catalogue has it, the folders are missing: it can be deleted, or made again."""
    disk = HandDisk()
    with serving(data, files=disk) as broker:
        asked = {"name": "t", "num_partitions": 4, "replication_factor": 1}
        with broker.wire() as wire, disk.failing("create", code=errno.ENOSPC, name="t-2"):
            made = wire.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0]
            assert made.error_code is ErrorCode.kafka_storage_error
        with broker.wire() as wire:
            if wire.ask("metadata", 12, topics=None).topics:
                assert delete(wire, "t") is ErrorCode.none
            create(wire, "t", 4)
            for partition in range(4):
                assert put(wire, b"v", partition=partition) is ErrorCode.none


def test_a_commit_that_cannot_be_stored_is_refused_and_the_old_one_stays(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        assert commit(wire, 5) is ErrorCode.none
        with disk.failing("write", code=errno.ENOSPC, name="__consumer_offsets-*/*.log"):
            assert commit(wire, 6) is not ErrorCode.none
            assert committed(wire) == 5
        assert committed(wire) == 5
        assert commit(wire, 7) is ErrorCode.none
        assert committed(wire) == 7
    with serving(data) as broker, broker.wire() as wire:
        assert committed(wire) == 7


def commit(wire: Wire, offset: int) -> Any:
    row = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    topics = [{"name": "t", "partitions": [{**row, "committed_metadata": ""}]}]
    alone = {"generation_id_or_member_epoch": -1, "member_id": ""}
    found = wire.ask("offset_commit", 8, group_id="g", topics=topics, **alone)
    return found.topics[0].partitions[0].error_code


def committed(wire: Wire) -> Any:
    groups = [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]
    found = wire.ask("offset_fetch", 8, groups=groups)
    return found.groups[0].topics[0].partitions[0].committed_offset


def test_a_producer_id_is_not_given_when_it_cannot_be_written_down(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        asked = {"transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
        with disk.failing("write", code=errno.ENOSPC, name=CATALOGUE):
            refused = wire.ask("init_producer_id", 4, **asked)
            assert refused.error_code is not ErrorCode.none
        given = wire.ask("init_producer_id", 4, **asked)
        assert given.error_code is ErrorCode.none


def test_a_changed_config_that_cannot_be_stored_does_not_take_effect(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        with disk.failing("write", code=errno.ENOSPC, name=CATALOGUE):
            assert set_config(wire, "max.message.bytes", "1000") is ErrorCode.kafka_storage_error
        assert put(wire, bytes(2000)) is ErrorCode.none
        assert set_config(wire, "max.message.bytes", "1000") is ErrorCode.none
        assert put(wire, bytes(2000)) is ErrorCode.message_too_large


def set_config(wire: Wire, name: str, value: str) -> Any:
    change = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [change]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    return answer.responses[0].error_code


def test_a_checkpoint_that_fails_is_logged_and_tried_again(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = HandDisk()
    name = "recovery-point-offset-checkpoint"
    settings = {"log.flush.offset.checkpoint.interval.ms": 100}
    with serving(data, settings, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        with disk.failing("write_atomic", code=errno.ENOSPC, name=name):
            assert put(wire, b"one") is ErrorCode.none
            until(lambda: "No space left" in caplog.text, "the failure to be logged")
        until(lambda: "t 0 1" in _text(data / name), "the next try")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_the_broker_in_which_everything_fails_still_stops(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        assert put(wire, b"one") is ErrorCode.none
        disk.on("sync", _fail)
        disk.on("write", _fail)
        assert put(wire, b"two") is ErrorCode.kafka_storage_error
        disk.hooks.clear()
    with serving(data) as broker, broker.wire() as wire:
        assert values(wire) == [b"one"]
        assert put(wire, b"two") is ErrorCode.none


def _fail(path: Path) -> None:
    raise OSError(errno.EIO, "Input/output error", str(path))


def test_records_that_could_not_be_deleted_are_still_there(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        for _ in range(10):
            produce(wire, "t", batch())
        wanted = [{"partition_index": 0, "offset": 7}]
        asked = [{"name": "t", "partitions": wanted}]
        with disk.failing("write_atomic", name="log-start-offset-checkpoint"):
            answer = wire.ask("delete_records", 2, topics=asked, timeout=9000)
            assert answer.topics[0].partitions[0].error_code is ErrorCode.kafka_storage_error
            assert not read_start_offset(Files(), data / "t-0"), "after a kill they would be gone"
        assert fetch(wire, "t").log_start_offset == 0
        assert len(read_all(wire, "t")) == 10
        answer = wire.ask("delete_records", 2, topics=asked, timeout=9000)
        assert answer.topics[0].partitions[0].low_watermark == 7
        assert len(read_all(wire, "t", 7)) == 3
