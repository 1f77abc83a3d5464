"""The coordinator on a real broker: disks that fail, restarts, strays, ids that run out."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.transactions.transaction import EPOCH_MAX
from headwater.log.checkpoints import DURABLE_OFFSET, LEADER_EPOCHS
from headwater.log.files import Files
from headwater.record import batch as batches
from headwater.testing.clock import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.asking import fetch, produce
from tests.compat.batches import CONTROL, TRANSACTIONAL, batch, read_batches
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

STATE_LOG = "__transaction_state-0/*.log"
T_LOG = "t-0/*.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def disk() -> HandDisk:
    return HandDisk()


@pytest.fixture
def broker(data: Path, disk: HandDisk) -> Iterator[Serving]:
    with serving(data, files=disk, durability="disk") as running:
        running.create("t", 2)
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def markers(wire: Wire, partition: int = 0) -> int:
    answer = fetch(wire, "t", partitions=[partition], max_wait=0)
    return sum(bool(each.attributes & CONTROL) for each in read_batches(answer.records))


def is_stable(wire: Wire, partition: int = 0) -> bool:
    answer = fetch(wire, "t", partitions=[partition], max_wait=0, isolation_level=1)
    return bool(answer.last_stable_offset == answer.high_watermark)


# ---- a disk that fails ---------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_no_marker_is_written_before_the_decision_is_durable(
    wire: Wire, disk: HandDisk, commit: bool
) -> None:
    one = Transactor(wire, "one").init()
    one.write("t", b"a")
    with disk.failing("write", code=errno.ENOSPC, name=STATE_LOG):
        refused = one.ask_end(commit).error_code
        assert refused is ErrorCode.coordinator_not_available
        assert markers(wire) == 0
        assert one.state() == "Ongoing"
    one.end(commit)
    assert markers(wire) == 1


def test_a_batch_whose_addition_was_refused_can_be_sent_again(wire: Wire, disk: HandDisk) -> None:
    one = Transactor(wire, "one").init()
    with disk.failing("write", code=errno.ENOSPC, name=STATE_LOG):
        assert one.produce("t", b"a").error_code is ErrorCode.kafka_storage_error
    refusals = (ErrorCode.kafka_storage_error, ErrorCode.not_enough_replicas)

    def stored() -> bool:
        code = one.produce("t", b"a").error_code
        assert code in (ErrorCode.none, *refusals), code  # the broker may have tried it too early
        return code is ErrorCode.none

    until(stored, "the batch to be taken")
    assert one.described().partitions == {("t", 0)}
    one.retried(lambda: one.ask_end(True).error_code)  # its log may still be read anew
    one.settle()
    assert is_stable(wire)
    assert markers(wire) == 1


def test_an_end_is_finished_when_a_partition_takes_writes_again(
    wire: Wire, broker: Serving, disk: HandDisk
) -> None:
    one = Transactor(wire, "one").init()
    one.write("t", b"a")
    one.write("t", b"b", partition=1)
    with broker.wire() as other, disk.failing("write", code=errno.ENOSPC, name=T_LOG):
        asked = {"transactional_id": "one", "producer_id": one.id, "producer_epoch": one.epoch}
        other.send("end_txn", 5, **asked, committed=True)
        until(lambda: one.state() == "PrepareCommit", "the decision")
        until(lambda: markers(wire, 1) == 1, "the marker that can be written")
        busy = one.ask_end(True).error_code
        assert busy is ErrorCode.concurrent_transactions
    until(lambda: one.state() == "CompleteCommit", "the end")
    assert is_stable(wire)
    assert is_stable(wire, 1)


def test_time_outs_do_not_wait_for_ends_that_cannot_finish(
    wire: Wire, broker: Serving, disk: HandDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hundred ids with one among them took a second."""
    waited: list[float] = []
    wait = asyncio.wait

    def noted(tasks: list[asyncio.Task[None]], *, timeout: float | None = None) -> Any:
        waited.extend([] if timeout is None else [timeout])
        return wait(tasks, timeout=timeout)

    monkeypatch.setattr(asyncio, "wait", noted)
    one = Transactor(wire, "one").init()
    one.write("t", b"a")
    with broker.wire() as other, disk.failing("write", code=errno.ENOSPC, name=T_LOG):
        asked = {"transactional_id": "one", "producer_id": one.id, "producer_epoch": one.epoch}
        other.send("end_txn", 5, **asked, committed=True)
        until(lambda: one.state() == "PrepareCommit", "the decision")
        broker.run(broker.broker.transactions._abort_overdue())
        assert waited == []
        assert one.state() == "PrepareCommit"
    until(lambda: one.state() == "CompleteCommit", "the end")


