"""Share consumers that people use: confluent-kafka's ShareConsumer and Kafka's own Java tools."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from .cluster import Cluster
from .confluent import QUICK, producer
from .sharing import configure
from .test_java_tools import TOOLS, Tool, class_archive, tool
from .waiting import AT_ONCE_SECONDS, until

__all__ = ["class_archive", "tool"]

ACCEPT, RELEASE, REJECT = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)


@contextlib.contextmanager
def worker(
    cluster: Cluster, group: str, topic: str, mode: str = "implicit", **options: Any
) -> Iterator[ShareConsumer]:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": mode,
        "log_level": 0,
        **QUICK,
        **options,
    }
    made = ShareConsumer(settings)
    made.subscribe([topic])
    try:
        yield made
    finally:
        made.close()


def send(cluster: Cluster, topic: str, values: list[str], **options: Any) -> None:
    sending = producer(cluster)
    for value in values:
        sending.produce(topic, value, **options)
    assert sending.flush(60) == 0


@pytest.fixture
def queue(cluster: Cluster, topic: str, group: str) -> str:
    """The topic's name, with a group that reads it from the beginning."""
    cluster.create_topic(topic)
    configure(cluster, group, share_auto_offset_reset="earliest")
    return topic


def taken(consumer: ShareConsumer, count: int, seconds: float = 30) -> list[Any]:
    """Poll until there are so many messages."""
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        found += [message for message in consumer.poll(0.5) if message.error() is None]
    return found


def test_records_are_accepted_by_the_next_poll(cluster: Cluster, queue: str, group: str) -> None:
    values = [str(number) for number in range(200)]
    send(cluster, queue, values)
    with worker(cluster, group, queue) as consumer:
        messages = taken(consumer, 200)
        assert [message.value().decode() for message in messages] == values
        assert {message.delivery_count() for message in messages} == {1}
        assert list(consumer.commit_sync(10).values()) == [None]
    with worker(cluster, group, queue) as consumer:
        assert list(consumer.poll(1.0)) == []


def test_each_record_is_settled_as_the_application_says(
    cluster: Cluster, queue: str, group: str
) -> None:
    send(cluster, queue, ["accept", "release", "reject"])
    kinds = {b"accept": ACCEPT, b"release": RELEASE, b"reject": REJECT}
    with worker(cluster, group, queue, "explicit") as consumer:
        for message in taken(consumer, 3):
            consumer.acknowledge(message, kinds[message.value()])
        assert list(consumer.commit_sync(10).values()) == [None]
        (again,) = taken(consumer, 1)
        assert (again.value(), again.delivery_count()) == (b"release", 2)
        consumer.acknowledge(again, ACCEPT)
        assert list(consumer.commit_sync(10).values()) == [None]
        assert list(consumer.poll(1.0)) == []


def test_a_record_goes_to_one_of_many_consumers(cluster: Cluster, queue: str, group: str) -> None:
    with contextlib.ExitStack() as stack:
        consumers = [stack.enter_context(worker(cluster, group, queue)) for _ in range(3)]
        seen: list[list[bytes]] = [[], [], []]
        deadline = time.monotonic() + 100
        sent = 0
        while sum(map(len, seen)) < 300 and time.monotonic() < deadline:
            if sent < 300:
                send(cluster, queue, [str(number) for number in range(sent, sent + 20)])
                sent += 20
            for consumer, mine in zip(consumers, seen, strict=True):
                mine += [m.value() for m in consumer.poll(0.05) if m.error() is None]
        for consumer in consumers:
            consumer.commit_sync(10)
        everything = sorted(int(value) for mine in seen for value in mine)
        assert everything == list(range(300)), "each one once"
        assert sum(bool(mine) for mine in seen) >= 2, "more than one of them had work"


def test_two_groups_get_everything_each(
    cluster: Cluster, queue: str, group: str, new_name: Callable[[], str]
) -> None:
    other = new_name()
    configure(cluster, other, share_auto_offset_reset="earliest")
    send(cluster, queue, ["a", "b", "c"])
    for name in (group, other):
        with worker(cluster, name, queue) as consumer:
            assert [m.value() for m in taken(consumer, 3)] == [b"a", b"b", b"c"]


def test_keys_headers_and_compression_arrive(cluster: Cluster, queue: str, group: str) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        sending = producer(cluster, compression_type=codec)
        for number in range(20):
            sending.produce(queue, f"{codec}{number}", key="k", headers={"h": codec})
        assert sending.flush(60) == 0
    with worker(cluster, group, queue) as consumer:
        messages = taken(consumer, 80)
    assert {m.key() for m in messages} == {b"k"}
    assert all(m.value().startswith(m.headers()[0][1]) for m in messages)


