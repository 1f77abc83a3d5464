"""confluent-kafka with `group.protocol=consumer`: members come, go and die, and every record is read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, TopicPartition

from .cluster import Cluster
from .confluent import QUICK, admin, dotted, poll_until, producer, send, take
from .heartbeats import described, set_group_config
from .waiting import until

SOAK = bool(os.environ.get("HEADWATER_SOAK"))


def member(cluster: Cluster, group: str, topic: str, **options: Any) -> Consumer:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    made = Consumer({**QUICK, **settings, **dotted(options)})
    made.subscribe([topic])
    return made


def parts(consumer: Consumer) -> set[tuple[str, int]]:
    return {(each.topic, each.partition) for each in consumer.assignment()}


def shared(consumers: list[Consumer], count: int) -> Callable[[], bool]:
    """Every one of so many partitions is assigned once, and evenly."""

    def ready() -> bool:
        each = [parts(consumer) for consumer in consumers]
        whole = set().union(*each)
        sizes = [len(own) for own in each]
        return len(whole) == sum(sizes) == count and max(sizes) - min(sizes) <= 1

    return ready


def test_members_share_the_partitions_as_they_come_and_go(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, 6)
    made = producer(cluster)
    for partition in range(6):
        send(made, topic, [b"%d" % n for n in range(20)], partition=partition)
    members = [member(cluster, group, topic)]
    read = [(m.partition(), m.offset()) for m in take(members[0], 120)]
    assert len(set(read)) == 120
    members[0].commit(asynchronous=False)
    for count in (2, 3):
        members.append(member(cluster, group, topic))
        poll_until(members, shared(members, 6), f"{count} members to share")
    members.pop(0).close()
    poll_until(members, shared(members, 6), "two members to share")
    for partition in range(6):
        send(made, topic, [b"new"], partition=partition)
    seen: set[int] = set()

    def all_read() -> bool:
        for each in members:
            message = each.poll(0.05)
            if message is not None and not message.error():
                assert message.value() == b"new", "what was committed is not read again"
                seen.add(message.partition())
        return len(seen) == 6

    until(all_read, "the new records")
    for each in members:
        each.close()


def test_a_killed_members_partitions_go_to_the_others(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, 4)
    with cluster.wire() as wire:
        set_group_config(wire, group, "consumer.session.timeout.ms", "2000")
    killed = subprocess.Popen(
        [sys.executable, "-c", LOST_MEMBER, cluster.bootstrap, group, topic],
        stdout=subprocess.PIPE,
    )
    assert killed.stdout is not None
    try:
        assert killed.stdout.readline() == b"ready\n"
        other = member(cluster, group, topic)
        poll_until([other], lambda: len(parts(other)) == 2, "half of the partitions")
        os.kill(killed.pid, signal.SIGKILL)
        poll_until([other], lambda: len(parts(other)) == 4, "all partitions")
        other.close()
    finally:
        killed.kill()
        killed.wait()
        killed.stdout.close()


LOST_MEMBER = """
import sys
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"})
consumer.subscribe([topic])
told = False
while True:
    consumer.poll(0.1)
    if consumer.assignment() and not told:
        told = True
        print("ready", flush=True)