# ---- restarts ------------------------------------------------------------------------------------


def test_a_transaction_goes_on_after_a_restart(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one").init()
        one.write("t", b"a")
        assert one.send_offsets("g", "t", {0: 7}) is ErrorCode.none
    with serving(data) as broker, broker.wire() as wire:
        one.wire = wire
        assert one.state() == "Ongoing"
        assert not is_stable(wire)
        _, offsets = broker.call(lambda: broker.broker.groups.offsets.fetch("g"))
        assert offsets.is_unstable("t", 0)
        one.write("t", b"b", partition=1)
        one.end()
        assert is_stable(wire)
        _, offsets = broker.call(lambda: broker.broker.groups.offsets.fetch("g"))
        assert offsets.get("t", 0).offset == 7
    with serving(data) as broker:
        _, offsets = broker.call(lambda: broker.broker.groups.offsets.fetch("g"))
        assert offsets.get("t", 0).offset == 7


def test_an_aborted_offset_stays_away_after_a_restart(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t", 1)
        one = Transactor(wire, "one").init()
        one.send_offsets("g", "t", {0: 7})
        one.end(False)
        assert "g" not in broker.broker.groups.groups
    with serving(data) as broker:
        _, offsets = broker.call(lambda: broker.broker.groups.offsets.fetch("g"))
        assert not offsets


def cut_last_batch(folder: Path) -> None:
    """What a crash leaves if the last record never came to the disk."""
    log = max(folder.glob("*.log"))
    found = log.read_bytes()
    last = max(position for position, _ in batches.scan(found))
    log.write_bytes(found[:last])
    (folder / DURABLE_OFFSET).unlink(missing_ok=True)


def copied_without_last_state(data: Path, tmp_path: Path) -> Path:
    """The folder of a running broker as after a crash, without the coordinator's last record."""
    copy = tmp_path / "copy"
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns(".lock"))
    cut_last_batch(copy / "__transaction_state-0")
    return copy


def test_a_batch_without_its_record_joins_its_transaction_at_the_next_start(
    data: Path, tmp_path: Path
) -> None:
    with serving(data, files=Files()) as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one").init()
        one.write("t", b"a")
        copy = copied_without_last_state(data, tmp_path)
    with serving(copy, files=Files()) as broker, broker.wire() as wire:
        one.wire = wire
        assert one.described().partitions == {("t", 0)}
        assert one.produce("t", b"a", sequence=0).base_offset == 0  # a retry
        one.end()
        assert is_stable(wire)


def test_a_transaction_that_nobody_knows_is_aborted_at_the_next_start(
    data: Path, tmp_path: Path
) -> None:
    with serving(data, files=Files()) as broker, broker.wire() as wire:
        broker.create("t", 2)
        Transactor(wire, "one").init().write("t", b"a")
        copy = tmp_path / "copy"
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns(".lock"))
        for _ in range(2):
            cut_last_batch(copy / "__transaction_state-0")
    with serving(copy, files=Files()) as broker, broker.wire() as wire:
        until(lambda: is_stable(wire), "the abort")
        assert markers(wire) == 1


@pytest.mark.parametrize("lost", range(1, 11))
def test_however_many_of_its_records_the_coordinator_has_lost_no_transaction_stays_open(
    data: Path, tmp_path: Path, lost: int
) -> None:
    """The partitions have seen later epochs of the producer than the coordinator knows of."""
    with serving(data, files=Files()) as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one").init()
        for number in range(3):
            one.write("t", b"a")
            one.write("t", b"b", partition=number % 2)
            one.end()
        one.write("t", b"c")
        one.write("t", b"d", partition=1)
        copy = tmp_path / "copy"
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns(".lock"))
        for _ in range(lost):
            cut_last_batch(copy / "__transaction_state-0")
    with serving(copy, files=Files()) as broker, broker.wire() as wire:
        one = Transactor(wire, "one").init()
        until(lambda: is_stable(wire) and is_stable(wire, 1), "every transaction's end")
        one.write("t", b"e")
        one.write("t", b"f", partition=1)
        one.end()
        assert is_stable(wire) and is_stable(wire, 1)


