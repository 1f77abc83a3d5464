"""Kafka Connect: a file into a topic and the topic into a file, by workers of the distributed kind."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from headwater.project.ports import free_port
from tests.compat.cluster import Cluster
from tests.compat.confluent import consumer
from tests.ecosystem.programs import Program, java, of_page, running, written

pytestmark = pytest.mark.timeout(900)
WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"


class Connect:
    """A worker's REST interface."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """None while it does not answer."""
        asked = urllib.request.Request(
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=120) as answer:
                return json.load(answer)
        except OSError:
            return None

    def runs(self, name: str) -> bool:
        status = self.ask(f"/connectors/{name}/status") or {"tasks": []}
        return [task["state"] for task in status["tasks"]] == ["RUNNING"]


def worker(cluster: Cluster, name: str, port: int, folder: Path) -> list[str]:
    named = {
        "127.0.0.1:9092": cluster.bootstrap,
        "127.0.0.1:8083": f"127.0.0.1:{port}",
        "group.id=connect": f"group.id={name}",
        "topic=connect": f"topic={name}",
    }
    settings = written(
        folder / "worker.properties",
        of_page("Kafka Connect", named),
        offset_flush_interval_ms=200,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    return java(WORKER, settings)


def made(connect: Connect, program: Program, name: str, kind: str, **settings: Any) -> None:
    config = {"connector.class": f"FileStream{kind}", "tasks.max": 1, **settings}
    program.until(lambda: connect.ask("/connectors", {"name": name, "config": config}), name)
    program.until(lambda: connect.runs(name), f"{name} to run")


def test_lines_go_through_a_topic_into_another_file_exactly_once_across_a_kill(
    cluster: Cluster, new_name: Callable[[], str], tmp_path: Path
) -> None:
    name, topic, port = new_name(), cluster.create_topic(new_name()), free_port()
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    command, connect = worker(cluster, name, port, tmp_path), Connect(port)
    source.write_text("".join(f"line {n}\n" for n in range(1000)), encoding="utf-8")

    def is_there(lines: int) -> bool:
        # Each once: what its group had not committed before the kill, the sink writes again.
        return target.exists() and len(set(target.read_text().split("\n")[:-1])) >= lines

    with running(command, tmp_path / "log") as program:
        program.until(lambda: connect.ask("/"), "the worker")
        made(connect, program, "in", "Source", file=str(source), topic=topic)
        made(connect, program, "out", "Sink", file=str(target), topics=topic)
        program.until(lambda: is_there(1000), "the first thousand lines")
        program.kill()
    with source.open("a", encoding="utf-8") as more:
        more.writelines(f"line {n}\n" for n in range(1000, 2000))
    with running(command, tmp_path / "log") as program:
        program.until(lambda: is_there(2000), "the second thousand lines")
    lines = [f"line {n}" for n in range(2000)]
    assert values(cluster, topic) == lines, "exactly once"
    assert list(dict.fromkeys(target.read_text().splitlines())) == lines, "at least once, in order"


def values(cluster: Cluster, topic: str) -> list[str]:
    """All that readers of committed records see, up to the end."""
    found: list[str] = []
    options = {"isolation_level": "read_committed", "enable_partition_eof": True}
    with consumer(cluster, f"{topic}-reader", **options) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = reader.poll(60)
            assert message is not None, f"{len(found)} values, and no end"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            found.append(message.value().decode())
