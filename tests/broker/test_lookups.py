"""Lookups by time: bounded, shared, given up with their client, and in nobody else's way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import READ_THREADS
from headwater.broker.lookups import THREADS
from headwater.log import segment_reader
from headwater.log.partition import PartitionLog
from headwater.log.segment_reader import Found
from headwater.record import codecs, records
from headwater.record.records import Record
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import offset_at, produce
from tests.compat.batches import NOW_MS, batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data) as running:
        running.create("t", 1)
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        times = [NOW_MS, NOW_MS + 10]
        produce(connection, "t", batch([(None, b"a"), (None, b"b")], timestamps=times))
        yield connection


@contextmanager
def busy(threads: Executor, count: int) -> Iterator[None]:
    """All threads of a pool are at work on something that takes long."""
    enough, all_there = threading.Event(), threading.Barrier(count + 1)

    def work() -> None:
        all_there.wait(60)
        enough.wait(60)

    jobs = [threads.submit(work) for _ in range(count)]
    all_there.wait(60)
    try:
        yield
    finally:
        enough.set()
        for job in jobs:
            job.result(60)


def ask_for(wire: Wire, timestamp: int, times: int = 1) -> None:
    part = {"partition_index": 0, "timestamp": timestamp}
    wire.send(
        "list_offsets", 8, replica_id=-1, topics=[{"name": "t", "partitions": [part] * times}]
    )


def under_way(broker: Serving) -> int:
    return broker.call(lambda: len(broker.broker.lookups))


def test_a_partition_that_is_asked_for_twice_is_refused_as_in_kafka(wire: Wire) -> None:
    ask_for(wire, NOW_MS, times=200)
    (topic,) = wire.receive()[1].topics
    assert {part.error_code for part in topic.partitions} == {ErrorCode.invalid_request}
    assert offset_at(wire, "t", NOW_MS + 1).offset == 1


def test_those_who_ask_for_the_same_wait_for_one_lookup(broker: Serving, wire: Wire) -> None:
    clients = [Wire(broker.bootstrap) for _ in range(20)]
    with busy(broker.broker.lookups.threads, THREADS):
        for each in clients:
            ask_for(each, NOW_MS + 5)
        until(lambda: under_way(broker) == 1, "a lookup")
    answers = [each.receive()[1].topics[0].partitions[0].offset for each in clients]
    assert answers == [1] * len(clients)
    for each in clients:
        each.close()


def test_who_asks_behind_a_record_that_was_acknowledged_finds_it(
    broker: Serving, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though somebody has asked for the same before it was written, and still waits for the answer."""
    looked, end, find_time = threading.Event(), threading.Event(), PartitionLog.find_time

    def slow(log: PartitionLog, *arguments: Any) -> Found | None:
        found = find_time(log, *arguments)
        if not looked.is_set():
            looked.set()
            end.wait(60)
        return found

    monkeypatch.setattr(PartitionLog, "find_time", slow)
    with broker.wire() as early:
        ask_for(early, NOW_MS + 50)
        assert looked.wait(60)
        try:
            stored = produce(wire, "t", batch([(None, b"c")], timestamps=[NOW_MS + 100]))
            assert offset_at(wire, "t", NOW_MS + 50).offset == stored.base_offset == 2
        finally:
            end.set()
        assert early.receive()[1].topics[0].partitions[0].offset == -1
    until(lambda: not under_way(broker), "nothing to be under way")


def test_what_nobody_waits_for_is_not_begun(broker: Serving, wire: Wire) -> None:
    clients = [Wire(broker.bootstrap) for _ in range(20)]
    with busy(broker.broker.lookups.threads, THREADS):
        for number, each in enumerate(clients):
            ask_for(each, NOW_MS - number)
        until(lambda: under_way(broker) == len(clients), "as many lookups as clients")
        for each in clients:
            each.close()
        until(lambda: under_way(broker) == 0, "no lookup, though no thread is free")
    assert not broker.call(lambda: broker.broker.partition("t", 0).cold_reads)
    until(lambda: not broker.call(lambda: broker.broker.memory.used["requests"]), "their memory")
    assert offset_at(wire, "t", NOW_MS + 1).offset == 1