def test_a_coordinator_that_has_lost_its_leader_epochs_still_ends_transactions(
    data: Path, tmp_path: Path
) -> None:
    with serving(data, files=Files()) as broker, broker.wire() as wire:
        broker.create("t", 2)
    for number in range(3):  # each unclean start is an epoch
        copy = tmp_path / f"copy-{number}"
        with serving(data, files=Files()) as broker, broker.wire() as wire:
            one = Transactor(wire, "one").init()
            one.write("t", b"a")
            one.end()
            one.write("t", b"b")
            shutil.copytree(data, copy, ignore=shutil.ignore_patterns(".lock"))
        data = copy
    (data / "__transaction_state-0" / LEADER_EPOCHS).unlink()
    with serving(data, files=Files()) as broker, broker.wire() as wire:
        one = Transactor(wire, "one").init()
        assert is_stable(wire)
        one.write("t", b"c")
        one.end()
        assert is_stable(wire)


def test_a_stray_that_the_disk_refused_to_abort_is_aborted_later(
    data: Path, disk: HandDisk
) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
    with serving(data, settings, files=disk, durability="disk") as broker, broker.wire() as wire:
        broker.create("t")
        partition = broker.broker.topics.partitions["t", 0]

        async def leave_a_stray() -> None:
            content = batch(producer=(999, 3, 0), attributes=TRANSACTIONAL)
            offset = partition.append(content, batches.read_header(content), 0)
            await partition.durable(offset + 1)

        broker.run(leave_a_stray())
        tried = threading.Event()
        disk.on("write", lambda path: tried.set(), T_LOG)
        with disk.failing("write", code=errno.ENOSPC, name=T_LOG):
            broker.call(broker.broker.transactions.hanging.settle)
            assert tried.wait(60)
            assert not is_stable(wire)
        until(lambda: is_stable(wire), "the abort")


