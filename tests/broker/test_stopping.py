"""SIGTERM: what is under way is answered, everything is on disk, and the next start has nothing to mend."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import socket
import struct
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest

from headwater.broker import turns
from headwater.broker.api import k01_fetch
from headwater.broker.connection import Connection
from tests.broker.disks import HandDisk
from tests.broker.processes import broker_process
from tests.broker.serving import create, serving
from tests.compat.asking import Member, fetch_request, produce, produce_request, read_all
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import AT_ONCE_SECONDS, LONG_MS, until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire, encode

SLOW = ("-m", "tests.broker.slow_disk", "0.5")
CLEAN = ".kafka_cleanshutdown"


def test_requests_that_wait_for_the_disk_are_answered_before_it_ends(data: Path) -> None:
    with broker_process(data, program=SLOW) as process:
        with process.wire() as wire:
            create(wire, "t")
        wires = [Wire(process.bootstrap) for _ in range(5)]
        for wire in wires:
            for _ in range(3):
                wire.send("produce", 9, **produce_request("t", batch()))
        with process.wire() as other:
            other.ask("metadata", 12, topics=[])  # theirs were there first: they have begun
        process.signal(signal.SIGTERM)
        rows = [
            wire.receive()[1].responses[0].partition_responses[0]
            for wire in wires
            for _ in range(3)
        ]
        assert {row.error_code for row in rows} == {ErrorCode.none}
        assert sorted(row.base_offset for row in rows) == list(range(15))
        for wire in wires:
            with pytest.raises(ConnectionClosed):
                wire.receive_bytes()
            wire.close()
        assert process.ended() == 0
    with serving(data) as broker, broker.wire() as wire:
        assert len(read_all(wire, "t")) == 15


def test_those_who_wait_for_something_to_happen_are_answered_at_once(data: Path) -> None:
    with broker_process(data) as process, process.wire() as reader, process.wire() as member:
        create(reader, "t")
        reader.send("fetch", 12, **fetch_request("t", max_wait=LONG_MS))
        first = Member(member, "g", rebalance_timeout=LONG_MS, session_timeout=60_000)
        assert first.join().error_code is ErrorCode.none
        first.send_sync({})
        assert member.receive()[1].error_code is ErrorCode.none
        with process.wire() as other:
            second = Member(other, "g", rebalance_timeout=LONG_MS, session_timeout=60_000)
            second.send_join()
            second.receive_join()  # its member id
            second.send_join()  # waits until the first comes back
            first.until_heartbeat(ErrorCode.rebalance_in_progress)
            begin = time.monotonic()
            process.signal(signal.SIGTERM)
            assert not (reader.receive()[1].responses[0].partitions[0].records or b"")
            assert other.receive()[1].error_code is not ErrorCode.none
            assert process.ended() == 0
            assert time.monotonic() - begin < AT_ONCE_SECONDS


def test_a_large_answer_is_sent_to_its_end(data: Path) -> None:
    with broker_process(data, words=["--durability=os"]) as process, process.wire() as wire:
        create(wire, "t")
        for _ in range(20):
            produce(wire, "t", batch([(None, bytes(1_000_000))]))
        wire.send("fetch", 12, **fetch_request("t", partition_max_bytes=30_000_000))
        with process.wire() as other:
            other.ask("metadata", 12, topics=[])  # the fetch was there first: it has begun
        process.signal(signal.SIGTERM)
        until(lambda: not _accepts(process.bootstrap), "the broker to be stopping")
        answer = wire.receive()[1].responses[0].partitions[0]
        assert len(read_batches(answer.records)) == 20
        assert process.ended() == 0


def _accepts(bootstrap: str) -> bool:
    try:
        Wire(bootstrap).close()
    except OSError:
        return False
    return True


def test_a_second_signal_changes_nothing(data: Path) -> None:
    with broker_process(data, program=SLOW) as process, process.wire() as wire:
        create(wire, "t")
        wire.send("produce", 9, **produce_request("t", batch()))
        with process.wire() as other:
            other.ask("metadata", 12, topics=[])
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGTERM)
        assert wire.receive()[1].responses[0].partition_responses[0].error_code is ErrorCode.none
        assert process.ended() == 0


def test_stopping_in_the_middle_of_heavy_traffic_loses_nothing_acknowledged(data: Path) -> None:
    acknowledged: list[int] = []

    def work(bootstrap: str, partition: int) -> None:
        wire = Wire(bootstrap)
        try:
            while True:
                row = produce(wire, "t", batch([(None, bytes(500))] * 10), partition=partition)
                assert row.error_code is ErrorCode.none, "refused, though it was taken"
                acknowledged.append(partition)
        except (ConnectionClosed, ConnectionError):
            wire.close()

    with broker_process(data) as process:
        with process.wire() as wire:
            create(wire, "t", 4)
        threads = [
            threading.Thread(target=work, args=(process.bootstrap, n), daemon=True)
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) > 200, "some traffic")
        assert process.stop() == 0, process.said
        for thread in threads:
            thread.join()
        assert "Traceback" not in process.said
    with serving(data) as broker:
        for partition in range(4):
            stored = broker.log("t", partition).durable_offset
            assert stored >= 10 * acknowledged.count(partition)


def test_a_start_after_a_clean_stop_reads_no_data(data: Path) -> None:
    with broker_process(data) as process, process.wire() as wire:
        create(wire, "t", 3, internal_segment_bytes=5000)
        for number in range(60):
            produce(wire, "t", batch([(None, bytes(700))]), partition=number % 3)
        assert not (data / CLEAN).exists()
        assert process.stop() == 0
    assert json.loads((data / CLEAN).read_text())["version"] == 0
    disk, read = HandDisk(), []
    disk.on("read", read.append, "*.log")
    with serving(data, files=disk) as broker:
        assert not (data / CLEAN).exists(), "a crash from now on is no clean stop"
        reports = broker.broker.store.reports
        assert {(each.scanned_bytes, each.cut_bytes) for each in reports.values()} == {(0, 0)}
        # A few headers to find the end of each log: no more for many segments than for one.
        assert len([path for path in read if path.parent.name == "t-0"]) <= 4
        assert {broker.log("t", n).epoch for n in range(3)} == {0}
        with broker.wire() as wire:
            assert len(read_all(wire, "t")) == 20


def test_a_start_after_a_kill_scans_and_raises_the_epoch(data: Path) -> None:
    with broker_process(data) as process, process.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch())
        process.kill()
    with serving(data) as broker, broker.wire() as wire:
        assert broker.log("t").epoch == 1
        assert len(read_all(wire, "t")) == 1
        produce(wire, "t", batch())
        assert [each.leader_epoch for each in read_all(wire, "t")] == [0, 1]


def test_a_client_that_does_not_read_keeps_nothing_open_and_nobody_waiting(data: Path) -> None:
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always")
        with serving(data, durability="os") as broker:
            broker.create("t")
            deaf = Wire(broker.bootstrap)
            with broker.wire() as wire:
                for _ in range(20):
                    produce(wire, "t", batch([(None, bytes(1_000_000))]))
                deaf.send("fetch", 12, **fetch_request("t", partition_max_bytes=30_000_000))
                wire.ask("metadata", 12, topics=[])
            begin = time.monotonic()
        assert time.monotonic() - begin < AT_ONCE_SECONDS
        deaf.close()
        del broker
        gc.collect()
    assert not [str(each.message) for each in left]


def test_a_client_that_resets_its_connection_meanwhile_does_not_keep_the_broker_from_stopping(
    data: Path,
) -> None:
    """Nobody reads any more when it goes, so that the end of stream is the first to meet it."""
    with serving(data) as broker:
        host, port = broker.bootstrap.split(":")
        client = socket.create_connection((host, int(port)))
        connections = broker.broker.connections
        until(lambda: broker.call(lambda: len(connections)) == 1, "a connection")
        broker.call(lambda: [each.drain() for each in connections])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert broker.broker.stopped_cleanly


def test_a_client_that_goes_on_sending_while_it_stops_keeps_its_answers(data: Path) -> None:
    """Nobody takes what it sends, so nobody may read it: there is no room for it in the end."""
    with serving(data) as broker, broker.wire() as wire:
        request = encode(ApiVersionsRequest(), 1)
        (connection,) = until(lambda: broker.call(lambda: set(broker.broker.connections)), "it")
        broker.call(lambda: setattr(broker.broker, "stopping", True))
        wire.send_unframed((struct.pack(">i", len(request)) + request) * 20_000)
        until(lambda: connection.inbound.is_paused or connection.is_closing, "an end of reading")
        assert not connection.is_closing
        tasks = broker.broker.health.tasks
        assert not [name for name, task in tasks.items() if task.failures]


def test_very_many_clients_are_not_sent_away_in_one_turn(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, at_once, turn = 15, 3, [0]
    drained: Counter[int] = Counter()
    finished: Counter[int] = Counter()
    woken: Counter[int] = Counter()

    async def count_turns() -> None:
        while finished.total() < many:
            turn[0] += 1
            await asyncio.sleep(0)

    def counted(function: Callable[..., object], count: Counter[int]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            count[turn[0]] += 1
            return function(*arguments)

        return call

    fetch = k01_fetch._Fetch
    monkeypatch.setattr(turns, "TURN_S", -1.0)  # no time is enough
    monkeypatch.setattr(turns, "LOOKS_AT_ONCE", at_once)
    monkeypatch.setattr(Connection, "drain", counted(Connection.drain, drained))
    monkeypatch.setattr(fetch, "_wake", counted(fetch._wake, woken))
    monkeypatch.setattr(Connection, "finish", counted(Connection.finish, finished))
    with serving(data) as broker:
        broker.create("t")
        wires = [Wire(broker.bootstrap) for _ in range(many)]
        for wire in wires:
            wire.send("fetch", 12, **fetch_request("t", max_wait=LONG_MS))
        waiting = broker.broker.sessions.waiting
        until(lambda: broker.call(lambda: len(waiting)) == many, "all to wait")
        broker.begin(count_turns())
        for wire in wires:
            threading.Thread(target=_taken, args=(wire,)).start()
    for counts in (drained, woken, finished):
        assert counts.total() == many
        assert max(counts.values()) <= at_once


def _taken(wire: Wire) -> None:
    assert wire.receive()[1].error_code is ErrorCode.none
    with pytest.raises(ConnectionClosed):
        wire.receive_bytes()
    wire.close()


def test_a_stop_closes_partitions_side_by_side(data: Path) -> None:
    """Each waits for the disk a few times: one after the other, thousands would take minutes."""
    hand, meet = HandDisk(), threading.Barrier(2)
    with serving(data, files=hand) as broker:
        broker.create("t", 2)
        with broker.wire() as wire:
            for number in (0, 1):
                assert produce(wire, "t", batch(), partition=number).error_code is ErrorCode.none
        hand.on("sync", lambda path: meet.wait(AT_ONCE_SECONDS), "*/t-?/*.index")
    assert (data / CLEAN).exists()
