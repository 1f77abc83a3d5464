"""Values in whole batches: as they were sent, in order, each once, also when the broker is killed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.errors import BrokerUnreachable, NotThere, RequestRefused
from headwater.client.log import Log
from headwater.edges import payloads
from headwater.edges.bulk import Bulk
from headwater.edges.idempotency.index import Span
from headwater.project.broker_process import BrokerProcess
from headwater.record import records
from headwater.record.batch import BatchHeader, pack
from tests.edges.http import reading

Make = Callable[..., str]


def decoded(chunk: payloads.Chunk) -> list[bytes | None]:
    count = len(chunk.values)
    header = BatchHeader(0, 0, -1, 2, 0, 0, count - 1, 5, 5, -1, -1, -1, count)
    found = records.decode(pack(header, chunk.payload))
    assert [(each.offset, each.key, each.headers) for each in found] == [
        (number, None, ()) for number in range(count)
    ]
    return [each.value for each in found]


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=200))
def test_any_values_are_read_back_from_their_batch(values: list[bytes]):
    (chunk,) = payloads.chunks(values)
    assert decoded(chunk) == values


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ([b"x"] * 20_000, [8192, 8192, 3616]),
        ([bytes(400_000)] * 3, [2, 1]),
        ([bytes(10), bytes(2_000_000), bytes(10)], [1, 1, 1]),
        ([bytes(n) for n in (0, 63, 64, 8191, 8192, 500_000)], [6]),
        ([], []),
    ],
)
def test_a_batch_has_bounds(values: list[bytes], sizes: list[int]):
    found = list(payloads.chunks(values))
    assert [len(chunk.values) for chunk in found] == sizes
    assert [value for chunk in found for value in decoded(chunk)] == values


@pytest.fixture
async def bulk(log: Log) -> AsyncIterator[Bulk]:
    made = Bulk(log)
    yield made
    await made.close()


async def test_values_arrive_as_they_were_in_their_order(bulk: Bulk, log: Log, topic: Make):
    name = topic(3)
    sent = [[b"%d-%d" % (call, number) for number in range(9000)] for call in range(6)]
    spans = await asyncio.gather(*(bulk.append(name, values) for values in sent))
    found = {(m.partition(), m.offset()): m.value() for m in reading.records(log, name)}
    assert len(found) == 6 * 9000
    for values, ((partition, first, last, count),) in zip(sent, spans, strict=True):
        between = [found.get((partition, offset)) for offset in range(first, last + 1)]
        wanted = set(values)
        assert [value for value in between if value in wanted] == values
        assert count == 9000


async def test_what_is_refused_ends_its_own_call_only(bulk: Bulk, log: Log, topic: Make):
    small, good = topic(max_message_bytes=2000), topic()
    large = [b"before", os.urandom(5000), b"after"]
    told = await asyncio.gather(
        bulk.append(small, large),
        bulk.append(good, [b"1"]),
        bulk.append("nowhere", [b"1"]),
        bulk.append(small, [b"2"]),
        return_exceptions=True,
    )
    assert isinstance(told[0], RequestRefused)
    assert isinstance(told[2], NotThere)
    assert told[1] == (Span(0, 0, 0, 1),)
    assert isinstance(told[3], tuple)
    assert set(reading.values(log, small)) >= {b"2"}
    assert (await bulk.append(small, [b"3"]))[0].records == 1


async def test_a_batch_that_is_too_large_for_its_topic_is_divided(
    bulk: Bulk, log: Log, topic: Make
):
    name = topic(max_message_bytes=2000)
    values = [os.urandom(500) for _ in range(40)]
    ((partition, first, last, count),) = await bulk.append(name, values)
    assert (partition, first, last, count) == (0, 0, 39, 40)
    assert reading.values(log, name) == values


async def test_a_broker_that_is_killed_gets_what_it_has_not_and_nothing_twice(tmp_path: Path):
    with BrokerProcess(tmp_path / "log") as broker:
        broker.start()
        with Log(broker.bootstrap) as log:
            log.admin.create_topics([NewTopic("t", 2, 1)])["t"].result()
            bulk, done = Bulk(log), asyncio.Event()
            stored: list[bytes] = []
            doubtful: set[bytes] = set()

            async def send(sender: int) -> None:
                number = 0
                while not done.is_set():
                    values = [b"%d-%d-%d" % (sender, number, each) for each in range(500)]
                    try:
                        await bulk.append("t", values)
                        stored.extend(values)
                    except BrokerUnreachable:
                        doubtful.update(values)
                    number += 1

            async def kill() -> None:
                for wanted in (1, 2, 3):
                    target = len(stored) + 5000
                    async with asyncio.timeout(60):
                        while len(stored) < target:
                            await asyncio.sleep(0.01)  # between two looks
                    if wanted < 3:
                        broker.kill()
                        await asyncio.to_thread(broker.start)
                done.set()

            async with asyncio.TaskGroup() as group:
                for sender in range(3):
                    group.create_task(send(sender))
                group.create_task(kill())
            await bulk.close()
            found = reading.values(log, "t")
            assert len(found) == len(set(found))
            assert set(stored) <= set(found) <= set(stored) | doubtful