def test_a_full_disk_does_not_keep_a_broker_with_strays_from_its_start(
    data: Path, tmp_path: Path, disk: HandDisk
) -> None:
    """Whoever is to delete something to make room needs a broker that runs."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
    with serving(data, files=Files(), durability="os") as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one").init()
        one.write("t", b"a")
        copy = copied_without_last_state(data, tmp_path)
    written: list[Path] = []
    is_full = threading.Event()
    is_full.set()

    def refuse(path: Path) -> None:
        written.append(path)
        if len(written) > 1 and is_full.is_set():  # the first one writes again what was found
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    disk.on("write", refuse, STATE_LOG)
    with serving(copy, settings, files=disk, durability="os") as broker, broker.wire() as wire:
        one.wire = wire
        assert len(written) > 1
        is_full.clear()
        until(lambda: one.described().partitions == {("t", 0)}, "the batch to join again")
        one.end()
        assert is_stable(wire)


# ---- ids and time --------------------------------------------------------------------------------


def test_a_producer_whose_epochs_are_used_up_gets_a_new_id(wire: Wire, broker: Serving) -> None:
    one = Transactor(wire, "one").init()
    first = one.id

    def use_up() -> None:
        known = broker.broker.transactions.transactions["one"]
        broker.broker.transactions.transactions["one"] = replace(known, epoch=EPOCH_MAX - 1)

    broker.call(use_up)
    one.epoch = EPOCH_MAX - 1
    one.write("t", b"a")
    one.end()
    assert one.epoch == 0
    assert one.id != first
    one.write("t", b"b")
    one.end()
    assert is_stable(wire)
    retried = Transactor(wire, "one", id=first, epoch=EPOCH_MAX - 1).ask_end(True)
    assert (
        retried.error_code is ErrorCode.invalid_producer_id_mapping
    )  # two transactions have passed since


def test_a_transactional_id_that_nobody_uses_is_forgotten(data: Path) -> None:
    clock = ManualClock()
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        one = Transactor(wire, "one").init()
        clock.advance(604_800_000)
        broker.call(broker.broker.transactions.forget_expired)
        assert one.described().error is ErrorCode.transactional_id_not_found
    with serving(data) as broker:
        assert not broker.broker.transactions.transactions


def test_a_client_that_leaves_right_after_its_commit_does_not_stop_it(
    wire: Wire, broker: Serving
) -> None:
    one = Transactor(wire, "one").init()
    for number in range(10):
        one.write("t", b"%d" % number)
        one.write("t", b"%d" % number, partition=1)
        with broker.wire() as other:
            asked = {"transactional_id": "one", "producer_id": one.id, "producer_epoch": one.epoch}
            other.send("end_txn", 5, **asked, committed=True)
            until(lambda: one.state() != "Ongoing", "the decision")
        until(lambda: one.state() == "CompleteCommit", "the end")
        one.epoch += 1
        one.sequences.clear()
    assert is_stable(wire)
    assert is_stable(wire, 1)


def test_a_name_that_no_record_can_hold_is_refused(wire: Wire) -> None:
    answer = Transactor(wire, "n" * 32_768).ask_init()
    assert answer.error_code is ErrorCode.invalid_request


# ---- a stranger with the producer's id -----------------------------------------------------------------


def as_stranger(wire: Wire, one: Transactor, partition: int = 0, epoch: int = 1) -> ErrorCode:
    """A plain batch under the id of somebody else, in a later epoch."""
    forged = batch(producer=(one.id, one.epoch + epoch, 0))
    return ErrorCode(produce(wire, "t", forged, partition=partition).error_code)


def committed_count(wire: Wire) -> int:
    answer = fetch(wire, "t", max_wait=0, isolation_level=1)
    return sum(not each.attributes & CONTROL for each in read_batches(answer.records))


def test_a_plain_batch_of_a_later_epoch_is_refused_while_a_transaction_is_open(wire: Wire) -> None:
    one = Transactor(wire, "one", version=1).init()
    one.write("t", b"a")
    assert as_stranger(wire, one) is ErrorCode.invalid_txn_state
    one.end()
    assert committed_count(wire) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_commit_that_was_answered_has_its_markers_whatever_epoch_a_partition_knows(
    data: Path, disk: HandDisk, restarted: bool
) -> None:
    """As a log of before may have it: the stranger's batch lies behind the open transaction."""
    with serving(data, files=disk, durability="disk") as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one", version=1).init()
        one.write("t", b"a")
        forged = batch(producer=(one.id, one.epoch + 3, 0))
        partition = broker.broker.topics.partitions["t", 0]
        broker.call(lambda: partition.append(forged, batches.read_header(forged), 0))
        if not restarted:
            one.end()
            assert committed_count(wire) == 2
            assert is_stable(wire)
            assert partition.log.producers.by_id[one.id].epoch == one.epoch + 3
    with serving(data) as broker, broker.wire() as wire:
        until(lambda: is_stable(wire), "the end of the transaction")
        assert committed_count(wire) == 2, "an aborted batch is sent as well, and named"


def test_a_decided_commit_stays_one_though_a_partition_knows_a_later_epoch(
    data: Path, disk: HandDisk
) -> None:
    with serving(data, files=disk, durability="disk") as broker, broker.wire() as wire:
        broker.create("t", 2)
        one = Transactor(wire, "one", version=1).init()
        one.write("t", b"a")
        assert as_stranger(wire, one, partition=1) is ErrorCode.none
        with disk.held("sync", name=T_LOG) as held:
            wire.send(
                "end_txn",
                4,
                transactional_id="one",
                producer_id=one.id,
                producer_epoch=one.epoch,
                committed=True,
            )
            held.until_reached()
            copy = data.with_name("crashed")
            shutil.copytree(data, copy)
    with serving(copy) as broker, broker.wire() as wire:
        one.wire = wire
        until(lambda: one.state().startswith("Complete"), "the end")
        assert one.state() == "CompleteCommit"
