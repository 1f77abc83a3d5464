"""aiokafka: asyncio's client, with its own idea of versions and rebalances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from aiokafka.structs import OffsetAndMetadata

from .cluster import Cluster

Producers = Callable[..., Awaitable[AIOKafkaProducer]]
Consumers = Callable[..., Awaitable[AIOKafkaConsumer]]


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[Producers]:
    async with AsyncExitStack() as stack:

        async def make(**options: Any) -> AIOKafkaProducer:
            settings = {"linger_ms": 2, "request_timeout_ms": 60_000, "retry_backoff_ms": 20}
            made = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings | options)
            await made.start()
            stack.push_async_callback(made.stop)
            return made

        yield make


@pytest.fixture
async def consumer(cluster: Cluster) -> AsyncIterator[Consumers]:
    async with AsyncExitStack() as stack:

        async def make(*topics: str, **options: Any) -> AIOKafkaConsumer:
            settings = {
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "fetch_max_wait_ms": 100,
                "heartbeat_interval_ms": 100,
                "session_timeout_ms": 30_000,
                "metadata_max_age_ms": 500,
                "retry_backoff_ms": 20,
            }
            made = AIOKafkaConsumer(
                *topics, bootstrap_servers=cluster.bootstrap, **settings | options
            )
            await made.start()
            stack.push_async_callback(made.stop)
            return made

        yield make


async def write(made: AIOKafkaProducer, topic: str, count: int, **options: Any) -> list[Any]:
    futures = [await made.send(topic, b"%d" % each, **options) for each in range(count)]
    return list(await asyncio.wait_for(asyncio.gather(*futures), 15))


async def take(made: AIOKafkaConsumer, count: int, timeout: float = 60.0) -> list[Any]:
    async def collect() -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            batches = await made.getmany(timeout_ms=200, max_records=count - len(found))
            found += [each for records in batches.values() for each in records]
        return found

    return await asyncio.wait_for(collect(), timeout)


async def eventually(condition: Callable[[], Any], timeout: float = 60.0) -> None:
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_comes_back_as_it_went(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, codec: str | None
) -> None:
    cluster.create_topic(topic)
    await write(await producer(compression_type=codec), topic, 300)
    found = await take(await consumer(topic), 300)
    assert [int(each.value) for each in found] == list(range(300))


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_kind_of_acknowledgement(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, acks: Any
) -> None:
    cluster.create_topic(topic)
    await write(await producer(acks=acks), topic, 50)
    assert len(await take(await consumer(topic), 50)) == 50


async def test_keys_headers_nulls_and_timestamps(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic)
    made, when = await producer(), int(time.time() * 1000) - 5000
    headers = [("a", b"1"), ("a", b"2"), ("b", b"")]
    sent = await made.send_and_wait(topic, b"", b"key", timestamp_ms=when, headers=headers)
    assert (sent.offset, sent.partition) == (0, 0)
    await made.send_and_wait(topic, None, b"key")
    one, two = await take(await consumer(topic), 2)
    assert (one.key, one.value, list(one.headers)) == (b"key", b"", headers)
    assert (one.timestamp, one.timestamp_type) == (when, 0)
    assert two.value is None


async def test_an_idempotent_producer(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    made = await producer(enable_idempotence=True)
    for partition in (0, 1):
        done = await write(made, topic, 1000, partition=partition)
        assert [each.offset for each in done] == list(range(1000))
    assert len(await take(await consumer(topic), 2000)) == 2000


async def test_a_message_above_the_limit_is_refused(
    cluster: Cluster, producer: Producers, topic: str
) -> None:
    cluster.create_topic(topic)
    made = await producer(max_request_size=5_000_000)
    with pytest.raises(MessageSizeTooLargeError):
        await made.send_and_wait(topic, b"x" * 1_200_000)


async def test_offsets_times_and_seeks(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic)
    here, start, made = TopicPartition(topic, 0), int(time.time() * 1000) - 60_000, await producer()
    for each in range(5):
        await made.send_and_wait(topic, b"%d" % each, timestamp_ms=start + each * 10)
    reader = await consumer()
    reader.assign([here])
    assert await reader.beginning_offsets([here]) == {here: 0}
    assert await reader.end_offsets([here]) == {here: 5}
    found = (await reader.offsets_for_times({here: start + 11}))[here]
    assert (found.offset, found.timestamp) == (2, start + 20)
    assert (await reader.offsets_for_times({here: start + 41}))[here] is None
    reader.seek(here, 3)
    assert int((await take(reader, 1))[0].value) == 3
    assert await reader.position(here) == 4
    await reader.seek_to_beginning(here)
    assert int((await take(reader, 1))[0].value) == 0
    await reader.seek_to_end(here)
    assert await reader.position(here) == 5


async def test_pause_and_resume(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str
) -> None:
    cluster.create_topic(topic)
    await write(await producer(), topic, 5)
    reader, here = await consumer(), TopicPartition(topic, 0)
    reader.assign([here])
    reader.pause(here)
    assert await reader.getmany(timeout_ms=200) == {}
    reader.resume(here)
    assert len(await take(reader, 5)) == 5


async def test_no_offset_and_out_of_range_are_errors_when_there_is_no_policy(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    await write(await producer(), topic, 5)
    reader, here = (
        await consumer(auto_offset_reset="none", group_id=group),
        TopicPartition(topic, 0),
    )
    reader.assign([here])
    with pytest.raises(NoOffsetForPartitionError):
        await reader.getone()
    reader.seek(here, 99)
    with pytest.raises(OffsetOutOfRangeError):
        await reader.getone()


async def test_a_group_goes_on_where_it_committed(
    cluster: Cluster, producer: Producers, consumer: Consumers, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    await write(await producer(), topic, 10)
    reader, here = await consumer(topic, group_id=group), TopicPartition(topic, 0)
    await take(reader, 4)
    await reader.commit({here: OffsetAndMetadata(4, "note")})
    assert await reader.committed(here) == 4
    await reader.stop()
    found = await take(await consumer(topic, group_id=group), 6)
    assert [int(each.value) for each in found] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=lambda each: each.name,
)
async def test_two_consumers_share_and_hand_over(
    cluster: Cluster, consumer: Consumers, topic: str, group: str, assignor: Any
) -> None:
    cluster.create_topic(topic, partitions=4)
    options = {"group_id": group, "partition_assignment_strategy": (assignor,)}
    first = await consumer(topic, **options)
    await eventually(lambda: len(first.assignment()) == 4)
    second = await consumer(topic, **options)
    await eventually(lambda: [len(first.assignment()), len(second.assignment())] == [2, 2])
    assert first.assignment().isdisjoint(second.assignment())
    await second.stop()
    await eventually(lambda: len(first.assignment()) == 4)


class Rebalances(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.events.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.events.append(("assigned", len(assigned)))


async def test_a_static_member_restarts_without_a_rebalance(
    cluster: Cluster, consumer: Consumers, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    heard = Rebalances()
    stays = await consumer(group_id=group, group_instance_id="stays")
    stays.subscribe([topic], listener=heard)
    leaves = await consumer(topic, group_id=group, group_instance_id="leaves")
    await eventually(lambda: heard.events[-1:] == [("assigned", 1)] and leaves.assignment())
    before, mine = list(heard.events), leaves.assignment()
    await leaves.stop()
    back = await consumer(topic, group_id=group, group_instance_id="leaves")
    await eventually(lambda: back.assignment() == mine)
    assert heard.events == before


async def test_a_commit_after_a_rebalance_is_refused(
    cluster: Cluster, consumer: Consumers, topic: str, group: str
) -> None:
    """An unknown generation: the group was emptied by the admin behind the member's back."""
    cluster.create_topic(topic)
    reader, here = await consumer(topic, group_id=group), TopicPartition(topic, 0)
    await eventually(lambda: reader.assignment())
    with cluster.wire() as wire:
        (found,) = wire.ask("describe_groups", 5, groups=[group]).groups
        gone = [{"member_id": found.members[0].member_id, "group_instance_id": None}]
        wire.ask("leave_group", 5, group_id=group, members=gone)
    with pytest.raises(CommitFailedError):
        await reader.commit({here: 1})


