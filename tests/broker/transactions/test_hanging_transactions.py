"""Batches whose transaction does not know of them, because the disk has refused the record that says so."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.log.files import Files
from tests.broker.disks import HandDisk
from tests.broker.inspection.world import checked
from tests.broker.serving import serving
from tests.compat.asking import fetch, produce
from tests.compat.batches import batch, read_batches
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

from .test_coordinator import cut_last_batch

STATE = "__transaction_state-*/*"
SLOW = {
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
}
NEVER = {**SLOW, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3_600_000}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def committed(wire: Wire, partition: int) -> list[bytes | None]:
    answer = fetch(wire, "t", 0, partitions=(partition,), isolation_level=1, max_wait=1)
    aborted = {each.producer_id for each in answer.aborted_transactions or ()}
    return [
        value
        for each in read_batches(answer.records or b"")
        if not each.attributes & 0x20 and each.producer_id not in aborted
        for _, value in each.pairs
    ]


def stored(one: Transactor, value: bytes, partition: int) -> bool:
    """As a client tries it again."""
    code = one.produce("t", value, partition=partition).error_code
    busy = (ErrorCode.not_enough_replicas, ErrorCode.kafka_storage_error)
    assert code in (ErrorCode.none, *busy), code
    return code is ErrorCode.none


def test_a_batch_that_is_acknowledged_after_a_refusal_is_committed_with_its_transaction(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, SLOW, files=disk) as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one").init()
        one.write("t", b"first", partition=0)
        with disk.failing("write", "open", code=errno.EMFILE, name=STATE):
            row = one.produce("t", b"second", partition=1)
            assert row.error_code is ErrorCode.kafka_storage_error
        until(lambda: stored(one, b"second", 1), "the batch to be acknowledged")
        one.retried(lambda: one.ask_end(True).error_code)
        log = broker.log("t", 1)
        until(lambda: not log.producers.open_transactions, "the transaction to end in t-1")
        assert committed(wire, 0) == [b"first"]
        assert committed(wire, 1) == [b"second"]


def test_no_batch_is_acknowledged_while_the_disk_refuses_to_let_its_partition_be_added(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, SLOW, files=disk) as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one").init()
        one.write("t", b"first", partition=0)
        with disk.failing("write", "open", code=errno.EMFILE, name=STATE):
            for _ in range(3):
                assert not stored(one, b"second", 1)
            assert one.produce("t", b"third", partition=1, sequence=1).error_code is not (
                ErrorCode.none
            )


def test_no_end_is_decided_after_a_start_that_could_not_add_a_batchs_partition_again(
    data: Path, tmp_path: Path
) -> None:
    with serving(data, NEVER, files=Files()) as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one").init()
        one.write("t", b"first", partition=0)
        one.write("t", b"second", partition=1)
        copy = tmp_path / "copy"
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns(".lock"))
        cut_last_batch(copy / "__transaction_state-0")
    disk = HandDisk()
    written: list[Path] = []

    def refuse(path: Path) -> None:
        written.append(path)
        if len(written) > 1:  # the first one writes again what was found
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    accept = disk.on("write", refuse, "__transaction_state-0/*.log")
    with serving(copy, NEVER, files=disk) as broker, broker.wire() as wire:
        one.wire = wire
        assert one.ask_end(True).error_code is ErrorCode.coordinator_not_available
        assert one.ask_init().error_code is ErrorCode.coordinator_not_available
        accept()
        one.retried(lambda: one.ask_end(True).error_code)
        log = broker.log("t", 1)
        until(lambda: not log.producers.open_transactions, "the transaction to end in t-1")
        assert committed(wire, 0) == [b"first"]
        assert committed(wire, 1) == [b"second"]


def test_a_segment_that_cannot_be_begun_takes_no_decision_back_that_is_on_its_way(
    data: Path,
) -> None:
    disk = HandDisk()
    with (
        serving(data, NEVER, files=disk, durability="disk") as broker,
        broker.wire() as wire,
        broker.wire() as other,
    ):
        broker.create("t", 2)
        one, two = Transactor(wire, "one").init(), Transactor(other, "two").init()
        one.write("t", b"first")
        asked = {"transactional_id": "one", "producer_id": one.id, "producer_epoch": one.epoch}
        log = broker.log("__transaction_state")
        with disk.held("sync", name="__transaction_state-0/*.log") as held:
            wire.send("end_txn", 5, **asked, committed=True)
            held.until_reached()
            before = log.config
            broker.call(lambda: setattr(log, "config", replace(before, segment_bytes=1)))
            with disk.failing("create", code=errno.EMFILE, name="__transaction_state-0/*"):
                refused = two.ask_init().error_code
            broker.call(lambda: setattr(log, "config", before))
        assert refused is ErrorCode.coordinator_not_available
        assert wire.receive()[1].error_code is ErrorCode.none
        assert one.state() == "CompleteCommit"
        assert not broker.log("t", 0).producers.open_transactions
        assert committed(wire, 0) == [b"first"]


def test_all_partitions_of_a_hanging_transaction_are_added_again_at_once(
    data: Path, tmp_path: Path
) -> None:
    """Not one with each round of the time-outs: readers wait, and EndTxn is refused until then."""
    with serving(data, NEVER, files=Files()) as broker, broker.wire() as wire:
        broker.create("t", 6)
        one = Transactor(wire, "one").init()
        for number in range(6):
            one.write("t", b"v", partition=number)
        copy = tmp_path / "copy"
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns(".lock"))
        for _ in range(6):
            cut_last_batch(copy / "__transaction_state-0")
    with serving(copy, NEVER, files=Files(), durability="disk") as broker, broker.wire() as wire:
        one.wire = wire
        assert one.ask_end(True).error_code is ErrorCode.none
        for number in range(6):
            assert committed(wire, number) == [b"v"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_whose_marker_is_lost_with_a_file_ends_as_it_was_decided(
    data: Path, tmp_path: Path, commit: bool
) -> None:
    killed = tmp_path / "killed"
    with serving(data, NEVER) as broker, broker.wire() as wire:
        broker.create("t", 1)
        partition = broker.broker.topics.partitions["t", 0]
        one = Transactor(wire, "one").init()
        one.write("t", b"value")
        broker.call(lambda: partition.roll(1))
        one.end(commit)
        shutil.copytree(data, killed)
    (killed / "t-0" / f"{1:020d}.log").unlink()
    with serving(killed, NEVER) as broker, broker.wire() as wire:
        log = broker.log("t", 0)
        until(lambda: not log.producers.open_transactions, "the transaction to end")
        until(lambda: log.last_stable_offset() == log.durable_offset, "its marker")
        assert committed(wire, 0) == ([b"value"] if commit else [])


@pytest.mark.parametrize("was_there", [False, True])
def test_a_strangers_plain_batch_ends_no_transaction_of_another_topic(
    data: Path, was_there: bool
) -> None:
    """Anybody may write to a topic of his own under any producer id and epoch."""
    with serving(data, NEVER) as broker, broker.wire() as wire:
        broker.create("t")
        broker.create("chat")
        one = Transactor(wire, "one").init()
        if was_there:
            one.write("chat", b"before")
            one.end()
            one.init()
        one.write("t", b"first")
        stranger = batch([(None, b"v")], producer=(one.id, 32_000, 0))
        assert produce(wire, "chat", stranger).error_code is ErrorCode.none
    with serving(data, NEVER) as broker, broker.wire() as wire:
        one.wire = wire
        one.write("t", b"second")
        one.end()
        assert committed(wire, 0) == [b"first", b"second"]


def test_a_marker_takes_no_strangers_epoch_and_proves_none(data: Path) -> None:
    """In a topic that both may write to: the partition is added, and the stranger writes first."""
    with serving(data, NEVER) as broker, broker.wire() as wire:
        broker.create("t")
        broker.create("chat")
        one = Transactor(wire, "one", version=1).init()
        Transactor.retried(lambda: one.add("chat", 0))
        stranger = batch([(None, b"v")], producer=(one.id, 32_000, 0))
        assert produce(wire, "chat", stranger).error_code is ErrorCode.none
        one.end()
        one.write("t", b"first")
    with serving(data, NEVER) as broker, broker.wire() as wire:
        one.wire = wire
        one.write("t", b"second")
        one.end()
        assert committed(wire, 0) == [b"first", b"second"]


@pytest.mark.parametrize("ahead", [0, 1, 32_000])
@pytest.mark.parametrize("was_there", [False, True])
def test_what_a_stranger_writes_in_the_same_topic_keeps_no_transaction_out(
    data: Path, was_there: bool, ahead: int
) -> None:
    """Nor is a transaction's batch taken for a repetition of the stranger's, whatever its numbers."""
    with serving(data, NEVER) as broker, broker.wire() as wire:
        broker.create("t")
        one = Transactor(wire, "one", version=1).init()
        written = [b"before"] if was_there else []
        for value in written:
            one.write("t", value)
            one.end()
        first = one.sequences.get(("t", 0), 0) if not ahead else 0
        stranger = batch([(b"k", b"v")], producer=(one.id, one.epoch + ahead, first))
        assert produce(wire, "t", stranger).error_code is ErrorCode.none
        one.write("t", b"after")
        one.end()
        expected = [*written, b"v", b"after"]
        assert committed(wire, 0) == expected
    with serving(data, NEVER) as broker, broker.wire() as wire:
        one.wire = wire
        one.write("t", b"last")
        one.end()
        assert committed(wire, 0) == [*expected, b"last"]
    assert not checked(data).wrong
