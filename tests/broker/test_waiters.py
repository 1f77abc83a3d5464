"""Whoever waits for a partition is told for itself: one that fails keeps nobody else from an answer."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import disk, partition, turns
from headwater.broker.partition import WAITERS, Partition
from headwater.log.partition import PartitionLog
from headwater.record import batch as batches
from headwater.record import records
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, delete, serving
from tests.broker.transactions.test_compacted import transactional
from tests.compat.asking import fetch_request, produce, produce_request
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire

T_LOG = "t-0/*.log"


class Faulty:
    """Waits for a partition, and fails when it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def done(self, error: Exception | None) -> None:
        self.told.append(error)
        raise KeyError("a waiter's own fault")

    def grew(self, size: int, partition: Partition) -> None:
        self.told.append(size)
        raise KeyError("a watcher's own fault")


def of(broker: Serving, name: str = "t", number: int = 0) -> Partition:
    found = broker.broker.partition(name, number)
    assert found is not None
    return found


def send(wire: Wire) -> None:
    wire.send("produce", 9, **produce_request("t", batch([(None, b"value")])))


def code(wire: Wire) -> ErrorCode:
    found: ErrorCode = wire.receive()[1].responses[0].partition_responses[0].error_code
    return found


def put(wire: Wire) -> ErrorCode:
    found: ErrorCode = produce(wire, "t", batch()).error_code
    return found


def failures(broker: Serving, name: str = WAITERS) -> int:
    return broker.call(lambda: broker.broker.health.task(name).failures)


def appended(broker: Serving, count: int) -> Callable[[], bool]:
    return lambda: broker.call(lambda: of(broker).log.next_offset) == count


def stage_with(broker: Serving, faulty: Faulty) -> None:
    """A batch whose waiter will fail."""
    data = records.build([records.Record(0, 1, None, b"mine")])

    def stage() -> None:
        offset = of(broker).append(data, batches.read_header(data), 1)
        of(broker).when_durable(offset + 1, faulty.done)

    broker.call(stage)


@pytest.mark.parametrize("code_of_disk", [None, errno.ENOSPC], ids=["written", "refused"])
def test_a_waiter_that_fails_keeps_nobody_from_an_answer(
    data: Path, code_of_disk: int | None
) -> None:
    hand, faulty = HandDisk(), Faulty()
    with serving(data, files=hand) as broker, broker.wire() as first, broker.wire() as last:
        create(first, "t")
        with ExitStack() as stack:
            with hand.held("write", name=T_LOG) as at_disk:
                send(first)  # is at the disk, while the others gather behind it
                at_disk.until_reached()
                stage_with(broker, faulty)
                send(last)
                until(appended(broker, 3), "all to wait for the disk")
                if code_of_disk is not None:
                    stack.enter_context(hand.failing("write", code=code_of_disk, name=T_LOG))
            refused = ErrorCode.kafka_storage_error
            assert code(first) is ErrorCode.none
            assert code(last) is (ErrorCode.none if code_of_disk is None else refused)
        assert len(faulty.told) == 1
        assert failures(broker) == 1
        until(lambda: put(first) is ErrorCode.none, "the partition to go on")
        assert put(last) is ErrorCode.none


def test_a_watcher_that_fails_keeps_nobody_from_reading(data: Path) -> None:
    faulty = Faulty()
    with serving(data) as broker, broker.wire() as reader, broker.wire() as writer:
        create(writer, "t")
        broker.call(lambda: of(broker).watchers.add(faulty))
        reader.send("fetch", 12, **fetch_request("t", 0, max_wait=60_000))
        until(lambda: broker.call(lambda: len(of(broker).watchers)) == 2, "the reader to wait")
        assert put(writer) is ErrorCode.none
        assert reader.receive()[1].responses[0].partitions[0].records
        until(lambda: failures(broker) == 1, "the other watcher to be told")
        assert faulty.told
        broker.call(lambda: of(broker).watchers.discard(faulty))