def test_a_consumer_that_closes_gives_back_what_it_has_not_settled(
    cluster: Cluster, queue: str, group: str
) -> None:
    send(cluster, queue, ["a", "b"])
    with worker(cluster, group, queue, "explicit") as consumer:
        first, second = taken(consumer, 2)
        consumer.acknowledge(first, ACCEPT)
        consumer.acknowledge(second, RELEASE)
    with worker(cluster, group, queue) as consumer:
        (again,) = taken(consumer, 1)
        assert (again.value(), again.delivery_count()) == (b"b", 2)


def test_new_records_arrive_soon(cluster: Cluster, queue: str, group: str) -> None:
    with worker(cluster, group, queue) as consumer:
        send(cluster, queue, ["first"])
        taken(consumer, 1)
        began = time.monotonic()
        send(cluster, queue, ["second"])
        taken(consumer, 1)
        assert time.monotonic() - began < AT_ONCE_SECONDS


def test_kafkas_console_share_consumer(
    cluster: Cluster, tool: Tool, queue: str, group: str
) -> None:
    send(cluster, queue, [f"line {number}" for number in range(10)])
    console = f"{TOOLS}.consumer.ConsoleShareConsumer"
    options = ("--topic", queue, "--group", group)
    said = tool(console, *options, "--max-messages", "6", "--timeout-ms", "60000")
    assert [line for line in said.splitlines() if line.startswith("line")] == [
        f"line {number}" for number in range(6)
    ]
    said = tool(console, *options, "--reject", "--max-messages", "4", "--timeout-ms", "60000")
    assert "line 9" in said


def test_kafkas_share_group_command(cluster: Cluster, tool: Tool, queue: str, group: str) -> None:
    command = f"{TOOLS}.consumer.group.ShareGroupCommand"
    send(cluster, queue, ["a", "b", "c"])
    with worker(cluster, group, queue) as consumer:
        taken(consumer, 3)
        consumer.commit_sync(10)
        said = tool(command, "--describe", "--group", group, "--members")
        assert "rdkafka" in said
        assert "Stable" in tool(command, "--list", "--state")

    def row() -> list[str]:
        said = tool(command, "--describe", "--group", group)
        rows = [line.split() for line in said.splitlines() if line.startswith(group)]
        return rows[0] if rows else []

    # Apache Kafka writes the start down as it was before the last acknowledgement; the lag is true.
    until(lambda: row()[-1:] == ["0"], "nothing to be left")
    reset = ("--reset-offsets", "--group", group, "--topic", queue, "--to-earliest", "--execute")
    assert queue in tool(command, *reset)
    assert row()[1:4] == [queue, "0", "0"]
    assert "Successful" in tool(command, "--delete-offsets", "--group", group, "--topic", queue)
    assert "successful" in tool(command, "--delete", "--group", group)
    assert group not in tool(command, "--list")


def test_read_committed_leaves_out_what_was_aborted_and_waits_for_what_is_open(
    cluster: Cluster, queue: str, group: str
) -> None:
    configure(cluster, group, share_isolation_level="read_committed")
    sending = producer(cluster, transactional_id=group)
    sending.init_transactions(20)
    for value, ending in (
        ("kept", sending.commit_transaction),
        ("aborted", sending.abort_transaction),
    ):
        sending.begin_transaction()
        for number in range(3):
            sending.produce(queue, f"{value} {number}")
        assert sending.flush(60) == 0
        ending(20)
    send(cluster, queue, ["plain"])
    sending.begin_transaction()
    sending.produce(queue, "open")
    assert sending.flush(60) == 0
    send(cluster, queue, ["behind"])
    with worker(cluster, group, queue) as consumer:
        found = [message.value() for message in taken(consumer, 4)]
        assert found == [b"kept 0", b"kept 1", b"kept 2", b"plain"]
        assert list(consumer.poll(1.0)) == []
        sending.commit_transaction(20)
        assert [message.value() for message in taken(consumer, 2)] == [b"open", b"behind"]
        consumer.commit_sync(10)
    with worker(cluster, group, queue) as consumer:
        assert list(consumer.poll(1.0)) == []


def test_read_uncommitted_takes_everything(cluster: Cluster, queue: str, group: str) -> None:
    sending = producer(cluster, transactional_id=group)
    sending.init_transactions(20)
    sending.begin_transaction()
    sending.produce(queue, "aborted")
    assert sending.flush(60) == 0
    sending.abort_transaction(20)
    send(cluster, queue, ["plain"])
    with worker(cluster, group, queue) as consumer:
        assert [message.value() for message in taken(consumer, 2)] == [b"aborted", b"plain"]
        consumer.commit_sync(10)
