"""What is sent under a key is stored once: over retries, restarts and a second process."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from headwater.client.errors import BrokerUnreachable, NotThere, RequestRefused
from headwater.client.log import Log
from headwater.client.publisher import Draft
from headwater.edges.errors import Invalid
from headwater.edges.idempotency.appender import Once
from headwater.edges.idempotency.index import Entry, KeyIndex, Span
from headwater.edges.topics import Topics
from headwater.project.broker_process import BrokerProcess
from tests.edges.http.reading import records, values

Make = Callable[..., str]


@asynccontextmanager
async def running(log: Log, name: str) -> AsyncIterator[Once]:
    once = Once(log, name, Topics(log))
    await once.start()
    try:
        yield once
    finally:
        await once.close()


def test_keys_count_for_a_window_and_the_newest_longest():
    entry = Entry("d", "t", (Span(0, 1, 2, 2), Span(3, 4, 4, 1)))
    assert Entry.from_json(entry.to_json()) == entry
    remembered = KeyIndex(window_ms=100, most=2)
    for number in range(3):
        remembered.put(b"%d" % number, entry.to_json(), at_ms=number)
    assert (len(remembered), remembered.forgotten_early) == (2, 1)
    assert remembered.get(b"0", now_ms=50) is None
    assert remembered.get(b"1", now_ms=100) == entry
    assert remembered.get(b"1", now_ms=101) is None
    remembered.tidy(now_ms=101)
    assert len(remembered) == 1
    with pytest.raises(ValueError):
        Entry.from_json(b"{}")


def test_who_sends_many_keys_makes_nobody_elses_forgotten():
    entry = Entry("d", "t", (Span(0, 1, 2, 2),)).to_json()
    index = KeyIndex(window_ms=10_000, most=100)
    others = [b"small|t|a|b", b"hook|gate|1", b"hook|other|1", b"bridge mqtt|1"]
    for key in others:
        index.put(key, entry, at_ms=0)
    for number in range(1_000):
        index.put(b"greedy|t|%d" % number, entry, at_ms=number)
    assert all(index.get(key, now_ms=1_000) is not None for key in others)
    assert index.get(b"greedy|t|999", now_ms=1_000) is not None
    assert (len(index), index.forgotten_early) == (100, 904)
    index.put(b"late|t|1", entry, at_ms=1_000)  # who has little finds room where there is much
    assert index.get(b"late|t|1", now_ms=1_000) is not None and len(index) == 100
    index.tidy(now_ms=20_000)
    assert len(index) == 0


def test_however_long_keys_and_entries_are_they_have_a_bound():
    """A million keys of one writer, in a topic of many partitions, took gigabytes, at each start."""
    long = Entry("d" * 64, "t" * 249, tuple(Span(p, 10**9, 10**9, 1) for p in range(1_000)))
    text = long.to_json()
    index = KeyIndex(window_ms=10_000, most=1_000_000, bytes_most=2_000_000)
    index.put(b"small|t|1", Entry("d", "t", ()).to_json(), at_ms=0)
    tracemalloc.start()
    for number in range(1_000):
        index.put(b"greedy|t|%d" % number + b"x" * 10_000, text, at_ms=number)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 2_500_000
    assert index.get(b"small|t|1", now_ms=1) is not None
    assert index.get(b"greedy|t|999" + b"x" * 10_000, now_ms=1_000) == long
    for number in range(10):
        index.put(b"greedy|t|same", Entry("d", "t", ()).to_json(), at_ms=number)
    index.clear()
    for number in range(10):
        index.put(b"greedy|t|%d" % number, text, at_ms=number)
    assert (len(index), index.forgotten_early > 800) == (10, True)


async def test_the_same_key_again_gives_the_same_positions_and_stores_nothing(
    log: Log, topic: Make
):
    name = topic()
    drafts = [Draft(None, b"one"), Draft(None, b"two")]
    async with running(log, name) as once:
        first = await once.append(name, "k", drafts, digest="d")
        again = await once.append(name, "k", drafts, digest="d")
    assert first == ((Span(0, 0, 1, 2),), True)
    assert again == (first.spans, False)
    assert values(log, name) == [b"one", b"two"]


async def test_another_body_under_the_same_key_is_refused(log: Log, topic: Make):
    name = topic()
    async with running(log, name) as once:
        await once.append(name, "k", [Draft(None, b"one")], digest="d")
        with pytest.raises(Invalid, match="something else"):
            await once.append(name, "k", [Draft(None, b"two")], digest="e")
    assert values(log, name) == [b"one"]


async def test_a_restart_remembers(log: Log, topic: Make):
    name = topic(2)
    async with running(log, name) as once:
        first = await once.append(name, "k", [Draft(b"a", b"1"), Draft(b"b", b"2")])
    async with running(log, name) as once:
        again = await once.append(name, "k", [Draft(b"a", b"1"), Draft(b"b", b"2")])
        other = await once.append(name, "l", [Draft(b"a", b"3")])
    assert (again.is_new, again.spans) == (False, first.spans)
    assert other.is_new
    assert len(records(log, name)) == 3


async def test_requests_at_once_share_transactions_and_each_key_counts_once(log: Log, topic: Make):
    name = topic(3)
    async with running(log, name) as once:
        wanted = [
            once.append(name, f"k{number % 50}", [Draft(b"%d" % (number % 50), b"x")])
            for number in range(200)
        ]
        answers = await asyncio.gather(*wanted)
    assert sum(answer.is_new for answer in answers) == 50
    found = {(m.partition(), m.offset()) for m in records(log, name)}
    assert len(found) == 50
    assert {(span.partition, span.first) for answer in answers for span in answer.spans} == found


async def test_records_without_a_key_stay_together_in_their_order(log: Log, topic: Make):
    name = topic(5)
    sent = [b"%d" % number for number in range(200)]
    async with running(log, name) as once:
        for key in "ab":
            (span,) = (await once.append(name, key, [Draft(None, value) for value in sent])).spans
            assert span.last - span.first == 199
    found = [message.value() for message in records(log, name)]
    assert found == sent + sent


async def test_one_that_the_broker_refuses_does_not_harm_those_beside_it(log: Log, topic: Make):
    good, bad = topic(), topic(max_message_bytes=1000)
    large = Draft(None, os.urandom(5000))
    async with running(log, good) as once:
        told = await asyncio.gather(
            *(once.append(good, f"k{number}", [Draft(None, b"v")]) for number in range(5)),
            once.append(bad, "large", [large]),
            return_exceptions=True,
        )
        assert [each.is_new for each in told[:5]] == [True] * 5  # type: ignore[union-attr]
        assert isinstance(told[5], RequestRefused)
        with pytest.raises(RequestRefused):
            await once.append(bad, "large", [large])
        with pytest.raises(RequestRefused, match="too large"):
            await once.append(good, "huge", [Draft(None, bytes(2_000_000))])
    assert len(records(log, good)) == 5
    assert records(log, bad) == []


async def test_a_topic_that_is_not_there_is_told_at_once(log: Log, topic: Make):
    async with running(log, topic()) as once:
        with pytest.raises(NotThere):
            await once.append("nowhere", "k", [Draft(None, b"v")])


async def test_a_second_process_of_the_name_fences_the_first(log: Log, topic: Make):
    name = topic()
    async with running(log, name) as old, running(log, name) as new:
        await old.append(name, "k", [Draft(None, b"1")])
        assert not (await new.append(name, "k", [Draft(None, b"1")])).is_new
        for _ in range(2):
            with pytest.raises(BrokerUnreachable, match="taken over"):
                await old.append(name, "l", [Draft(None, b"2")])
        assert (await new.append(name, "l", [Draft(None, b"2")])).is_new
    assert values(log, name) == [b"1", b"2"]


async def test_a_broker_that_is_killed_has_each_thing_once_when_it_was_sent_until_answered(
    tmp_path: Path,
):
    with BrokerProcess(tmp_path / "log") as broker:
        broker.start()
        with Log(broker.bootstrap) as log:
            log.admin.create_topics([NewTopic("t", 2, 1)])["t"].result()
            async with running(log, "killed") as once:
                done = asyncio.Event()
                sent: list[int] = []

                async def send(sender: int) -> None:
                    number = sender
                    while not done.is_set():
                        drafts = [Draft(None, b"%d" % number), Draft(b"k", b"%d" % number)]
                        try:
                            await once.append("t", f"k{number}", drafts)
                        except BrokerUnreachable:
                            continue  # the same again, until it is answered
                        sent.append(number)
                        number += 4

                async def kill() -> None:
                    for wanted in (20, 60, 100):
                        async with asyncio.timeout(90):
                            while len(sent) < wanted:
                                await asyncio.sleep(0.01)  # between two looks
                        if wanted < 100:
                            broker.kill()
                            await asyncio.to_thread(broker.start)
                    done.set()

                async with asyncio.TaskGroup() as group:
                    for sender in range(4):
                        group.create_task(send(sender))
                    group.create_task(kill())
            found = sorted(int(value or b"") for value in values(log, "t"))
    assert found == sorted([*sent, *sent])
