"""Kafka's Java consumer with `group.protocol=consumer`, and its command for groups, on both servers."""

from __future__ import annotations

from .cluster import Cluster
from .confluent import poll_until, producer, send
from .test_confluent_consumer_protocol import member, parts
from .test_java_tools import TOOLS, Tool, class_archive, tool

__all__ = ["class_archive", "tool"]

NEWER = ("--command-property", "group.protocol=consumer")


def test_the_console_consumer_reads_by_pattern_with_the_newer_protocol(
    cluster: Cluster, tool: Tool, topic: str, group: str
) -> None:
    cluster.create_topic(topic, 2)
    made = producer(cluster)
    for partition in range(2):
        send(made, topic, [f"{partition} {n}".encode() for n in range(25)], partition=partition)
    console = f"{TOOLS}.consumer.ConsoleConsumer"
    common = ("--group", group, "--from-beginning", "--timeout-ms", "60000", *NEWER)
    printed = tool(console, "--include", f"{topic}.*", "--max-messages", "50", *common)
    lines = [line for line in printed.splitlines() if line[:2] in ("0 ", "1 ")]
    assert sorted(lines) == sorted(f"{p} {n}" for p in range(2) for n in range(25))

    command = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    state = tool(command, "--describe", "--group", group, "--state", "--verbose")
    assert "Empty" in state
    offsets = tool(command, "--describe", "--group", group)
    assert "has no active members" in offsets
    rows = [line.split() for line in offsets.splitlines() if line.startswith(group)]
    assert sum(int(row[3]) for row in rows) == 50, "what was read was committed"


def test_the_group_command_describes_members(
    cluster: Cluster, tool: Tool, topic: str, group: str
) -> None:
    cluster.create_topic(topic, 2)
    send(producer(cluster), topic, [b"v"] * 3, partition=1)
    reader = member(cluster, group, topic, client_id="reader")
    poll_until([reader], lambda: len(parts(reader)) == 2, "the partitions")
    command = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    state = tool(command, "--describe", "--group", group, "--state", "--verbose")
    (row,) = [line.split() for line in state.splitlines() if line.startswith(group)]
    assert "uniform" in row
    assert "Stable" in row
    members = tool(command, "--describe", "--group", group, "--members", "--verbose")
    (row,) = [line.split() for line in members.splitlines() if line.startswith(group)]
    assert "reader" in row
    assert f"{topic}:0,1" in members
    listed = tool(command, "--list", "--type", "consumer", "--state", "stable")
    assert group in listed.split()
    refused = tool(command, "--delete", "--group", group)
    assert "GroupNotEmptyException" in refused
    reader.close()
    assert "was successful" in tool(command, "--delete", "--group", group)