async def test_a_pattern_finds_topics(
    cluster: Cluster, consumer: Consumers, new_name: Callable[[], str], group: str
) -> None:
    stem = new_name()
    cluster.create_topic(f"{stem}-a")
    reader = await consumer(group_id=group)
    reader.subscribe(pattern=f"^{stem}-.*")
    await eventually(lambda: len(reader.assignment()) == 1)
    cluster.create_topic(f"{stem}-b")
    await eventually(lambda: len(reader.assignment()) == 2)


async def test_its_admin_client(cluster: Cluster, topic: str, group: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        made = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "222222"})
        assert (await admin.create_topics([made])).topic_errors[0][1] == 0
        again = await admin.create_topics([made])
        assert again.topic_errors[0][1] == TopicAlreadyExistsError.errno
        await admin.create_partitions({topic: NewPartitions(3)})
        async with asyncio.timeout(60):  # Kafka's brokers learn of it a moment later
            while len((await admin.describe_topics([topic]))[0]["partitions"]) != 3:
                await asyncio.sleep(0.02)
        (configs,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        values = {row[0]: row[1] for row in configs.resources[0][4]}
        assert values["retention.ms"] == "222222"
        assert (await admin.delete_topics([topic])).topic_error_codes[0][1] == 0
        missing = (await admin.delete_topics([topic])).topic_error_codes[0][1]
        assert missing == UnknownTopicOrPartitionError.errno
        assert group not in {each[0] for each in await admin.list_consumer_groups()}
    finally:
        await admin.close()