@pytest.mark.parametrize("cold", [False, True], ids=["from memory", "from the disk"])
def test_a_read_that_fails_costs_one_connection_and_is_counted(data: Path, cold: bool) -> None:
    hand = HandDisk()
    with serving(data, files=hand) as broker, broker.wire() as reader, broker.wire() as writer:
        create(writer, "t")
        reader.send("fetch", 12, **fetch_request("t", 0, max_wait=60_000))
        until(lambda: broker.call(lambda: len(of(broker).watchers)) == 1, "the reader to wait")

        def fails(*_: Any, within: object = None, **__: Any) -> None:
            if within is not None and cold:
                return
            raise TypeError("an error of ours")

        log = broker.call(lambda: of(broker).log)
        log.read = fails  # type: ignore[assignment]
        assert put(writer) is ErrorCode.none, "whoever wrote has nothing to do with it"
        with pytest.raises(ConnectionClosed):
            reader.receive()
        del log.read
        assert failures(broker, "Fetch") == 1
        with broker.wire() as again:
            again.send("fetch", 12, **fetch_request("t", 0))
            assert again.receive()[1].responses[0].partitions[0].records
        assert broker.call(lambda: broker.broker.health.task("Fetch").failures_in_a_row) == 0


def test_many_who_wait_are_told_in_several_turns_and_none_is_forgotten(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (disk, partition, turns):
        monkeypatch.setattr(module, "TURN_S", -1.0)  # one in each turn
    hand = HandDisk()
    with serving(data, files=hand) as broker, broker.wire() as one, broker.wire() as two:
        create(one, "t")
        for _ in range(20):
            send(one)
            send(two)
        assert [code(wire) for wire in (one, two) for _ in range(20)] == [ErrorCode.none] * 40
        assert broker.call(lambda: of(broker).log.durable_offset) == 40


def test_many_who_wait_for_a_topic_that_is_deleted_hear_of_it_in_several_turns(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []

    class Watcher:
        def grew(self, size: int, partition: Partition) -> None:
            turns.append(turn[0])
            partition.watchers.discard(self)

    turn = [0]
    monkeypatch.setattr(partition, "TURN_S", -1.0)  # one in each turn
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        watched = of(broker)
        soon = watched._supervisor.soon

        def counted(*arguments: Any) -> Any:
            turn[0] += 1
            return soon(*arguments)

        monkeypatch.setattr(watched._supervisor, "soon", counted)
        broker.call(lambda: watched.watchers.update(Watcher() for _ in range(10)))
        delete(wire, "t")
        until(lambda: len(turns) == 10, "all to hear of it")
    assert len(set(turns)) == 10


def test_what_is_durable_is_not_refused_because_a_later_write_fails(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "TURN_S", -1.0)
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        told: list[Exception | None] = []

        def fail_before_all_are_told() -> None:
            part = of(broker)
            for _ in range(3):
                part._waiting.append((0, told.append))
            part._tell()
            assert len(told) == 1
            part._write_failed(OSError(errno.ENOSPC, "no room"))

        broker.call(fail_before_all_are_told)
        until(lambda: len(told) == 3, "all to be told")
        assert told == [None, None, None]


def test_a_partition_that_grows_costs_those_who_wait_for_many_a_look_at_this_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    stable = PartitionLog.last_stable_offset
    with serving(data) as broker, broker.wire() as writer, broker.wire() as reader:
        broker.create("many", 200)
        holder = transactional(broker, "holder")
        holder.begin_transaction()
        holder.produce("many", b"held back", partition=0)
        holder.flush(30)
        request = fetch_request(
            "many", 0, partitions=range(200), max_wait=30_000, min_bytes=10_000, isolation_level=1
        )
        reader.send("fetch", 12, **request)
        until(lambda: broker.call(lambda: len(of(broker, "many", 5).watchers)), "the wait")
        monkeypatch.setattr(
            PartitionLog, "last_stable_offset", lambda log: looks.append(1) or stable(log)
        )
        for _ in range(10):
            produce(writer, "many", batch([(None, b"v")]), partition=5)
        assert len(looks) < 100
        holder.abort_transaction(30)
