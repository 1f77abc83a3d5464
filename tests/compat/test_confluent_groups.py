"""Consumer groups with confluent-kafka: sharing, rebalancing, static members, fencing, takeover."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from .cluster import Cluster
from .confluent import consumer, new_consumer, poll_until, producer, send, take, take_error


def assigned(reader: Consumer) -> set[int]:
    return {each.partition for each in reader.assignment()}


def shared(readers: list[Consumer], partitions: int) -> bool:
    """Every partition belongs to exactly one reader, and no reader is idle."""
    parts = [assigned(each) for each in readers]
    return (
        all(parts)
        and sum(map(len, parts)) == partitions
        and set().union(*parts) == set(range(partitions))
    )


@contextmanager
def readers_of(
    cluster: Cluster, group: str, topic: str, count: int, **options: Any
) -> Iterator[list[Consumer]]:
    with ExitStack() as stack:
        made = [stack.enter_context(consumer(cluster, group, **options)) for _ in range(count)]
        for each in made:
            each.subscribe([topic])
        yield made


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_three_consumers_share_six_partitions(
    cluster: Cluster, topic: str, group: str, strategy: str
) -> None:
    cluster.create_topic(topic, partitions=6)
    options = {"partition_assignment_strategy": strategy}
    with readers_of(cluster, group, topic, 3, **options) as readers:
        poll_until(readers, lambda: shared(readers, 6), "three equal shares")
        assert sorted(len(assigned(each)) for each in readers) == [2, 2, 2]
        writer = producer(cluster)
        for partition in range(6):
            send(writer, topic, [b"%d" % partition] * 10, partition=partition)
        for each in readers:
            messages = take(each, 20)
            assert {one.partition() for one in messages} == assigned(each)


def test_a_fourth_consumer_of_three_partitions_is_idle(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=3)
    with readers_of(cluster, group, topic, 4) as readers:
        poll_until(
            readers,
            lambda: sorted(len(assigned(each)) for each in readers) == [0, 1, 1, 1],
            "three with one partition and one with none",
        )


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_follow_joins_and_leaves(
    cluster: Cluster, topic: str, group: str, strategy: str
) -> None:
    cluster.create_topic(topic, partitions=4)
    options = {"partition_assignment_strategy": strategy}
    with consumer(cluster, group, **options) as first:
        first.subscribe([topic])
        poll_until([first], lambda: len(assigned(first)) == 4, "all partitions")
        with consumer(cluster, group, **options) as second:
            second.subscribe([topic])
            poll_until([first, second], lambda: shared([first, second], 4), "half each")
        poll_until([first], lambda: len(assigned(first)) == 4, "all partitions again")


def test_a_cooperative_rebalance_takes_only_what_moves(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=4)
    revoked: list[int] = []
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    with (
        consumer(cluster, group, **options) as first,
        consumer(cluster, group, **options) as second,
    ):
        first.subscribe(
            [topic], on_revoke=lambda _, gone: revoked.extend(each.partition for each in gone)
        )
        poll_until([first], lambda: len(assigned(first)) == 4, "all partitions")
        second.subscribe([topic])
        poll_until([first, second], lambda: shared([first, second], 4), "half each")
        assert set(revoked) == assigned(second)
        assert len(revoked) == 2


def test_two_groups_read_independently(cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    send(producer(cluster), topic, [b"%d" % each for each in range(10)])
    for name in (group, f"{group}-other"):
        with consumer(cluster, name) as reader:
            reader.subscribe([topic])
            messages = take(reader, 10)
            reader.commit(message=messages[-1], asynchronous=False)


def test_nothing_is_lost_or_doubled_over_a_clean_handover(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    writer = producer(cluster)
    for partition in (0, 1):
        send(writer, topic, [b"%d" % each for each in range(50)], partition=partition)
    seen = []
    with consumer(cluster, group, enable_auto_commit=True) as reader:
        reader.subscribe([topic])
        seen += take(reader, 37)
    with consumer(cluster, group, enable_auto_commit=True) as reader:
        reader.subscribe([topic])
        seen += take(reader, 63)
        assert reader.poll(0.2) is None
    places = [(each.partition(), each.offset()) for each in seen]
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(50)]


def test_a_static_member_restarts_without_a_rebalance(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=4)
    rebalances: list[str] = []
    stays = new_consumer(cluster, group, group_instance_id="stays")
    leaves = new_consumer(cluster, group, group_instance_id="leaves")
    stays.subscribe(
        [topic],
        on_assign=lambda *_: rebalances.append("assign"),
        on_revoke=lambda *_: rebalances.append("revoke"),
    )
    leaves.subscribe([topic])
    poll_until([stays, leaves], lambda: shared([stays, leaves], 4), "half each")
    before, mine = list(rebalances), assigned(leaves)
    leaves.close()
    back = new_consumer(cluster, group, group_instance_id="leaves")
    back.subscribe([topic])
    poll_until([stays, back], lambda: assigned(back), "the old assignment")
    assert assigned(back) == mine
    assert rebalances == before
    back.close()
    stays.close()


def test_the_older_of_two_with_one_instance_id_is_fenced(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    older = new_consumer(cluster, group, group_instance_id="desk")
    older.subscribe([topic])
    poll_until([older], lambda: assigned(older), "the first one's assignment")
    with consumer(cluster, group, group_instance_id="desk") as newer:
        newer.subscribe([topic])
        poll_until([newer], lambda: assigned(newer), "the second one's assignment")
        error = take_error(older)
        assert error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
    older.close()


def test_a_static_member_that_stays_away_loses_its_partitions(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    gone = new_consumer(cluster, group, group_instance_id="gone", session_timeout_ms=1000)
    with consumer(cluster, group, group_instance_id="stays") as stays:
        for each in (gone, stays):
            each.subscribe([topic])
        poll_until([gone, stays], lambda: shared([gone, stays], 2), "one each")
        gone.close()
        poll_until([stays], lambda: len(assigned(stays)) == 2, "both partitions")


@contextmanager
def reader_process(cluster: Cluster, group: str, topic: str, **options: Any) -> Iterator[Any]:
    script = Path(__file__).with_name("reader_process.py")
    arguments = [cluster.bootstrap, group, topic, json.dumps(options)]
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_event(process: Any, name: str) -> Any:
    for line in process.stdout:
        event = json.loads(line)
        if event.get(name):
            return event
    raise AssertionError("the reader ended")


def test_a_killed_consumers_partitions_are_taken_over(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    send(producer(cluster), topic, [b"v"] * 3, partition=0)
    with (
        reader_process(cluster, group, topic, **{"session.timeout.ms": 1000}) as process,
        consumer(cluster, group) as survivor,
    ):
        assert next_event(process, "assigned")["assigned"] == [0, 1]
        survivor.subscribe([topic])
        poll_until([survivor], lambda: len(assigned(survivor)) == 1, "one partition")
        process.send_signal(signal.SIGKILL)
        poll_until([survivor], lambda: len(assigned(survivor)) == 2, "both partitions")


def test_a_stopped_process_is_replaced_and_comes_back_as_a_new_member(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    with (
        reader_process(cluster, group, topic, **{"session.timeout.ms": 1000}) as process,
        consumer(cluster, group) as other,
    ):
        next_event(process, "assigned")
        other.subscribe([topic])
        poll_until([other], lambda: len(assigned(other)) == 1, "one partition")
        process.send_signal(signal.SIGSTOP)
        poll_until([other], lambda: len(assigned(other)) == 2, "both partitions")
        process.send_signal(signal.SIGCONT)
        poll_until([other], lambda: len(assigned(other)) == 1, "one partition again")


def test_a_consumer_that_does_not_poll_loses_its_place(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    send(producer(cluster), topic, [b"v"] * 3)
    limits = {"session_timeout_ms": 900, "max_poll_interval_ms": 1000}
    with consumer(cluster, group, **limits) as slow, consumer(cluster, group) as quick:
        slow.subscribe([topic])
        (message, *_) = take(slow, 3)
        quick.subscribe([topic])
        poll_until([quick], lambda: assigned(quick), "the slow one's partition")
        with pytest.raises(KafkaException) as raised:
            slow.commit(message=message, asynchronous=False)
        assert raised.value.args[0].code() in (
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.REBALANCE_IN_PROGRESS,
        )
        here = [TopicPartition(topic, 0)]
        assert quick.committed(here, 60)[0].offset < 0


def test_a_commit_from_outside_a_live_group_is_refused(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    with consumer(cluster, group) as member, consumer(cluster, group) as outsider:
        member.subscribe([topic])
        poll_until([member], lambda: assigned(member), "an assignment")
        with pytest.raises(KafkaException) as raised:
            outsider.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
        assert raised.value.args[0].code() in (
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.ILLEGAL_GENERATION,
        )