"""


def test_a_static_member_comes_back_without_a_rebalance(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, 4)
    first = member(cluster, group, topic, group_instance_id="one")
    second = member(cluster, group, topic, group_instance_id="two")
    poll_until([first, second], shared([first, second], 4), "both to share")
    had = parts(first)
    with cluster.wire() as wire:
        epoch = described(wire, group).group_epoch
        first.close()
        again = member(cluster, group, topic, group_instance_id="one")
        poll_until([again, second], lambda: parts(again) == had, "the same partitions")
        assert described(wire, group).group_epoch == epoch
    again.close()
    second.close()


def test_topics_by_regular_expression(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(f"{topic}-a", 1)
    cluster.create_topic(f"{topic}-b", 1)
    reader = member(cluster, group, f"^{topic}-[abc]$")
    wanted = {(f"{topic}-a", 0), (f"{topic}-b", 0)}
    poll_until([reader], lambda: parts(reader) == wanted, "both topics")
    if cluster.target == "headwater" or SOAK:  # Apache Kafka looks every ten seconds at most
        cluster.create_topic(f"{topic}-c", 1)
        with_new = {*wanted, (f"{topic}-c", 0)}
        poll_until([reader], lambda: parts(reader) == with_new, "the new topic")
    reader.close()


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_the_assignor_is_the_clients_choice(
    cluster: Cluster, topic: str, group: str, assignor: str
) -> None:
    cluster.create_topic(topic, 4)
    members = [member(cluster, group, topic, group_remote_assignor=assignor) for _ in range(2)]
    poll_until(members, shared(members, 4), "both to share")
    client = admin(cluster)
    (state,) = [f.result() for f in client.describe_consumer_groups([group]).values()]
    assert state.partition_assignor == assignor
    for each in members:
        each.close()


def test_the_admin_client_sees_such_groups(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic, 2)
    reader = member(cluster, group, topic, client_id="reader")
    poll_until([reader], lambda: len(parts(reader)) == 2, "the partitions")
    client = admin(cluster)
    (state,) = [f.result() for f in client.describe_consumer_groups([group]).values()]
    assert state.type is ConsumerGroupType.CONSUMER
    assert state.state is ConsumerGroupState.STABLE
    (only,) = state.members
    assert only.client_id == "reader"
    assert {p.partition for p in only.assignment.topic_partitions} == {0, 1}
    listed = client.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result().valid
    assert group in {each.group_id for each in listed}
    reader.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    reader.close()
    client.delete_consumer_groups([group])[group].result()
    assert group not in {e.group_id for e in client.list_consumer_groups().result().valid}


def test_a_group_is_upgraded_and_downgraded_by_rolling_its_members(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, 4)
    made = producer(cluster)

    def classic() -> Consumer:
        options = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 100}
        # Not cooperative-sticky: librdkafka's sends user data once it has joined a second time, and
        # Kafka converts no group whose user data would be lost (GROUP_ID_NOT_FOUND, for good).
        options["partition.assignment.strategy"] = "range"
        return member(cluster, group, topic, group_protocol="classic", **options)

    def newer() -> Consumer:
        return member(cluster, group, topic)

    members = [classic(), classic()]
    poll_until(members, shared(members, 4), "the classic members to share")
    read: list[bytes] = []

    def roll(index: int, make: Callable[[], Consumer], what: str) -> None:
        until(lambda: listed().group_state == "Stable", "the group to be stable")
        new = make()
        joined = [*members, new]
        poll_until(joined, lambda: len(described(wire, group).members) == 3, f"{what} to join")
        members[index].close()
        members[index] = new
        poll_until(members, shared(members, 4), what)
        for partition in range(4):
            send(made, topic, [f"{what} {partition}".encode()], partition=partition)

        def four_more() -> bool:
            for each in members:
                message = each.poll(0.05)
                if message is not None and not message.error():
                    read.append(message.value())
                    each.commit(message, asynchronous=False)
            return len(read) % 4 == 0 and read[-1:] != [] and read[-1].startswith(what.encode())

        until(four_more, f"the records of {what}")

    with cluster.wire() as wire:

        def listed() -> Any:
            groups = wire.ask("list_groups", 5, states_filter=[], types_filter=[]).groups
            return next(each for each in groups if each.group_id == group)

        assert listed().group_type == "classic"
        roll(0, newer, "one newer")
        assert listed().group_type == "consumer"
        roll(1, newer, "both newer")
        roll(0, classic, "one classic")
        assert listed().group_type == "consumer"
        roll(1, classic, "both classic")
        assert listed().group_type == "classic"
    assert len(read) == len(set(read)) == 16
    for each in members:
        each.close()
