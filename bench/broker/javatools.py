"""Throughput as Kafka's own tools print it: ProducerPerformance and ConsumerPerformance.

The Java client with its defaults and acks=all. Each tool is a new JVM that compiles while it runs,
on the same cores as the broker, so its first records are slow: the producer's rate is taken after a
warm-up that the tool itself leaves out, the consumer's without the wait for its group.
"""

from __future__ import annotations

import os
import re

from bench.broker import machine, wire
from bench.broker.contestants import Broker
from bench.broker.meter import Meter
from bench.broker.plan import PARTITIONS, RECORD_SIZES, Plan, say
from bench.broker.raw import rotated
from bench.broker.results import Results
from headwater.testing.apache_kafka import java_tool

_TOOLS = "org.apache.kafka.tools."
_RATE = re.compile(r"([\d.]+) records/sec")
_TIMEOUT_S = 180.0


def measure(plan: Plan, brokers: list[Broker], results: Results) -> None:
    for turn in range(plan.java_rounds):
        for record_bytes, records in zip(RECORD_SIZES, plan.java_records, strict=True):
            if record_bytes in plan.java_sizes:
                for broker in rotated(brokers, turn):
                    _round(plan, broker, results, record_bytes, records)


def _round(plan: Plan, broker: Broker, results: Results, record_bytes: int, records: int) -> None:
    topic = f"java-{record_bytes}-{os.urandom(4).hex()}"
    scenario = f"Kafka's perf tools, {record_bytes} B"
    with wire.Connection(broker.bootstrap) as admin:
        wire.create_topic(admin, topic, PARTITIONS)
        machine.settle(plan.home, records * record_bytes // 1_000_000)
        with Meter(broker.pid) as usage:
            produced = _producer_performance(broker.bootstrap, topic, record_bytes, records)
        metrics = {"records_per_s": produced, **usage.metrics(records)}
        results.add(f"produce, {scenario}", broker.contestant, metrics)
        with Meter(broker.pid) as usage:
            fetched = _consumer_performance(broker.bootstrap, topic, records)
        metrics = {"records_per_s": fetched, **usage.metrics(records)}
        results.add(f"fetch, {scenario}", broker.contestant, metrics)
        wire.delete_topic(admin, topic)
    say(
        f"{scenario}: {broker.name:14} "
        f"produce {produced / 1e6:5.2f} M/s, fetch {fetched / 1e6:5.2f} M/s"
    )


def _producer_performance(bootstrap: str, topic: str, record_bytes: int, records: int) -> float:
    output = _run(
        "ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(records), "--record-size", str(record_bytes)),
        *("--warmup-records", str(records // 4), "--command-property", "acks=all"),
    )
    return float(_RATE.findall(output)[-1])  # the last line is the one without the warm-up


def _consumer_performance(bootstrap: str, topic: str, records: int) -> float:
    output = _run(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
    )
    names, values = (line.split(", ") for line in output.strip().splitlines()[-2:])
    row = dict(zip(names, values, strict=True))
    if int(row["data.consumed.in.nMsg"]) < records:
        raise wire.Refused(f"ConsumerPerformance read {row['data.consumed.in.nMsg']} of {records}")
    return float(row["fetch.nMsg.sec"])


def _run(tool: str, *args: str) -> str:
    done = java_tool(_TOOLS + tool, *args, timeout=_TIMEOUT_S)
    if done.returncode:
        raise wire.Refused(f"{tool} failed: {(done.stdout + done.stderr).strip()[-1500:]}")
    return done.stdout
