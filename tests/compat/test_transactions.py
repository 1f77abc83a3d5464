"""Transactions with other people's clients: confluent-kafka, kafka-python, aiokafka, Java's tools.

librdkafka, kafka-python and aiokafka speak the older protocol (they add partitions themselves), the
Java tools and `test_wire_transactions` the newer one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from headwater.testing.apache_kafka import QUICK_JVM, java_tool

from .cluster import Cluster
from .confluent import consumer, producer, take
from .test_java_tools import TOOLS, Tool, class_archive, tool
from .transacting import Transactor
from .waiting import until
from .wire import Wire

__all__ = ["class_archive", "tool"]
Transactional = Callable[..., Producer]
STATUS = re.compile(r'"transactionStatus":(\d)')


@pytest.fixture
def transactional(cluster: Cluster, new_name: Callable[[], str]) -> Transactional:
    def make(name: str = "", **options: object) -> Producer:
        made = producer(cluster, transactional_id=name or new_name(), **options)
        made.init_transactions(15)
        return made

    return make


def read(cluster: Cluster, topic: str, level: str, partitions: int = 1) -> list[bytes]:
    """All values up to the end that this isolation level sees."""
    found = []
    options = {"isolation_level": level, "enable_partition_eof": True}
    with consumer(cluster, "reader-of-" + topic, **options) as reader:
        reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ends = 0
        while ends < partitions:
            message = reader.poll(60)
            assert message is not None, "no end of the partition"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                ends += 1
            else:
                found.append(message.value())
    return sorted(found)


# ---- confluent-kafka -----------------------------------------------------------------------------


def test_confluent_commits_and_aborts(
    cluster: Cluster, topic: str, transactional: Transactional
) -> None:
    cluster.create_topic(topic, partitions=2)
    made = transactional()
    for number in range(6):
        made.begin_transaction()
        for partition in (0, 1):
            made.produce(topic, b"%d-%d" % (number, partition), partition=partition)
        made.flush(60)  # else an aborted record might never be sent
        if number % 2:
            made.abort_transaction(15)
        else:
            made.commit_transaction(15)
    kept = [b"%d-%d" % (number, partition) for number in (0, 2, 4) for partition in (0, 1)]
    assert read(cluster, topic, "read_committed", 2) == kept
    assert len(read(cluster, topic, "read_uncommitted", 2)) == 12


def test_confluent_does_not_read_what_is_still_open(
    cluster: Cluster, topic: str, transactional: Transactional
) -> None:
    cluster.create_topic(topic)
    made = transactional()
    made.begin_transaction()
    made.produce(topic, b"open")
    made.flush(60)
    assert read(cluster, topic, "read_committed") == []
    assert read(cluster, topic, "read_uncommitted") == [b"open"]
    made.commit_transaction(15)
    until(lambda: read(cluster, topic, "read_committed") == [b"open"], "the commit")


def test_confluent_fences_the_older_producer(
    cluster: Cluster, topic: str, transactional: Transactional, new_name: Callable[[], str]
) -> None:
    cluster.create_topic(topic)
    name = new_name()
    old = transactional(name)
    old.begin_transaction()
    old.produce(topic, b"old")
    old.flush(60)
    young = transactional(name)
    with pytest.raises(KafkaException) as raised:
        old.commit_transaction(15)
    assert raised.value.args[0].code() == KafkaError._FENCED
    young.begin_transaction()
    young.produce(topic, b"young")
    young.commit_transaction(15)
    until(lambda: read(cluster, topic, "read_committed") == [b"young"], "the younger one's")


def consume_transform_produce(
    source: Consumer, made: Producer, topic: str, count: int, *, commit: bool
) -> None:
    """Read, write the reverse and the position, in one transaction."""
    messages = take(source, count)
    made.begin_transaction()
    for message in messages:
        made.produce(topic, message.value()[::-1])
    positions = source.position(source.assignment())
    made.send_offsets_to_transaction(positions, source.consumer_group_metadata(), 15)
    if commit:
        made.commit_transaction(15)
    else:
        made.abort_transaction(15)


def test_confluent_commits_offsets_and_output_together(
    cluster: Cluster, new_name: Callable[[], str], group: str, transactional: Transactional
) -> None:
    source, target = (cluster.create_topic(new_name()) for _ in range(2))
    plain = producer(cluster)
    for number in range(10):
        plain.produce(source, b"%03d" % number)
    assert plain.flush(60) == 0
    made = transactional()
    for commit, count in ((True, 4), (False, 3), (True, 6)):
        with consumer(cluster, group, isolation_level="read_committed") as reader:
            reader.subscribe([source])
            consume_transform_produce(reader, made, target, count, commit=commit)
    wanted = sorted((b"%03d" % number)[::-1] for number in range(10))
    until(lambda: read(cluster, target, "read_committed") == wanted, "the output")


# ---- kafka-python and aiokafka -------------------------------------------------------------------


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_kafka_python_commits_and_aborts(
    cluster: Cluster, topic: str, new_name: Callable[[], str], closing: ExitStack
) -> None:
    cluster.create_topic(topic)
    made = KafkaProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id=new_name(), linger_ms=1
    )
    closing.callback(made.close, timeout=5)
    made.init_transactions()
    for number in range(4):
        made.begin_transaction()
        made.send(topic, b"%d" % number, partition=0).get(timeout=60)
        if number % 2:
            made.abort_transaction()
        else:
            made.commit_transaction()
    reader = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    closing.callback(reader.close)
    reader.assign([PythonPartition(topic, 0)])
    reader.seek_to_beginning()
    found: list[bytes] = []

    def complete() -> bool:
        for messages in reader.poll(timeout_ms=200).values():
            found.extend(message.value for message in messages)
        return len(found) >= 2 and reader.position(PythonPartition(topic, 0)) >= 8

    until(complete, "the committed records")
    assert found == [b"0", b"2"]


async def test_aiokafka_commits_aborts_and_sends_offsets(
    cluster: Cluster, topic: str, group: str, new_name: Callable[[], str]
) -> None:
    cluster.create_topic(topic)
    made = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id=new_name(), linger_ms=1
    )
    await made.start()
    try:
        async with made.transaction():
            await made.send_and_wait(topic, b"kept", partition=0)
        await made.begin_transaction()
        await made.send_and_wait(topic, b"dropped", partition=0)
        await made.abort_transaction()
        async with made.transaction():
            await made.send_and_wait(topic, b"kept, too", partition=0)
    finally:
        await made.stop()
    reader = AIOKafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        group_id=group,
    )
    await reader.start()
    try:
        found = [(await reader.getone()).value for _ in range(2)]
    finally:
        await reader.stop()
    assert found == [b"kept", b"kept, too"]


# ---- Kafka's own tools ---------------------------------------------------------------------------


def test_the_transactions_command(
    cluster: Cluster, wire: Wire, tool: Tool, topic: str, new_name: Callable[[], str]
) -> None:
    cluster.create_topic(topic)
    one = Transactor(wire, new_name(), 2).init()
    start = one.write(topic, b"hanging")
    command = f"{TOOLS}.TransactionsCommand"
    listed = tool(command, "list")
    assert [line for line in listed.splitlines() if one.name in line and "Ongoing" in line]
    described = tool(command, "describe", "--transactional-id", one.name)
    assert f"{topic}-0" in described
    where = ("--topic", topic, "--partition", "0")
    producers = tool(command, "describe-producers", *where)
    assert str(one.id) in producers
    tool(command, "abort", *where, "--start-offset", str(start))
    assert read(cluster, topic, "read_committed") == []
    assert "hanging" not in tool(command, "describe-producers", *where)


def test_the_java_producer_commits_in_transactions(
    cluster: Cluster, tool: Tool, topic: str, new_name: Callable[[], str]
) -> None:
    """It chooses the newer protocol by the feature `transaction.version`."""
    cluster.create_topic(topic)
    name = new_name()
    said = tool(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "50", "--throughput", "-1"),
        *("--transactional-id", name, "--transaction-duration-ms", "50"),
    )
    assert "2000 records sent" in said
    until(lambda: len(read(cluster, topic, "read_committed")) == 2000, "all records")


def test_kafka_reads_the_files(
    cluster: Cluster, wire: Wire, tool: Tool, topic: str, new_name: Callable[[], str]
) -> None:
    if cluster.data is None:
        pytest.skip("the files of a server elsewhere cannot be read")
    cluster.create_topic(topic)
    one = Transactor(wire, new_name(), 2).init()
    for commit in (True, False):
        one.write(topic, b"x")
        one.end(commit)

    def dump(*arguments: str, files: list[Path]) -> str:
        names = ",".join(map(str, files))
        done = java_tool(f"{TOOLS}.DumpLogSegments", *arguments, "--files", names, jvm=QUICK_JVM)
        assert done.returncode == 0, done.stderr
        return done.stdout

    data = dump("--deep-iteration", files=[cluster.data / f"{topic}-0" / f"{0:020d}.log"])
    assert data.count("endTxnMarker: COMMIT") == data.count("endTxnMarker: ABORT") == 1
    logs = sorted(cluster.data.glob("__transaction_state-*/*.log"))
    mine = [
        line
        for line in dump("--transaction-log-decoder", files=logs).splitlines()
        if one.name in line
    ]
    statuses = [int(found[1]) for line in mine if (found := STATUS.search(line))]
    assert statuses == [0, 1, 2, 4, 1, 3, 5]  # Empty, Ongoing, PrepareCommit, CompleteCommit, …
