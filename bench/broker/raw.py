"""Throughput of the brokers themselves: batches made beforehand, answers thrown away.

Four connections, each with five requests in flight, each request with one batch for each of four
partitions (what a producer sends when it is busy); then four connections that fetch one partition
each. The client hardly works, so that the rate is the broker's own limit on this machine.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from bench.broker import batches, machine, wire
from bench.broker.contestants import Broker
from bench.broker.meter import Meter
from bench.broker.plan import PARTITIONS, RECORD_SIZES, Plan, say
from bench.broker.results import Results

CONNECTIONS = 4
IN_FLIGHT = 5


def measure(plan: Plan, brokers: list[Broker], results: Results) -> None:
    for turn in range(plan.rounds):
        for batch_bytes in plan.batch_sizes:
            for record_bytes in RECORD_SIZES:
                for broker in rotated(brokers, turn):
                    _round(plan, broker, results, record_bytes, batch_bytes)


def warm_up(plan: Plan, brokers: list[Broker]) -> None:
    """Let Kafka's JVM compile what will be measured: its CPU per record halves in the first 15 s."""
    small = replace(plan, raw_mb=50)
    for broker in brokers:
        seconds = plan.warm_up_s if broker.contestant.product == "kafka" else 2.0
        say(f"warm up {broker.name} for {seconds:.0f} s")
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            for record_bytes in RECORD_SIZES:
                for batch_bytes in plan.batch_sizes:
                    _round(small, broker, Results(), record_bytes, batch_bytes, quiet=True)


def rotated(brokers: list[Broker], turn: int) -> list[Broker]:
    """Another one goes first in each round, so that none always follows the same neighbour."""
    shift = turn % len(brokers)
    return brokers[shift:] + brokers[:shift]


def _round(
    plan: Plan,
    broker: Broker,
    results: Results,
    record_bytes: int,
    batch_bytes: int,
    quiet: bool = False,
) -> None:
    batch = batches.build(record_bytes, batch_bytes)
    topic = f"raw-{batch_bytes}-{record_bytes}-{os.urandom(4).hex()}"
    scenario = f"raw {batch_bytes // 1024} KB batches, {record_bytes} B"
    per_request = batch.count * PARTITIONS
    requests = max(plan.raw_mb * 1_000_000 // (per_request * record_bytes) // CONNECTIONS, 1)
    records = requests * CONNECTIONS * per_request
    with wire.Connection(broker.bootstrap) as admin:
        topic_id = wire.create_topic(admin, topic, PARTITIONS)
        machine.settle(plan.home, plan.raw_mb)
        with Meter(broker.pid) as usage:
            produce(broker.bootstrap, topic, batch, requests)
        metrics = {"records_per_s": records / usage.wall_s, **usage.metrics(records)}
        results.add(f"produce, {scenario}", broker.contestant, metrics)
        said = f"produce {metrics['records_per_s'] / 1e6:5.2f} M/s"
        with Meter(broker.pid) as usage:
            fetch(broker.bootstrap, topic_id, batch, records // PARTITIONS)
        metrics = {"records_per_s": records / usage.wall_s, **usage.metrics(records)}
        results.add(f"fetch, {scenario}", broker.contestant, metrics)
        wire.delete_topic(admin, topic)
    if not quiet:
        say(f"{scenario}: {broker.name:14} {said}, fetch {metrics['records_per_s'] / 1e6:5.2f} M/s")


def produce(bootstrap: str, topic: str, batch: batches.Batch, requests: int) -> None:
    """Send `requests` on each connection and wait for the last acknowledgement."""
    frame = wire.produce_frame(topic, dict.fromkeys(range(PARTITIONS), batch.data))

    def send_all(number: int, connection: wire.Connection) -> None:
        for sent in range(requests + IN_FLIGHT):
            if sent >= IN_FLIGHT:
                wire.check_produced(connection.receive())
            if sent < requests:
                connection.send(frame)

    _on_connections(bootstrap, send_all)


def fetch(bootstrap: str, topic_id: bytes, batch: batches.Batch, end_offset: int) -> None:
    """Read every partition up to `end_offset`. All batches are alike, so sizes give the offsets."""

    def read_all(partition: int, connection: wire.Connection) -> None:
        request, offset, size = wire.FetchFrame(topic_id, partition), 0, len(batch.data)
        while offset < end_offset:
            connection.send(request.at(offset))
            records = wire.fetched_records(connection.receive())
            offset += len(records) // size * batch.count
        assert offset == end_offset, f"partition {partition} ends at {offset}, not {end_offset}"

    _on_connections(bootstrap, read_all)


def _on_connections(bootstrap: str, work: Callable[[int, wire.Connection], None]) -> None:
    """One thread per connection; they hold the interpreter only between system calls."""
    ready = threading.Barrier(CONNECTIONS)

    def run(number: int) -> None:
        with wire.Connection(bootstrap) as connection:
            ready.wait(10)
            work(number, connection)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(run, number) for number in range(CONNECTIONS)]:
            done.result()