def test_who_asks_in_the_turn_in_which_another_gives_up_is_answered(
    broker: Serving, wire: Wire
) -> None:
    lookups, partition = broker.broker.lookups, broker.broker.partition("t", 0)

    async def both() -> Found | None:
        first = asyncio.ensure_future(lookups.find(partition, NOW_MS + 5, "127.0.0.1"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)  # it has given up, and nobody has heard of its job's end
        return await lookups.find(partition, NOW_MS + 5, "127.0.0.1")

    with busy(lookups.threads, THREADS):
        second = broker.begin(both())
        until(lambda: under_way(broker) == 1, "the second to ask")
    assert second.result(60) == Found(NOW_MS + 10, 1)


def test_nobody_waits_for_all_that_a_stranger_has_asked_for(broker: Serving, wire: Wire) -> None:
    lookups, partition = broker.broker.lookups, broker.broker.partition("t", 0)
    answered: list[str] = []

    async def ask(address: str, timestamp: int) -> None:
        await lookups.find(partition, timestamp, address)
        answered.append(address)

    async def all_of_them() -> None:
        many = [ask("10.0.0.1", NOW_MS - number) for number in range(40)]
        await asyncio.gather(*many, ask("10.0.0.2", NOW_MS + 5))

    with busy(lookups.threads, THREADS):
        asking = broker.begin(all_of_them())
        until(lambda: under_way(broker) == 41, "all to be asked for")
    asking.result(60)
    assert len(answered) == 41
    assert answered.index("10.0.0.2") < 10
    assert broker.call(lambda: lookups._at_work) == 0


def test_who_asks_where_little_is_decompressed_waits_for_few_that_ask_where_much_is(
    broker: Serving, wire: Wire
) -> None:
    """Of the same address: what a lookup in a log takes is known from the last one."""
    broker.create("large", 1)
    much = batch([(None, bytes(900_000))], attributes=codecs.GZIP)
    assert produce(wire, "large", much).error_code is ErrorCode.none
    lookups = broker.broker.lookups
    small, large = broker.broker.partition("t", 0), broker.broker.partition("large", 0)
    answered: list[int] = []

    async def ask(partition: Any, timestamp: int) -> None:
        await lookups.find(partition, timestamp, "10.0.0.1")
        answered.append(timestamp)

    async def all_of_them() -> None:
        many = [ask(large, number) for number in range(40)]
        await asyncio.gather(*many, ask(small, NOW_MS + 5))

    broker.run(ask(large, 0))
    answered.clear()
    with busy(lookups.threads, THREADS):
        asking = broker.begin(all_of_them())
        until(lambda: under_way(broker) == 41, "all to be asked for")
    asking.result(60)
    assert answered.index(NOW_MS + 5) < 10


def test_who_asks_for_what_a_stranger_waits_for_waits_in_its_own_line(
    broker: Serving, wire: Wire
) -> None:
    lookups, partition = broker.broker.lookups, broker.broker.partition("t", 0)
    answered: list[str] = []

    async def ask(address: str, timestamp: int) -> None:
        await lookups.find(partition, timestamp, address)
        answered.append(address)

    async def all_of_them() -> None:
        many = [ask("10.0.0.1", NOW_MS - number) for number in range(40)]
        waits = asyncio.gather(*many, ask("10.0.0.2", NOW_MS - 39))
        gone = asyncio.ensure_future(ask("10.0.0.3", NOW_MS - 39))
        await asyncio.sleep(0)
        gone.cancel()
        await waits

    with busy(lookups.threads, THREADS):
        asking = broker.begin(all_of_them())
        until(lambda: under_way(broker) == 40, "all to be asked for")
    asking.result(60)
    assert len(answered) == 41
    assert answered.index("10.0.0.2") < 10
    assert broker.call(lambda: (lookups._at_work, len(lookups._queue), len(lookups))) == (0, 0, 0)
    assert not broker.call(lambda: partition.cold_reads)


def test_topics_are_made_and_records_deleted_while_all_readers_are_busy(
    broker: Serving, wire: Wire
) -> None:
    inside = broker.broker
    with busy(inside.lookups.threads, THREADS), busy(inside.executor, READ_THREADS):
        create(wire, "u")
        wanted = [{"partition_index": 0, "offset": 1}]
        deleted = wire.ask(
            "delete_records", 2, topics=[{"name": "t", "partitions": wanted}], timeout=9000
        )
        assert deleted.topics[0].partitions[0].low_watermark == 1
        broker.run(inside.disk_space.watch(inside.duties))


def test_what_a_lookup_decompresses_counts_while_it_holds_it(broker: Serving, wire: Wire) -> None:
    size = 1_000_000
    rows = [Record(0, NOW_MS + 100, None, bytes(size)), Record(1, NOW_MS + 200, None, b"")]
    broker.create("big", 1)
    assert produce(wire, "big", bytes(records.build(rows, codec=codecs.GZIP))).error_code == 0
    held: list[int] = []
    log = broker.log("big")
    assert log.find_time(NOW_MS + 150, held.append) == segment_reader.Found(NOW_MS + 200, 1)
    assert held and held[0] > size
    assert offset_at(wire, "big", NOW_MS + 150).offset == 1
    until(lambda: not broker.call(lambda: broker.broker.memory.used["payloads"]), "its memory")


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.GZIP])
def test_times_are_those_of_the_records(codec: int) -> None:
    rows: list[Any] = [
        Record(n, NOW_MS + (n * 7919) % 1000 - 500, b"k" * (n % 200), b"v" * n, (("h", b"x"),))
        for n in range(300)
    ]
    data = bytes(records.build(rows, codec=codec))
    header = records.batches.read_header(data)
    found = list(records.times(records.payload(data, header), header))
    assert found == [(each.offset, each.timestamp) for each in records.decode(data)]
