"""Whether history costs anything: the append rate and the restart after kill -9, small log and large.

All brokers go through the same stages, taking turns:

    50 MB ─ kill -9 ─ restart ─ fill topic "large" to N GB ─ windows ─ kill -9 ─ restart

A window appends some hundred MB of 1 KB records in 256 KB batches, after the disk has caught up: once to
a new topic that holds 50 MB, once to the large one, again and again, so that a slow minute of the machine
hits both. Restart is from the new process's start to a record acknowledged in every partition.
"""

from __future__ import annotations

import shutil

from bench.broker import batches, machine, raw, wire
from bench.broker.contestants import ALL, DEFAULTS, Broker
from bench.broker.meter import Meter
from bench.broker.plan import PARTITIONS, Plan, say
from bench.broker.results import Results
from bench.broker.start import first_ack
from headwater.testing.apache_kafka import KafkaStartError

_WINDOWS = 5
_BATCH = batches.build(1000, 262_144)


def measure(plan: Plan, results: Results) -> None:
    contestants = ALL if plan.growth_everywhere else DEFAULTS
    started = [Broker(each, plan.home / f"growth {each.name}") for each in contestants]
    try:
        for broker in started:
            broker.start()
            _create(broker, "large")
            _append(broker, "large", plan.small_log_mb)
        brokers = [each for each in started if _comes_back(each, "small", results)]
        for broker in brokers:
            say(f"fill {broker.name} with {plan.large_log_mb} MB")
            _append(broker, "large", plan.large_log_mb)
        for turn in range(_WINDOWS):
            for broker in raw.rotated(brokers, turn):
                _windows(plan, broker, turn, results)
        for broker in brokers:
            _comes_back(broker, "large", results)
    finally:
        for broker in started:
            broker.stop()
            shutil.rmtree(broker.data, ignore_errors=True)


def _create(broker: Broker, topic: str) -> None:
    with wire.Connection(broker.bootstrap) as connection:
        wire.create_topic(connection, topic, PARTITIONS)


def _append(broker: Broker, topic: str, megabytes: int) -> int:
    """About so many megabytes; returns the records written."""
    per_request = _BATCH.count * PARTITIONS
    bytes_per_turn = per_request * _BATCH.record_bytes * raw.CONNECTIONS
    requests = max(megabytes * 1_000_000 // bytes_per_turn, 1)
    raw.produce(broker.bootstrap, topic, _BATCH, requests)
    return requests * raw.CONNECTIONS * per_request


def _windows(plan: Plan, broker: Broker, turn: int, results: Results) -> None:
    small = f"small-{turn}"
    _create(broker, small)
    _append(broker, small, plan.small_log_mb)
    rates = {}
    for size, topic in (("small", small), ("large", "large"))[:: 1 if turn % 2 else -1]:
        machine.settle(plan.home, plan.window_mb)
        with Meter(broker.pid) as usage:
            records = _append(broker, topic, plan.window_mb)
        rates[size] = records / usage.wall_s
        metrics = {"records_per_s": rates[size], **usage.metrics(records)}
        results.add(f"append to a {size} log", broker.contestant, metrics)
    with wire.Connection(broker.bootstrap) as connection:
        wire.delete_topic(connection, small)
    shown = ", ".join(f"to a {size} log {rate / 1e6:.2f} M/s" for size, rate in rates.items())
    say(f"append: {broker.name:14} {shown}")


def _comes_back(broker: Broker, size: str, results: Results) -> bool:
    """Kill it right after an acknowledged write, so that the tail is as fresh as it can be."""
    _append(broker, "large", 10)
    broker.kill()
    try:
        broker.start()
    except KafkaStartError as error:
        say(f"kill -9, {size} log: {broker.name} did not start again: {str(error)[-300:]}")
        return False
    seconds = first_ack(broker, "large", PARTITIONS)
    results.add(f"restart after kill -9, {size} log", broker.contestant, {"first_ack_s": seconds})
    say(f"kill -9, {size} log: {broker.name:14} first record after {seconds:.2f} s")
    return True
