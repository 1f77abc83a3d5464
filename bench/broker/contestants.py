"""The brokers that take part: headwater and Apache Kafka, each with and without fsync.

A `Broker` starts, stops and kills one of them on a data folder of its own, all four on the same
disk. The measurements see only its address, its process and its folder. Kafka gets the JVM heap and
flags of its own start script.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.broker import meter, wire
from headwater.testing.apache_kafka import apache_kafka

Durability = Literal["disk", "os"]
KAFKA_HEAP = "1g"
"""What kafka-server-start.sh gives it: -Xms1G -Xmx1G."""
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",  # else every Java consumer first waits for 3 s
    "log.segment.delete.delay.ms": "1000",  # else the rounds' topics pile up on the disk
}
_KAFKA_SETTINGS = {
    # After kill -9 Kafka refuses itself until its old session has ended, by default for 9 s. That is
    # not the log's recovery, so it is made short.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
_STOP_DEADLINE_S = 30.0


class CannotRun(Exception):
    """One sentence about what this machine lacks."""


@dataclass(frozen=True)
class Contestant:
    """`durability`: "disk" acknowledges after the data is on disk, "os" before."""

    product: Literal["headwater", "kafka"]
    durability: Durability

    @property
    def name(self) -> str:
        return f"{self.product} {self.durability}"


HEADWATER_DISK = Contestant("headwater", "disk")
HEADWATER_OS = Contestant("headwater", "os")
KAFKA_DISK = Contestant("kafka", "disk")
KAFKA_OS = Contestant("kafka", "os")
ALL = (HEADWATER_DISK, KAFKA_OS, HEADWATER_OS, KAFKA_DISK)
DEFAULTS = (HEADWATER_DISK, KAFKA_OS)
"""What each of the two does when nobody sets anything."""


class Broker:
    """One contestant on one data folder; may be started again after it was stopped or killed."""

    def __init__(self, contestant: Contestant, data: Path) -> None:
        self.contestant = contestant
        self.data = data
        self.bootstrap = ""
        self.pid = 0
        self._running = contextlib.ExitStack()

    @property
    def name(self) -> str:
        return self.contestant.name

    def start(self) -> float:
        """Start it; returns the seconds from process start until it answers Metadata."""
        settings = dict(SETTINGS)
        if self.contestant.product == "kafka":
            settings |= _KAFKA_SETTINGS
            if self.contestant.durability == "disk":
                settings["log.flush.interval.messages"] = "1"
            kafka = self._running.enter_context(
                apache_kafka(settings=settings, heap=KAFKA_HEAP, log_dir=self.data)
            )
            self.bootstrap, self.pid = kafka.bootstrap, kafka.pid
        else:
            running = _headwater(self.data, self.contestant.durability, settings)
            self.bootstrap, self.pid = self._running.enter_context(running)
        with wire.Connection(self.bootstrap) as connection:
            assert wire.answers_metadata(connection)
        return meter.age_s(self.pid)

    def stop(self) -> None:
        self._running.close()

    def kill(self) -> None:
        """kill -9: what a crash of the process leaves behind."""
        os.kill(self.pid, signal.SIGKILL)
        self._running.close()


@contextlib.contextmanager
def running(contestants: tuple[Contestant, ...], home: Path) -> Iterator[list[Broker]]:
    """All of them at once, so that rounds can alternate; stopped at the end."""
    with contextlib.ExitStack() as stack:
        brokers = [Broker(each, home / each.name.replace(" ", "-")) for each in contestants]
        for broker in brokers:
            stack.callback(broker.stop)
            broker.start()
        yield brokers


@contextlib.contextmanager
def _headwater(
    data: Path, durability: Durability, settings: dict[str, str]
) -> Iterator[tuple[str, int]]:
    command = headwater_command(data, durability, settings)
    data.mkdir(parents=True, exist_ok=True)
    log = data.parent / f"{data.name}.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C stops the benchmark, and the benchmark stops it
        )
    try:
        assert process.stdout is not None
        address = ready_address(process.stdout.readline().decode())
        if address is None:
            process.kill()
            raise CannotRun(f"headwater broker did not start: {log.read_text()[-2000:].strip()}")
        yield address, process.pid
    except Exception as error:
        error.add_note(f"{data.name} said at last: {log.read_text()[-1500:].strip() or 'nothing'}")
        raise
    finally:
        stop(process)


def headwater_command(data: Path, durability: Durability, settings: dict[str, str]) -> list[str]:
    """The command of the environment that runs the benchmark, as a user would type it."""
    program = Path(sys.executable).parent / "headwater"
    if not program.exists():
        raise CannotRun(f"{program} is not there: run `make setup` first")
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    listen = ["--listen", "127.0.0.1:0", "--durability", durability]
    return [str(program), "broker", "--data", str(data), *listen, *options]


def ready_address(line: str) -> str | None:
    """The address in the line that `headwater broker` prints when it is ready."""
    found = re.search(r"127\.0\.0\.1:\d+", line)
    return found.group() if found else None


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then patience, then SIGKILL."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
