"""What shares a batch or a transaction with the records of others has an outcome of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from headwater.client.errors import NotThere, RequestRefused
from headwater.client.log import Log
from headwater.client.publisher import Draft
from headwater.edges.appender import Appender
from headwater.edges.idempotency.appender import Once
from headwater.schemas import changes
from headwater.schemas.changes import Registration
from headwater.schemas.model import Schema
from headwater.schemas.store import Store
from headwater.testing import broker
from tests.edges.http.reading import values
from tests.edges.running import until

Make = Callable[..., str]
LIMIT = 10_000
MANY = 40


@asynccontextmanager
async def writing(log: Log, name: str) -> AsyncIterator[tuple[Appender, Once]]:
    appender = Appender(log, waiting_bytes=64 * 1024**2)
    once = Once(log, name, appender.topics)
    appender.start()
    await once.start()
    try:
        yield appender, once
    finally:
        await once.close()
        await appender.close()


def append(way: str, to: tuple[Appender, Once], topic: str, sent: Sequence[bytes]) -> Any:
    """Records of one request, by each of the ways that a request may go."""
    appender, once = to
    if way == "single":
        return appender.append(topic, [Draft(None, value) for value in sent])
    if way == "headers":
        return appender.append(topic, [Draft(b"k", value, [("h", b"1")]) for value in sent])
    if way == "keyed":
        return appender.append_values(topic, sent, [b"k"] * len(sent))
    if way == "values":
        return appender.append_values(topic, sent)
    key = sent[0].hex()[:32]
    return once.append(topic, key, [Draft(None, value) for value in sent])


WAYS = ["single", "headers", "keyed", "values", "once"]


def alter(log: Log, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource("topic", topic, incremental_configs=[entry])
    for done in log.admin.incremental_alter_configs([asked]).values():
        done.result()


async def told(*requests: Coroutine[Any, Any, Any]) -> list[Any]:
    return await asyncio.gather(*requests, return_exceptions=True)


@pytest.mark.parametrize("way", WAYS)
async def test_records_are_not_refused_for_the_size_of_others(log: Log, topic: Make, way: str):
    name = topic(max_message_bytes=LIMIT)
    sent = [os.urandom(3000) for _ in range(MANY)]
    async with writing(log, name) as to:
        found = await told(*(append(way, to, name, [value]) for value in sent))
    assert [each for each in found if isinstance(each, Exception)] == []
    assert sorted(values(log, name)) == sorted(sent)


@pytest.mark.parametrize("way", WAYS)
async def test_records_of_one_request_may_be_larger_together_than_the_topic_takes(
    log: Log, topic: Make, way: str
):
    name = topic(max_message_bytes=LIMIT)
    sent = [os.urandom(3000) for _ in range(MANY)]
    async with writing(log, name) as to:
        await append(way, to, name, sent)
    assert values(log, name) == sent


@pytest.mark.parametrize("way", WAYS)
async def test_only_a_record_that_is_too_large_by_itself_is_refused(
    log: Log, topic: Make, way: str
):
    name = topic(max_message_bytes=LIMIT)
    sent = [os.urandom(3000) for _ in range(MANY)]
    large = os.urandom(LIMIT + 1000)
    async with writing(log, name) as to:
        requests = [append(way, to, name, [value]) for value in (*sent[:20], large, *sent[20:])]
        found = await told(*requests)
    refused = [(number, each) for number, each in enumerate(found) if isinstance(each, Exception)]
    assert [number for number, _ in refused] == [20], refused
    error = refused[0][1]
    assert isinstance(error, RequestRefused)
    assert f"takes {LIMIT} bytes at once" in str(error) and name in str(error)
    assert sorted(values(log, name)) == sorted(sent)


@pytest.mark.parametrize("way", WAYS)
async def test_a_limit_that_was_lowered_a_moment_ago_refuses_nothing_that_fits(
    log: Log, topic: Make, way: str
):
    name = topic()
    sent = [os.urandom(3000) for _ in range(MANY)]
    async with writing(log, name) as to:
        first = os.urandom(10)
        await append(way, to, name, [first])  # its settings are known now, for some seconds
        alter(log, name, "max.message.bytes", str(LIMIT))
        found = await told(*(append(way, to, name, [value]) for value in sent))
    assert [each for each in found if isinstance(each, Exception)] == []
    assert sorted(values(log, name)) == sorted([first, *sent])


def refused_by_its_value(log: Log, name: str) -> tuple[list[bytes], bytes]:
    """Values as the topic's schemas have them, and one that is not."""
    with Store(log) as store:
        schema = Schema('{"type":"fixed","name":"f","size":20}')
        registered = store.change(
            lambda state: changes.register(state, Registration(f"{name}-value", schema))
        )
    head = b"\0" + registered.id.to_bytes(4, "big")
    return [head + os.urandom(20) for _ in range(MANY)], os.urandom(20)


