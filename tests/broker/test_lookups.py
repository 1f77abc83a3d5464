"""Lookups by time: bounded, shared, given up with their client, and in nobody else's way."""

from __future__ import annotations

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
