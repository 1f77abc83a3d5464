"""Records from many senders reach the log, and each sender hears where its own are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

import pytest

from headwater.client.errors import NotThere, RequestRefused
from headwater.client.log import Log
from headwater.client.publisher import Draft, Stored
from headwater.edges.appender import Appender
from headwater.edges.errors import Overloaded


@pytest.fixture
async def appender(log: Log) -> AsyncIterator[Appender]:
    made = Appender(log, waiting_bytes=1024**2)
    made.start()
    yield made
    await made.close()


async def test_every_record_has_a_place_of_its_own(appender: Appender, topic: Callable[..., str]):
    name = topic(partitions=3)
    drafts = [Draft(b"k%d" % (number % 7), b"v%d" % number) for number in range(100)]
    stored = await appender.append(name, drafts)
    assert len(set(stored)) == 100
    of_key = {draft.key: place.partition for draft, place in zip(drafts, stored, strict=True)}
    assert all(of_key[d.key] == p.partition for d, p in zip(drafts, stored, strict=True))
    assert appender.waiting_bytes == 0


async def test_headers_and_tombstones_go_with_a_batch(
    appender: Appender, topic: Callable[..., str]
):
    name = topic()
    drafts = [Draft(b"k", b"v", [("a", b"1")]), Draft(b"k", None)]
    assert [place.offset for place in await appender.append(name, drafts)] == [0, 1]


async def test_many_senders_at_once_hear_their_own(appender: Appender, topic: Callable[..., str]):
    name = topic()
    answers = await asyncio.gather(
        *(appender.append(name, [Draft(None, b"%d" % n)] * 3) for n in range(50))
    )
    offsets = sorted(place.offset for answer in answers for place in answer)
    assert offsets == list(range(150))


async def test_a_topic_that_is_not_there_is_an_error_and_is_not_made(appender: Appender, log: Log):
    with pytest.raises(NotThere):
        await appender.append("misspelt", [Draft(None, b"v")])
    assert "misspelt" not in log.admin.list_topics(timeout=60).topics


async def test_a_record_that_the_topic_refuses_is_told(
    appender: Appender, topic: Callable[..., str]
):
    name = topic(max_message_bytes=1000)
    with pytest.raises(RequestRefused):
        await appender.append(name, [Draft(None, os.urandom(5000))])
    with pytest.raises(RequestRefused):
        await appender.append(topic(cleanup_policy="compact"), [Draft(None, b"no key")])


async def test_a_record_of_an_impossible_time_takes_none_of_others_with_it(
    appender: Appender, topic: Callable[..., str]
):
    name, far = topic(), 4_102_444_800_000  # in 2100
    ill = [Draft(None, b"ill", timestamp_ms=far)] * 20
    answers = await asyncio.gather(
        *(
            appender.append_each(name, each)
            for _ in range(40)
            for each in (ill, [Draft(None, b"v")])
        )
    )
    assert all(isinstance(each, Stored) for answer in answers[1::2] for each in answer)
    assert all(isinstance(each, RequestRefused) for answer in answers[::2] for each in answer)
    kept = topic(message_timestamp_type="LogAppendTime")
    assert len(await appender.append(kept, ill)) == 20


async def test_beyond_the_bound_a_sender_is_told_to_come_again(
    appender: Appender, topic: Callable[..., str]
):
    name, large = topic(), [Draft(None, bytes(700_000))]
    first = asyncio.create_task(appender.append(name, large))
    while not appender.waiting_bytes:
        await asyncio.sleep(0)
    with pytest.raises(Overloaded) as told:
        await appender.append(name, large)
    assert told.value.retry_after > 0
    await first
    await appender.append(name, large)


async def test_many_values_are_counted_by_partition(appender: Appender, topic: Callable[..., str]):
    name = topic(partitions=3)
    one = await appender.append_values(name, [b"v"] * 500)
    assert [(span.first, span.last, span.records) for span in one] == [(0, 499, 500)]
    keys = [b"k%d" % number for number in range(500)]
    spans = await appender.append_values(name, [b"v"] * 500, keys)
    assert sum(span.records for span in spans) == 500 and len(spans) == 3
    with pytest.raises(RequestRefused, match="no key"):
        await appender.append_values(topic(cleanup_policy="compact"), [b"v"])
    with pytest.raises(RequestRefused):
        await appender.append_values(topic(max_message_bytes=1000), [os.urandom(5000)])


async def test_each_record_has_an_outcome_of_its_own(appender: Appender, topic: Callable[..., str]):
    name = topic(max_message_bytes=1000)
    good, bad = (
        await appender.append_each(name, [Draft(None, b"v")]),
        [Draft(None, os.urandom(5000))],
    )
    assert good == [(0, 0)]
    assert isinstance((await appender.append_each(name, bad))[0], RequestRefused)
