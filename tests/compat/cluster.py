"""The servers under test: headwater as a real process, Apache Kafka as a real process.

Both get the same settings, by Kafka's names, so that a difference in a test is a difference
between the servers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.project.ports import free_port
from headwater.testing.apache_kafka import QUICK_JVM, apache_kafka

from .waiting import until
from .wire import ErrorCode, Wire, connected

TARGETS = ("headwater", "kafka")
# Short intervals, so that a test of retention or of a dead consumer takes a second and not minutes.
SETTINGS = {
    "num.partitions": "2",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "group.min.session.timeout.ms": "500",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "30000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.session.timeout.ms": "30000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
}
# Apache Kafka waits half a minute before its first look at retention; it has no public name for it.
KAFKA_ONLY = {"log.initial.task.delay.ms": "200"}


@dataclass(frozen=True)
class Cluster:
    """One server: `target` is which, `bootstrap` where, `data` its log dir where we know it."""

    target: str
    bootstrap: str
    data: Path | None = None
    created: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def wire(self) -> Iterator[Wire]:
        with connected(self.bootstrap) as wire:
            yield wire

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create and wait until every partition has a leader; `_` in a config's name is a dot."""
        pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        self.created.append(name)
        with self.wire() as wire:
            answer = wire.ask(
                "create_topics", 7, topics=[{**topic, "configs": pairs}], timeout=60_000
            )
            assert answer.topics[0].error_code is ErrorCode.none, answer
            until(lambda: _is_served(wire, name, partitions), f"{name} to be served")
        return name

    def grow_topic(self, name: str, partitions: int) -> None:
        """Wait until every partition has a leader: a producer that knows of none drops the record."""
        with self.wire() as wire:
            wanted = [{"name": name, "count": partitions, "assignments": None}]
            answer = wire.ask("create_partitions", 3, topics=wanted, timeout=60_000)
            assert answer.results[0].error_code is ErrorCode.none, answer
            until(
                lambda: _is_served(wire, name, partitions),
                f"{name} to have {partitions} partitions",
            )

    def tidy(self) -> None:
        """Delete what the last test created: with a thousand topics, every client's look at all
        of them becomes slow."""
        if self.created:
            with self.wire() as wire:
                gone = [{"name": name} for name in self.created]
                wire.ask("delete_topics", 6, topics=gone, timeout=60_000)
            self.created.clear()

    def topic_id(self, name: str) -> Any:
        with self.wire() as wire:
            answer = wire.ask(
                "metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False
            )
            return answer.topics[0].topic_id


def _is_served(wire: Wire, name: str, partitions: int) -> bool:
    """Apache Kafka names a leader a moment before that leader serves the partition."""
    wanted = [{"partition_index": each, "timestamp": -1} for each in range(partitions)]
    topics = [{"name": name, "partitions": wanted}]
    answer = wire.ask("list_offsets", 7, replica_id=-1, topics=topics)
    return all(each.error_code is ErrorCode.none for each in answer.topics[0].partitions)


@contextlib.contextmanager
def running(target: str) -> Iterator[Cluster]:
    """Start the named server; it is stopped at the end."""
    if target == "kafka":
        with apache_kafka({**SETTINGS, **KAFKA_ONLY}, jvm=QUICK_JVM) as kafka:
            yield Cluster(target, kafka.bootstrap, kafka.data)
    elif target == "headwater":
        with (
            tempfile.TemporaryDirectory(prefix="headwater-compat-") as home,
            headwater_process(Path(home) / "data") as (bootstrap, _),
        ):
            yield Cluster(target, bootstrap, Path(home) / "data")
    else:
        yield Cluster("external", target)


@contextlib.contextmanager
def headwater_process(
    data: Path, port: int = 0, **settings: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`headwater broker` on a data folder: its address and process; SIGTERM at the end.

    A test may kill the process itself; one that dies unasked is a failure.
    """
    port = port or free_port()
    chosen = [f"--set={name}={value}" for name, value in {**SETTINGS, **settings}.items()]
    command = [sys.executable, "-m", "headwater", "broker", "--data", str(data)]
    log = data.with_suffix(".log")
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{port}", *chosen],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        try:
            until(lambda: _answers(process, port), "headwater to answer")
        except Exception as unanswered:
            said = log.read_text()[-3000:]
            unanswered.add_note(f"exit code {process.poll()}; headwater said:\n{said}")
            raise
        yield f"127.0.0.1:{port}", process
        assert process.poll() in (None, 0, -signal.SIGKILL), f"it died:\n{log.read_text()[-3000:]}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "headwater ended before it answered"
    try:
        with connected(f"127.0.0.1:{port}") as wire:
            return bool(wire.versions)
    except OSError:
        return False
