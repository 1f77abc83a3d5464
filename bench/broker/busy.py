"""`python -m bench.broker.busy`: a broker with much to do at once, and how long it served nobody at most.

One thousand connections produce to one thousand partitions, half of them compacted, while compaction and
excision run. It ends by itself. Reported are the throughput and the longest turn of the event loop, with the
stacks that the broker's watchdog has seen, and how long the loop's thread ran in it: on a machine with more
work than processors a turn takes longer than it has to do. It fails if compaction or excision made no
progress: then the figures would be of another broker. There is no peer: Kafka has no event loop to compare
with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import struct
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.broker import wire
from headwater.browse.health import HealthReader
from headwater.client.log import Log
from headwater.log.checkpoints import CLEANED_OFFSETS
from headwater.log.excision import Selection
from headwater.project.broker_process import BrokerProcess
from headwater.record import records

RECORD_BYTES = 100
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "connections.max.idle.ms": "600000",
    "event.loop.turn.warn.ms": "20",
}
PLAIN = {"internal.segment.bytes": "4000000", "retention.bytes": "50000000"}
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "30000",
    "min.cleanable.dirty.ratio": "0.1",
}
_STACK = re.compile(r"busy for (\d+) ms(.*?):\n((?:  .*\n?)+)")


@dataclass
class Size:
    connections: int
    partitions: int
    seconds: float
    records: int = 100
    """In each request."""


class Load:
    """Connections that produce, each as fast as it is answered."""

    def __init__(self, bootstrap: str, size: Size) -> None:
        self._host, _, port = bootstrap.rpartition(":")
        self._port = int(port)
        self._size = size
        self.records = 0
        self.latencies: list[float] = []
        self.refused: Counter[str] = Counter()

    async def run(self) -> None:
        until = time.monotonic() + self._size.seconds
        numbers = range(self._size.connections)
        await asyncio.gather(*(self._connection(number, until) for number in numbers))

    async def _connection(self, number: int, until: float) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        frame = _frame(number, self._size)
        try:
            while time.monotonic() < until:
                began = time.monotonic()
                writer.write(frame)
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await reader.readexactly(length)
                wire.check_produced(memoryview(answer)[5:])
                self.records += self._size.records
                self.latencies.append(time.monotonic() - began)
        except (wire.Refused, OSError, asyncio.IncompleteReadError) as error:
            self.refused[str(error)] += 1
        finally:
            writer.close()


def _frame(number: int, size: Size) -> bytes:
    """A request for one partition, the even ones compacted."""
    now_ms = time.time_ns() // 1_000_000
    batch = records.build(
        [
            records.Record(n, now_ms, b"key-%d" % ((number * 7 + n) % 500), bytes(RECORD_BYTES))
            for n in range(size.records)
        ]
    )
    topic = "compacted" if number % 2 else "plain"
    return wire.produce_frame(topic, {number // 2 % max(1, size.partitions // 2): batch})


async def excise(bootstrap: str, seconds: float) -> None:
    """One request after the other, each through all partitions of the plain topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        target = Selection.of_key(b"key-%d" % (number % 500), "00" * 16)
        request = {
            "id": uuid.uuid4().hex,
            "topic": "plain",
            "target": {"salt": target.salt, "digest": target.digest},
            "partitions": [number % 8],
            "who": "bench",
        }
        producer.produce("__headwater_excisions", json.dumps(request).encode(), partition=0)
        await asyncio.to_thread(producer.flush, 10)
        number += 1
        await asyncio.sleep(1)


def prepare(bootstrap: str, size: Size) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    half = max(1, size.partitions // 2)
    forever = {"retention.ms": "-1", "retention.bytes": "-1"}
    wanted = [
        NewTopic("plain", half, 1, config=PLAIN),
        NewTopic("compacted", half, 1, config=COMPACTED),
        NewTopic("__headwater_excisions", 1, 1, config=forever),
    ]
    for future in client.create_topics(wanted, operation_timeout=120).values():
        future.result()


async def measure(bootstrap: str, size: Size) -> Load:
    load = Load(bootstrap, size)
    await asyncio.gather(load.run(), excise(bootstrap, size.seconds))
    return load


def report(load: Load, size: Size, bootstrap: str, output: str) -> None:
    with Log(bootstrap) as log:
        time.sleep(2)  # the broker tells how it is at most once a second
        health = HealthReader(log).look()
    latencies = sorted(load.latencies) or [0.0]
    print(f"load of the machine     {', '.join(f'{each:.1f}' for each in os.getloadavg())}")
    print(f"connections {size.connections}, partitions {size.partitions}, {size.seconds:.0f} s")
    print(f"records per second      {load.records / size.seconds:,.0f}")
    print(f"requests per second     {len(load.latencies) / size.seconds:,.0f}")
    for share in (0.5, 0.99, 1.0):
        at = latencies[min(len(latencies) - 1, int(share * len(latencies)))]
        print(f"acknowledged, {share:>4.0%}      {at * 1000:,.0f} ms")
    for sentence, count in load.refused.items():
        print(f"refused                 {count} × {sentence}")
    if health is not None:
        loop = health.loop
        ran_ms, most_ms = loop.get("longest_turn_ran_ms"), loop.get("longest_run_ms")
        print(f"longest turn            {loop.get('longest_turn_ms')} ms ({ran_ms} ms of work)")
        print(f"most work in a turn     {most_ms} ms")
        print(f"turns above {loop.get('limit_ms')} ms       {loop.get('slow_turns')}")
        print(loop.get("longest_stack") or "", *health.troubles, sep="\n")
    for milliseconds, more, stack in sorted(_STACK.findall(output), key=lambda s: -int(s[0]))[:8]:
        print(f"{milliseconds} ms{more}\n{stack}")


def partitions_compacted(folder: Path) -> int:
    """As the broker has noted it when it was stopped."""
    rows = [line.split() for line in (folder / CLEANED_OFFSETS).read_text().splitlines()]
    return sum(len(row) == 3 and row[0] == "compacted" and int(row[2]) > 0 for row in rows)


def excised(bootstrap: str) -> int:
    """Excisions that were carried out."""
    audit = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 0})
    audit.assign([TopicPartition("__headwater_audit", 0, 0)])
    done = 0
    while (message := audit.poll(5)) is not None:
        if message.error() is None and json.loads(message.value() or b"")["status"] == "done":
            done += 1
    audit.close()
    return done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.broker.busy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 connections and partitions, 10 s")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    size = Size(given.connections, given.partitions, given.seconds)
    if given.quick:
        size = Size(200, 200, 10.0)
    _raise_files_limit()
    scratch = Path(__file__).resolve().parents[2] / ".cache"  # fsync means nothing on a tmpfs
    scratch.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=scratch) as home,
        BrokerProcess(Path(home) / "log", settings=SETTINGS) as broker,
    ):
        broker.start()
        prepare(broker.bootstrap, size)
        load = asyncio.run(measure(broker.bootstrap, size))
        report(load, size, broker.bootstrap, broker.output())
        excisions = excised(broker.bootstrap)
        broker.stop()
        compacted = partitions_compacted(Path(home) / "log")
        print(f"partitions compacted    {compacted}")
        print(f"excisions               {excisions}")
    if not compacted or not excisions:
        print("compaction or excision made no progress: run it for longer")
        return 1
    return 0


def _raise_files_limit() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
