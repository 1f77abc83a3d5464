"""Many dead letters at once, of batches that are small only while they are compressed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.broker.shares import dead_records, deadletters
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.broker.shares.records import Key
from headwater.broker.shares.state import WHOLE_BATCH_MAX, Ack, Acknowledgement, Batch
from headwater.log import replay
from headwater.record import batch as batches
from headwater.record import codecs, records
from headwater.testing import ManualClock

BATCHES, EACH, VALUE_BYTES = 12, 20, 900_000
LIMIT = 80 * 1024**2
"""A few times what one batch becomes; all of them together are more than twice as much."""


def running(data: Path) -> Broker:
    return Broker(data, "127.0.0.1:0", {}, clock=ManualClock())


async def filled(
    node: Broker, count: int, each: int, value: bytes
) -> tuple[PartitionOwner, list[Batch]]:
    """A share group that begins at the first of so many compressed batches."""
    await node.topics.create("t", 1, {})
    partition, found = node.topics.partitions["t", 0], list[Batch]()
    for _ in range(count):
        rows = [records.Record(n, 1, b"k%d" % n, value) for n in range(each)]
        data = records.build(rows, codec=codecs.ZSTD)
        first = partition.append(data, batches.read_header(data), 1)
        await partition.durable(first + each)
        found.append(Batch(first, first + each - 1))
    owner = node.shares.owner(Key("g", node.catalogue.topics["t"].id, 0), "t")
    await owner.reset(0)
    return owner, found


def letters(node: Broker) -> list[records.Record]:
    log = node.topics.partitions["dlq.g", 0].log
    return list(dead_records.read(log, 0, log.durable_offset - 1))


async def test_they_are_not_all_held_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        owner, found = await filled(node, BATCHES, EACH, b"x" * VALUE_BYTES)
        owner.acquire("m", found, 0, 2000, 500, False)
        rejected = [Acknowledgement(0, BATCHES * EACH - 1, [Ack.REJECT])]
        tracemalloc.start()
        try:
            assert await owner.acknowledge("m", rejected) == (ErrorCode.none, None)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < LIMIT
        log = node.topics.partitions["dlq.g", 0].log
        assert log.durable_offset == BATCHES * EACH
        assert log.size() < LIMIT, "what came compressed is kept compressed"


async def test_nor_are_those_of_one_batch_that_has_very_many(tmp_path: Path) -> None:
    count, limit = 3 * WHOLE_BATCH_MAX, 12 * 1024**2
    async with running(tmp_path) as node:
        owner, found = await filled(node, 1, count, b"")
        tracemalloc.start()
        try:
            for first in range(0, count, WHOLE_BATCH_MAX):
                taken = owner.acquire("m", found, first, 2000, 500, False)
                rejected = [Acknowledgement(first, taken[-1].last, [Ack.REJECT])]
                assert await owner.acknowledge("m", rejected) == (ErrorCode.none, None)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < limit
        assert node.topics.partitions["dlq.g", 0].log.durable_offset == count


async def test_headers_count_in_what_is_written_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.topics.create("t", 1, {})
        partition, long = node.topics.partitions["t", 0], (("name", bytes(200_000)),)
        rows = [records.Record(n, 1, b"k", b"", long) for n in range(20)]
        data = records.build(rows, codec=codecs.ZSTD)
        await partition.durable(partition.append(data, batches.read_header(data), 1) + 20)
        owner = node.shares.owner(Key("g", node.catalogue.topics["t"].id, 0), "t")
        await owner.reset(0)
        owner.acquire("m", [Batch(0, 19)], 0, 2000, 500, False)
        told = [Acknowledgement(0, 19, [Ack.REJECT])]
        assert await owner.acknowledge("m", told) == (ErrorCode.none, None)
        log = node.topics.partitions["dlq.g", 0].log
        sizes = [len(batches.payload(data)) for _, data in replay.intact(log, 0, print)]
        assert len(letters(node)) == 20
        assert max(sizes) < 2 * deadletters.BATCH_BYTES


async def test_each_is_there_once_and_in_order_whatever_lies_between(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        owner, found = await filled(node, 3, 100, b"v")
        owner.acquire("m", found, 0, 2000, 500, False)
        kinds = [Ack.REJECT if n % 2 else Ack.ACCEPT for n in range(300)]
        kinds[100:200] = [Ack.ACCEPT] * 100
        told = [Acknowledgement(0, 299, kinds)]
        assert await owner.acknowledge("m", told) == (ErrorCode.none, None)
        wanted = [n for n, kind in enumerate(kinds) if kind is Ack.REJECT]
        offsets = [int(dict(each.headers)["__dlq.errors.offset"] or b"") for each in letters(node)]
        assert offsets == wanted
        assert [each.key for each in letters(node)] == [b"k%d" % (n % 100) for n in wanted]


async def test_of_records_that_are_gone_their_places_are_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        owner, found = await filled(node, 2, 10, b"v")
        owner.acquire("m", found, 0, 2000, 500, False)
        node.topics.partitions["t", 0].log.delete_before(15)
        told = [Acknowledgement(12, 17, [Ack.REJECT])]
        assert await owner.acknowledge("m", told) == (ErrorCode.none, None)
        assert [each.value for each in letters(node)] == [None] * 3 + [b"v"] * 3


async def test_a_start_does_not_read_what_others_have_written_to_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have put millions of records into a few kilobytes, and each start would read them."""
    async with running(tmp_path) as node:
        owner, found = await filled(node, 1, 3, b"v")
        owner.acquire("m", found, 0, 2000, 500, False)
        told = [Acknowledgement(0, 2, [Ack.REJECT])]
        assert await owner.acknowledge("m", told) == (ErrorCode.none, None)
        target = node.topics.partitions["dlq.g", 0]
        data = records.build([records.Record(n, 1, None, b"") for n in range(1000)])
        await target.durable(target.append(data, batches.read_header(data), 1) + 1000)
        each, read = records.each, list[int]()

        def noted(batch: bytes) -> Iterator[records.Record]:
            read.append(batches.read_header(batch).record_count)
            return each(batch)

        monkeypatch.setattr(records, "each", noted)
        assert [letter.offset for letter in node.shares.dead_letters.newest()] == [0, 1, 2]
        assert read == [3]
