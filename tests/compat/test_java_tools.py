"""Kafka's own Java tools (4.3) against both servers; each starts a JVM, so each test does much."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, java_tool, kafka_jars

from .cluster import Cluster
from .confluent import consumer, poll_until, producer, send
from .missing import skip_or_fail

Tool = Callable[..., str]
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="session")
def class_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first tool leaves its loaded classes, so that later JVMs start twice as quickly."""
    return tmp_path_factory.mktemp("jvm") / "classes.jsa"


@pytest.fixture
def tool(cluster: Cluster, class_archive: Path) -> Tool:
    """Run a tool with --bootstrap-server; returns what it printed."""
    try:
        kafka_jars()
    except MissingServer as missing:
        skip_or_fail(f"Kafka's tools cannot run here: {missing}")

    def run(name: str, *arguments: str, text: str | None = None, fails: bool = False) -> str:
        address = ["--bootstrap-server", cluster.bootstrap]
        share = "SharedArchiveFile" if class_archive.exists() else "ArchiveClassesAtExit"
        jvm = (*QUICK_JVM, f"-XX:{share}={class_archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        done = java_tool(name, *address, *arguments, input=text, jvm=jvm)
        said = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, said
        return said

    return run


def test_topic_command(cluster: Cluster, tool: Tool, topic: str) -> None:
    command = f"{TOOLS}.TopicCommand"
    made = tool(
        command, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=99999"
    )
    assert f"Created topic {topic}." in made
    cluster.created.append(topic)
    described = tool(command, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=99999" in described
    again = tool(command, "--create", "--topic", topic, fails=True)
    assert "already exists" in again
    assert topic in tool(command, "--list").split()


def test_config_command(cluster: Cluster, tool: Tool, topic: str) -> None:
    cluster.create_topic(topic)
    entity = ["--entity-type", "topics", "--entity-name", topic]
    changed = tool(
        "kafka.admin.ConfigCommand", *entity, "--alter", "--add-config", "segment.ms=77777"
    )
    assert "Completed updating config" in changed
    described = tool("kafka.admin.ConfigCommand", *entity, "--describe")
    assert "segment.ms=77777" in described
    assert "DYNAMIC_TOPIC_CONFIG:segment.ms=77777" in described


def test_consumer_group_command(cluster: Cluster, tool: Tool, topic: str, group: str) -> None:
    cluster.create_topic(topic, partitions=2)
    command = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    send(producer(cluster), topic, [b"v"] * 10, partition=0)
    with consumer(cluster, group, client_id="reader-1") as reader:
        reader.subscribe([topic])
        poll_until([reader], reader.assignment, "an assignment")
        reader.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        live = tool(command, "--group", group, "--describe")
        row = next(line.split() for line in live.splitlines() if re.search(rf"{topic}\s+0\s", line))
        assert row[3:6] == ["4", "10", "6"]
        assert "reader-1" in live
    reset = ["--reset-offsets", "--to-earliest", "--topic", topic, "--execute"]
    assert re.search(rf"{topic}\s+0\s+0", tool(command, "--group", group, *reset))
    deleted = tool(command, "--group", group, "--delete")
    assert "was successful" in deleted


def test_get_offset_shell(cluster: Cluster, tool: Tool, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    send(producer(cluster), topic, [b"v"] * 3, partition=1)
    found = tool(f"{TOOLS}.GetOffsetShell", "--topic", topic)
    assert found.split() == [f"{topic}:0:0", f"{topic}:1:3"]
    newest = tool(f"{TOOLS}.GetOffsetShell", "--topic", topic, "--time", "max-timestamp")
    assert f"{topic}:1:" in newest


def test_console_producer_and_consumer(
    cluster: Cluster, tool: Tool, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    keyed = ["--property", "parse.key=true", "--property", "key.separator=:"]
    lines = "".join(f"k{each}:line {each}\n" for each in range(50))
    tool(f"{TOOLS}.ConsoleProducer", "--topic", topic, *keyed, text=lines)
    printed = tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "50"),
        *("--property", "print.key=true", "--property", "key.separator=:"),
        *("--property", "print.offset=true", "--timeout-ms", "60000"),
    )
    rows = [line for line in printed.splitlines() if line.startswith("Offset:")]
    assert rows == [f"Offset:{each}:k{each}:line {each}" for each in range(50)]


def test_performance_tools(cluster: Cluster, tool: Tool, topic: str) -> None:
    cluster.create_topic(topic, partitions=3)
    produced = tool(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--command-property", "compression.type=lz4"),
    )
    assert "20000 records sent" in produced
    consumed = tool(
        f"{TOOLS}.ConsumerPerformance",
        *("--topic", topic, "--num-records", "20000", "--timeout", "60000"),
    )
    counted = consumed.splitlines()[-1].split(", ")
    assert int(counted[4]) == 20_000


def test_delete_records_and_log_dirs(
    cluster: Cluster, tool: Tool, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(topic)
    send(producer(cluster), topic, [b"v"] * 10)
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 6}], "version": 1}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(wanted))
    said = tool(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 6" in said
    listed = tool(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic)
    found = json.loads(next(line for line in listed.splitlines() if line.startswith("{")))
    (directory,) = found["brokers"][0]["logDirs"]
    (row,) = directory["partitions"]
    assert (row["partition"], row["size"] > 0, directory["error"]) == (f"{topic}-0", True, None)


def test_broker_api_versions(cluster: Cluster, tool: Tool) -> None:
    said = tool(f"{TOOLS}.BrokerApiVersionsCommand")
    assert cluster.bootstrap in said
    for api in ("Produce", "Fetch", "Metadata", "JoinGroup", "InitProducerId", "ApiVersions"):
        assert re.search(rf"{api}\(\d+\): .*\[usable: \d+\]", said), api
