"""Whether history costs anything: the append rate and the restart after kill -9, small log and large.

The same brokers, stage by stage, so that the stages alternate:

    fill to 50 MB ─ append windows ─ kill -9 ─ restart ─ fill to N GB ─ append windows ─ kill -9 ─ restart

A window is some hundred MB of 1 KB records in 256 KB batches, written after the disk has caught up.
Restart is from the new process's start to a record acknowledged in every partition.
"""

from __future__ import annotations

import os
import shutil

from bench.broker import batches, raw, wire
from bench.broker.contestants import ALL, DEFAULTS, Broker
from bench.broker.meter import Meter
from bench.broker.plan import PARTITIONS, Plan, say
from bench.broker.results import Results
from bench.broker.start import first_ack

_TOPIC = "growth"
_WINDOWS = 5


def measure(plan: Plan, results: Results) -> None:
    contestants = ALL if plan.growth_everywhere else DEFAULTS
    brokers = [Broker(each, plan.home / f"growth {each.name}") for each in contestants]
    batch = batches.build(1000, 262_144)
    stages = {"small": plan.small_log_mb, "large": plan.large_log_mb}
    try:
        for broker in brokers:
            broker.start()
            with wire.Connection(broker.bootstrap) as connection:
                wire.create_topic(connection, _TOPIC, PARTITIONS)
        for size, megabytes in stages.items():
            for broker in brokers:
                _append(broker, batch, megabytes)
            for turn in range(_WINDOWS):
                for broker in raw.rotated(brokers, turn):
                    _window(plan, broker, batch, size, results)
            for broker in brokers:
                _crash(broker, batch, size, results)
    finally:
        for broker in brokers:
            broker.stop()
            shutil.rmtree(broker.data, ignore_errors=True)


def _append(broker: Broker, batch: batches.Batch, megabytes: int) -> int:
    """About so many megabytes; returns the records written."""
    per_request = batch.count * PARTITIONS
    bytes_per_round = per_request * batch.record_bytes * raw.CONNECTIONS
    requests = max(megabytes * 1_000_000 // bytes_per_round, 1)
    raw.produce(broker.bootstrap, _TOPIC, batch, requests)
    return requests * raw.CONNECTIONS * per_request


def _window(plan: Plan, broker: Broker, batch: batches.Batch, size: str, results: Results) -> None:
    os.sync()
    with Meter(broker.pid) as usage:
        records = _append(broker, batch, plan.window_mb)
    metrics = {"records_per_s": records / usage.wall_s, **usage.metrics(records)}
    results.add(f"append to a {size} log", broker.contestant, metrics)
    say(f"append, {size} log: {broker.name:14} {metrics['records_per_s'] / 1e6:5.2f} M/s")


def _crash(broker: Broker, batch: batches.Batch, size: str, results: Results) -> None:
    """Kill it right after an acknowledged write, so that the tail is as fresh as it can be."""
    _append(broker, batch, 10)
    broker.kill()
    broker.start()
    seconds = first_ack(broker, _TOPIC, PARTITIONS)
    results.add(f"restart after kill -9, {size} log", broker.contestant, {"first_ack_s": seconds})
    say(f"kill -9, {size} log: {broker.name:14} first record after {seconds:.2f} s")
