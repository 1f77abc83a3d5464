"""Workers and the broker killed again and again: every record is settled once, none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from .clients import QUICK, create_topic, read_all, until
from .process import BrokerProcess
from .share_lag import lag
from .share_worker import POISON

ROUNDS = 60 if os.environ.get("HEADWATER_SOAK") == "1" else 3
WORKERS = 3
PARTITIONS = 2
PARTITIONS_OF_DEAD = 3
"""num.partitions of the broker under test."""
TOPIC, GROUP, DEAD = "jobs", "workers", "dlq.workers"
SHARING = {
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.min.session.timeout.ms": 1000,
    "group.share.session.timeout.ms": 2000,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 2000,
    "group.share.delivery.count.limit": 10,
    "share.coordinator.snapshot.update.records.per.snapshot": 5,
}


class Workers:
    """Child processes, and what they wrote down."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._count = 0

    def start(self) -> None:
        self._count += 1
        script = Path(__file__).with_name("share_worker.py")
        file = self._folder / f"worker-{self._count}.txt"
        words = [sys.executable, str(script), self._bootstrap, TOPIC, GROUP, str(file)]
        self._running.append(subprocess.Popen(words))

    def kill(self, dice: Random) -> None:
        """kill -9 of one of them."""
        victim = self._running.pop(dice.randrange(len(self._running)))
        victim.kill()
        victim.wait()

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        self._running = []

    def events(self) -> list[tuple[float, str, int]]:
        """(time, got or done, number) of all workers, in order of time."""
        found = []
        for file in self._folder.glob("worker-*.txt"):
            for line in file.read_text().splitlines():
                words = line.split()
                if len(words) == 3 and words[2].isdigit():
                    found.append((float(words[0]), words[1], int(words[2])))
        return sorted(found)


@pytest.fixture
def workers(broker: BrokerProcess, tmp_path: Path) -> Iterator[Workers]:
    found = Workers(broker.bootstrap, tmp_path)
    yield found
    found.end()


def test_every_record_is_settled_once_and_none_is_lost(
    broker: BrokerProcess, workers: Workers, dice: Random, say: list[str]
) -> None:
    broker.stop()
    broker.start(**SHARING)
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    _begin_at_the_beginning(broker.bootstrap)
    for _ in range(WORKERS):
        workers.start()
    sent = 0
    for round_ in range(ROUNDS):
        sent = _send(broker.bootstrap, sent, dice.randint(200, 600))
        wanted = min(len(workers.events()) + dice.randint(1, 300), sent)
        until(lambda w=wanted: len(workers.events()) >= w, "work")  # type: ignore[misc]
        workers.kill(dice)
        if round_ % 2:
            broker.kill()
            broker.start(**SHARING)
        workers.start()
    until(lambda: lag(broker.bootstrap, GROUP, TOPIC, PARTITIONS) == 0, "all to be settled")
    workers.end()
    _judge(broker, workers.events(), sent, say)
    broker.stop()


def _begin_at_the_beginning(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def _send(bootstrap: str, first: int, count: int) -> int:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **QUICK})
    for number in range(first, first + count):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return first + count


def _judge(
    broker: BrokerProcess,
    events: list[tuple[float, str, int]],
    sent: int,
    say: list[str],
) -> None:
    got: dict[int, list[float]] = defaultdict(list)
    done: dict[int, list[float]] = defaultdict(list)
    for when, what, number in events:
        (got if what == "got" else done)[number].append(when)
    letters = Counter(int(r.value) for r in read_all(broker.bootstrap, DEAD, PARTITIONS_OF_DEAD))
    everything = set(range(sent))
    assert got.keys() == everything, sorted(everything - got.keys())[:10]
    assert not [n for n, times in done.items() if len(times) > 1], "settled twice"
    late = [n for n, times in done.items() if max(got[n]) > times[0]]
    assert not late, f"delivered again after it was settled: {late[:10]}"
    poison = {n for n in everything if n % POISON == 0}
    assert poison <= letters.keys(), f"dead letters lost: {sorted(poison - letters.keys())[:10]}"
    twice = [n for n, count in letters.items() if count > 1]
    assert not twice, f"dead letters twice: {twice[:10]}"
    again = sum(len(times) - 1 for times in got.values())
    say.append(
        f"share group, {ROUNDS} workers and {ROUNDS // 2} times the broker killed: {sent} records, "
        f"{len(letters)} dead letters, {again} deliveries again; lost: 0, settled twice: 0"
    )
