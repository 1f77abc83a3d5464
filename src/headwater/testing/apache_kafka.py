"""A real Apache Kafka on this machine, for tests and benchmarks: one node, broker and controller.

Called by `tests/compat` and `bench/`; nothing in the product imports it. The jars come from Maven
(its own settings say from where) into a cache folder, once; after that a node is up in about
two seconds and takes about 400 MB.

    with apache_kafka({"num.partitions": 4}) as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap})
        kafka.tool("org.apache.kafka.tools.TopicCommand",
                   "--bootstrap-server", kafka.bootstrap, "--list")

Traps: `settings` go into `server.properties` as they are, so a wrong name shows only in Kafka's
log (its last lines are in the error). Each node has its own ports and folders, so several can run.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.project.ports import free_port
from headwater.testing.kafka_jars import (
    KAFKA_VERSION,
    QUICK_JVM,
    MissingServer,
    find_program,
    java_tool,
    kafka_jars,
)

__all__ = [
    "KAFKA_VERSION",
    "QUICK_JVM",
    "ApacheKafka",
    "KafkaStartError",
    "MissingServer",
    "apache_kafka",
    "java_tool",
    "kafka_jars",
]

# What Kafka's own start script gives the JVM, so that a benchmark meets the usual Kafka.
_SERVER_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# One node cannot have three replicas, and fifty partitions of an internal topic are fifty folders.
# Classic, consumer and share groups need no setting: format switches them on for a new node.
_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
}
_START_DEADLINE_S = 60.0
_STOP_DEADLINE_S = 15.0


class KafkaStartError(HeadwaterError):
    """Kafka did not come up; the message carries the end of its log."""


@dataclass(frozen=True)
class ApacheKafka:
    """A running node. `data` is its log dir (one folder per partition), `log` its own log file."""

    bootstrap: str
    """Of the plain listener; the others are in `listeners`, by name."""
    pid: int
    data: Path
    log: Path
    classpath: str
    listeners: Mapping[str, str] = field(default_factory=dict)

    def tool(
        self,
        main_class: str,
        *args: str,
        input: str | None = None,
        timeout: float = 60.0,
        jvm: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a Java main class from Kafka's jars; see `java_tool`."""
        return java_tool(main_class, *args, input=input, timeout=timeout, jvm=jvm)


@contextlib.contextmanager
def apache_kafka(
    settings: Mapping[str, object] | None = None,
    heap: str = "512m",
    log_dir: Path | str | None = None,
    keep: bool = False,
    listeners: Mapping[str, str] | None = None,
    jvm: Sequence[str] = _SERVER_JVM,
) -> Iterator[ApacheKafka]:
    """One node of Apache Kafka on free loopback ports; stopped, and its folder removed, at the end.

    `log_dir` is kept and may be given again (a restart); `keep=True` keeps the temporary folder.
    `listeners` are more of them, beside the plain one: name → security protocol. `jvm=QUICK_JVM`
    is for tests, where a node that starts quickly is worth more than one that is fast later.
    """
    java = find_program("java", "openjdk-17-jre-headless")
    classpath = f"{kafka_jars()}/*"
    home = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
    data = Path(log_dir) if log_dir is not None else home / "data"
    try:
        more = dict(listeners or {})
        ports = [free_port() for _ in range(2 + len(more))]
        others = dict(zip(more, ports[2:], strict=True))
        properties = home / "server.properties"
        properties.write_text(_properties(ports, data, settings or {}, more))
        if not (data / "meta.properties").exists():
            _format(java, classpath, properties)
        log = home / "kafka.log"
        command = [java, f"-Xmx{heap}", f"-Xms{heap}", *jvm, "-cp", classpath]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a test run must not reach it before its clients
            )
        try:
            _wait_until_it_answers(process, ports[0], log)
            where = {name: f"127.0.0.1:{port}" for name, port in others.items()}
            first = f"127.0.0.1:{ports[0]}"
            yield ApacheKafka(first, process.pid, data, log, classpath, where)
        finally:
            _stop(process)
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


def _properties(
    ports: Sequence[int],
    data: Path,
    settings: Mapping[str, object],
    listeners: Mapping[str, str],
) -> str:
    broker, controller, *others = ports
    names = ["PLAINTEXT", *listeners]
    told = [
        f"{name}://127.0.0.1:{port}" for name, port in zip(names, [broker, *others], strict=True)
    ]
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **listeners}
    lines = {
        **_SINGLE_NODE,
        "listeners": ",".join([*told, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(told),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(data),
        **{name: str(value) for name, value in settings.items()},
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _format(java: str, classpath: str, properties: Path) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # As one word: an id may begin with a dash, and would be taken for another option.
    arguments = ["format", f"--cluster-id={cluster_id}", "-c", str(properties)]
    done = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-cp", classpath, "kafka.tools.StorageTool", *arguments],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise KafkaStartError(f"formatting failed: {(done.stdout + done.stderr)[-2000:]}")


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while not _knows_a_broker(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise KafkaStartError(f"Apache Kafka did not start; {log} ends:\n{_tail(log)}")
        time.sleep(0.02)  # between two questions, not instead of one


def _knows_a_broker(port: int) -> bool:
    """Ask Metadata v1 for no topics: the port opens before the broker has registered itself."""
    request = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.makefile("rb").read(12)
    except OSError:
        return False
    return len(answer) == 12 and struct.unpack(">iii", answer)[2] > 0


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