@pytest.mark.parametrize("was_known", [True, False], ids=["switched on a moment ago", "always on"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_value_that_the_brokers_check_refuses_takes_none_of_others_with_it(
    log: Log, topic: Make, way: str, was_known: bool
):
    name = topic(schema_validation=str(not was_known).lower())
    sent, bad = refused_by_its_value(log, name)
    async with writing(log, name) as to:
        if was_known:
            await append(way, to, name, [sent[0]])
            alter(log, name, "schema.validation", "true")
        requests = [append(way, to, name, [value]) for value in (*sent[1:20], bad, *sent[20:])]
        found = await told(*requests)
    refused = [(number, each) for number, each in enumerate(found) if isinstance(each, Exception)]
    assert [number for number, _ in refused] == [19], refused
    assert isinstance(refused[0][1], RequestRefused) and "INVALID_RECORD" in str(refused[0][1])
    assert sorted(values(log, name)) == sorted(sent[not was_known :])


@pytest.mark.parametrize("way", WAYS[:-1])
async def test_a_record_that_no_segment_of_its_topic_holds_is_too_large(
    log: Log, topic: Make, way: str
):
    name = topic(segment_bytes=1024**2, max_message_bytes=4 * 1024**2)
    sent = [os.urandom(3000) for _ in range(MANY)]
    async with writing(log, name) as to:
        found = await told(*(append(way, to, name, [each]) for each in (*sent, os.urandom(2**21))))
    refused = [each for each in found if isinstance(each, Exception)]
    assert len(refused) == 1 and f"takes {1024**2} bytes at once" in str(refused[0]), refused
    assert sorted(values(log, name)) == sorted(sent)


@pytest.mark.parametrize("way", ["single", "keyed", "once"])
async def test_a_topic_that_was_compacted_a_moment_ago_refuses_only_what_has_no_key(
    log: Log, topic: Make, way: str
):
    name = topic()
    sent = [os.urandom(20) for _ in range(MANY)]

    def request(to: tuple[Appender, Once], value: bytes, key: bytes | None) -> Any:
        appender, once = to
        if way == "once":
            return once.append(name, value.hex(), [Draft(key, value)])
        if way == "keyed":
            return appender.append_values(name, [value], [key])
        return appender.append(name, [Draft(key, value)])

    async with writing(log, name) as to:
        await request(to, b"first", b"k")
        alter(log, name, "cleanup.policy", "compact")
        found = await told(
            *(request(to, value, b"k" if number else None) for number, value in enumerate(sent))
        )
    assert [isinstance(each, RequestRefused) for each in found] == [True] + [False] * (MANY - 1)
    assert sorted(values(log, name)) == sorted([b"first", *sent[1:]])


async def test_who_has_no_key_for_a_compacted_topic_is_told_before_others_are_written(
    log: Log, topic: Make
):
    compacted, name = topic(cleanup_policy="compact"), topic()
    written: list[int] = []
    async with writing(log, name) as (_, once):
        known = once._writer.write

        def write(group: Sequence[Any]) -> Any:
            written.append(len(group))
            return known(group)

        once._writer.write = write  # type: ignore[method-assign]
        with pytest.raises(RequestRefused, match="compacted, and a record has no key"):
            await once.append(compacted, "k", [Draft(None, b"1")])
    assert written == []


@pytest.fixture(scope="module")
def strict() -> Iterator[Log]:
    """A log that makes no topics by itself."""
    settings: dict[str, object] = {"auto.create.topics.enable": "false"}
    with broker(settings=settings) as running, Log(running.bootstrap) as log:
        yield log


@pytest.mark.parametrize("way", [*WAYS, "many values"])
async def test_a_topic_that_is_gone_is_told_to_those_who_named_it(strict: Log, way: str):
    good, gone = (f"{each}-{WAYS.index(way) if way in WAYS else 9}" for each in ("good", "gone"))
    strict.admin.create_topics([NewTopic(each, 1, 1) for each in (good, gone)])
    until(lambda: {good, gone} <= set(strict.topics()), "the topics")
    count = 100 if way == "many values" else 1
    kind = "values" if way == "many values" else way

    def request(to: tuple[Appender, Once], name: str) -> Any:
        return append(kind, to, name, [os.urandom(20) for _ in range(count)])

    async with writing(strict, good) as to:
        await told(request(to, good), request(to, gone))  # known now, for some seconds
        strict.admin.delete_topics([gone])[gone].result()
        kinds = [good, gone, good, gone, good]
        found = await told(*(request(to, name) for name in kinds))
    for name, each in zip(kinds, found, strict=True):
        if name == good:
            assert not isinstance(each, Exception), each
        else:
            assert isinstance(each, NotThere) and gone in str(each), each
    assert len(values(strict, good)) == 4 * count
