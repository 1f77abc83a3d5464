"""What a transaction's end was said to be, it is: whoever decides looks and writes in one step."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.broker.transactions import transitions
from headwater.broker.transactions.transaction import State, Transaction
from headwater.broker.transactions.transitions import Producer
from headwater.testing.clock import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode

INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time.time_ns() // 1_000_000)


@pytest.fixture
def disk() -> HandDisk:
    return HandDisk()


@pytest.fixture
def broker(tmp_path: Path, clock: ManualClock, disk: HandDisk) -> Iterator[Serving]:
    settings = {INTERVAL: 50, "transaction.state.log.num.partitions": 4}
    with serving(
        tmp_path / "data", settings, clock=clock, files=disk, durability="disk"
    ) as running:
        running.create("t", 2)
        yield running


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_time_out_never_overwrites_an_end_that_was_accepted(
    broker: Serving,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    commit: bool,
    version: int,
) -> None:
    coordinator = broker.broker.transactions
    ends: list[asyncio.Future[tuple[ErrorCode, Producer]]] = []
    looks = transitions.is_overdue

    def look_and_let_the_producer_end_it(known: Transaction, now_ms: int) -> bool:
        overdue = looks(known, now_ms)
        if overdue and not ends:
            producer = Producer(known.producer_id, known.epoch)
            ends.append(asyncio.ensure_future(coordinator.end(known.id, producer, commit, version)))
        return overdue

    with broker.wire() as wire:
        one = Transactor(wire, "one").init()
        one.write("t", b"a")
        monkeypatch.setattr(transitions, "is_overdue", look_and_let_the_producer_end_it)
        clock.advance(3_600_000)
        until(lambda: bool(ends) and ends[0].done(), "the producer's end")
        error, _ = ends[0].result()
        until(lambda: one.state().startswith("Complete"), "the end")
        said = "CompleteCommit" if commit else "CompleteAbort"
        if error is ErrorCode.none:
            assert one.state() == said
        else:
            assert one.state() == "CompleteAbort"


def test_a_disk_that_refuses_one_id_takes_no_other_ids_decision_back(
    broker: Serving, disk: HandDisk
) -> None:
    """`one` is being committed in its partition of the state topic, while another's fails."""
    coordinator = broker.broker.transactions
    with broker.wire() as wire, broker.wire() as other_wire:
        one = Transactor(wire, "one").init()
        one.write("t", b"a")
        place = broker.call(lambda: coordinator._store.partition_of("one").number)
        name = next(
            name
            for name in map(str, range(1000))
            if broker.call(lambda name=name: coordinator._store.partition_of(name).number) != place
        )
        other = Transactor(other_wire, name).init()
        elsewhere = broker.call(lambda: coordinator._store.partition_of(name).number)
        with disk.held("sync", f"__transaction_state-{place}/*.log") as held:
            asked = {"transactional_id": "one", "producer_id": one.id, "producer_epoch": one.epoch}
            wire.send("end_txn", 5, **asked, committed=True)
            held.until_reached()
            failing = disk.failing(
                "write", code=errno.ENOSPC, name=f"__transaction_state-{elsewhere}/*.log"
            )
            with failing:
                assert other.produce("t", b"b", partition=1).error_code is not ErrorCode.none
            known = broker.call(lambda: coordinator.transactions["one"])
            assert known.state is State.PREPARE_COMMIT, "a new producer could abort it now"
            held.release()
        assert wire.receive()[1].error_code is ErrorCode.none
        assert broker.call(lambda: coordinator.transactions["one"].state) is State.COMPLETE_COMMIT


def test_a_refused_value_takes_no_other_with_it_though_its_log_cannot_be_read_either(
    broker: Serving, disk: HandDisk
) -> None:
    """Without descriptors, say. Who was forgotten would begin anew, and what it had open be aborted."""
    coordinator = broker.broker.transactions
    with broker.wire() as wire, broker.wire() as other_wire:
        one = Transactor(wire, "one").init()
        one.write("t", b"a")
        place = broker.call(lambda: coordinator._store.partition_of("one").number)
        name = next(
            name
            for name in map(str, range(1000))
            if broker.call(lambda name=name: coordinator._store.partition_of(name).number) == place
        )
        other = Transactor(other_wire, name).init()
        before = broker.call(lambda: dict(coordinator.transactions))
        with disk.failing("write", "read", name=f"__transaction_state-{place}/*.log"):
            assert other.produce("t", b"b", partition=1).error_code is not ErrorCode.none
            assert broker.call(lambda: dict(coordinator.transactions)) == before
        one.retried(lambda: one.ask_end(True).error_code)
        assert one.state() == "CompleteCommit"
        other.retried(lambda: other.produce("t", b"b", partition=1).error_code)
        other.retried(lambda: other.ask_end(True).error_code)


def test_a_refused_value_goes_back_to_the_newest_that_is_durable(
    broker: Serving, disk: HandDisk
) -> None:
    """Two are on their way, and the disk takes the first of them alone."""
    state = broker.broker.transactions.state
    with broker.wire() as wire:
        one = Transactor(wire, "one").init()
        one.write("t", b"a")
        place = broker.call(lambda: state.store.partition_of("one").number)
        log = f"__transaction_state-{place}/*.log"
        first = broker.call(lambda: state.values["one"])
        second = replace(first, timeout_ms=first.timeout_ms + 1)
        third = replace(first, timeout_ms=first.timeout_ms + 2)
        with disk.held("sync", log) as held:
            broker.call(lambda: state.change("one", first, second))
            held.until_reached()
            broker.call(lambda: state.change("one", second, third))
            with disk.failing("write", code=errno.ENOSPC, name=log):
                held.release()
                until(lambda: state.written("one") is None, "the disk's answer")
                assert broker.call(lambda: state.values["one"]) == second
