"""Produce latency: one record at a time, acks=all, the next one sent when the last is acknowledged.

Once with the raw client (the broker, two system calls and the loopback) and once with confluent-kafka
and no linger (what a Python program sees, its two threads included). One partition.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from bench.broker import batches, machine, wire
from bench.broker.contestants import Broker
from bench.broker.meter import Meter
from bench.broker.plan import Plan, say
from bench.broker.raw import rotated
from bench.broker.results import Results

SendOne = Callable[[], None]


def measure(plan: Plan, brokers: list[Broker], results: Results) -> None:
    for turn in range(plan.latency_rounds):
        for broker in rotated(brokers, turn):
            with wire.Connection(broker.bootstrap) as connection:
                topic = f"latency-{os.urandom(4).hex()}"
                wire.create_topic(connection, topic, 1)
                sends = {
                    "raw": _raw(connection, topic),
                    "confluent-kafka": _confluent(broker.bootstrap, topic),
                }
                for client, send in sends.items():
                    _round(plan, broker, results, client, send)
                wire.delete_topic(connection, topic)


def _round(plan: Plan, broker: Broker, results: Results, client: str, send: SendOne) -> None:
    for _ in range(plan.latency_records // 5):
        send()
    machine.settle(plan.home, 1)
    with Meter(broker.pid) as usage:
        taken_ms = sorted(_timed(send) for _ in range(plan.latency_records))
    metrics = {name: taken_ms[int(len(taken_ms) * share)] for name, share in _PERCENTILES.items()}
    results.add(f"latency, {client}", broker.contestant, metrics | usage.metrics(len(taken_ms)))
    shown = " ".join(f"{name[:-3]} {value:.2f}" for name, value in metrics.items())
    say(f"latency, {client}: {broker.name:14} {shown} ms")


_PERCENTILES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}


def _timed(send: SendOne) -> float:
    begin = time.perf_counter_ns()
    send()
    return (time.perf_counter_ns() - begin) / 1e6


def _raw(connection: wire.Connection, topic: str) -> SendOne:
    frame = wire.produce_frame(topic, {0: batches.build(100, 0).data})

    def send() -> None:
        connection.send(frame)
        wire.check_produced(connection.receive())

    return send


def _confluent(bootstrap: str, topic: str) -> SendOne:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    value = os.urandom(100)
    arrived: list[KafkaError | None] = []

    def note(error: KafkaError | None, _: Message) -> None:
        arrived.append(error)

    def send() -> None:
        producer.produce(topic, value, on_delivery=note)
        while not arrived:
            producer.poll(1.0)
        error = arrived.pop()
        if error is not None:
            raise wire.Refused(str(error))

    return send
