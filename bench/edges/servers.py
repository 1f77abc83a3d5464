"""The processes that are measured, each a child of the benchmark, and what they use of memory and CPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from headwater.project.broker_process import BrokerProcess
from headwater.project.ports import free_port

START_S = 60.0
HEADWATER, PLAIN = "headwater", "plain handler + confluent-kafka"
_TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """One that answers HTTP at `port`."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], port: int, told: Path) -> None:
        self.name, self.port, self.pid = name, port, process.pid
        self._process, self._told = process, told

    @property
    def resident_kb(self) -> float:
        """Private and shared, of the process alone; what it gives back slowly still counts."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1])
        raise RuntimeError(f"{self.name} has no memory: has it ended?")

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def metric(self, name: str) -> float:
        """The sum of a metric of GET /metrics over all its labels."""
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith((name + "{", name + " "))
        )

    def wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self._told.read_text()[-2000:]}")
            try:
                with urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.name} does not answer: {self._told.read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@contextmanager
def broker(home: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(home / "log") as running:
        running.start()
        yield running


@contextmanager
def edges(home: Path, bootstrap: str, more: str = "") -> Iterator[Server]:
    """`headwater edges` with this in its file, below [edges]."""
    port = free_port()
    folder = home / "edges"
    folder.mkdir(exist_ok=True)
    (folder / "headwater.toml").write_text(
        f'[log]\nbootstrap = "{bootstrap}"\n[edges]\nlisten = "127.0.0.1:{port}"\n{more}'
    )
    words = ["headwater", "edges", "--project", "headwater.toml"]
    with _started(HEADWATER, words, folder, port) as server:
        yield server


@contextmanager
def plain(home: Path, bootstrap: str, *more: str) -> Iterator[Server]:
    port = free_port()
    words = ["bench.edges.plain", "--bootstrap", bootstrap, "--port", str(port), *more]
    with _started(PLAIN, words, home, port) as server:
        yield server


@contextmanager
def _started(name: str, words: list[str], folder: Path, port: int) -> Iterator[Server]:
    told = folder / f"{words[0]}.txt"
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    with told.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder,
            stdout=output,
            stderr=output,
            env=environment,
        )
    server = Server(name, process, port, told)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def make_topic(bootstrap: str, name: str, partitions: int = 1) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    client.create_topics([NewTopic(name, partitions, 1)])[name].result()
    deadline = time.monotonic() + 30
    while name not in client.list_topics(timeout=10).topics:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the topic {name} does not come")
        time.sleep(0.02)


def end_offset(bootstrap: str, topic: str) -> int:
    """Of all partitions together."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    numbers = client.list_topics(topic, timeout=10).topics[topic].partitions
    places = {TopicPartition(topic, number): OffsetSpec.latest() for number in numbers}
    return sum(found.result().offset for found in client.list_offsets(places).values())
