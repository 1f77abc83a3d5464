"""A changefeed to many clients: the time from the append to each of them, and what a client costs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.edges.clients import STAMP
from bench.edges.plan import Plan
from bench.edges.servers import Server, edges, make_topic, plain
from bench.spark.results import Results

ROOT = Path(__file__).parents[2]
CONSUMER = "one Kafka consumer, beside them"
SETTLE_S = 2.0
_numbers = count()


def measure(results: Results, home: Path, bootstrap: str, plan: Plan) -> None:
    scenario = f"changefeed to {plan.clients:,} clients, {plan.records_per_second} records/s"
    for turn in range(plan.rounds):
        for make in (edges, plain) if turn % 2 == 0 else (plain, edges):
            with make(home, bootstrap) as server:
                _one(server, bootstrap, 20, 20, 50)  # code paths, and what is imported late
                figures, beside = _one(
                    server, bootstrap, plan.clients, plan.records, plan.records_per_second
                )
                results.add(scenario, server.name, figures)
                if make is edges:
                    results.add(scenario, CONSUMER, beside)


def _one(
    server: Server, bootstrap: str, clients: int, records: int, rate: int
) -> tuple[dict[str, float], dict[str, float]]:
    topic = f"feed-{next(_numbers)}"
    make_topic(bootstrap, topic)
    before_kb = server.resident_kb
    words = ["bench.edges.listeners", str(server.port), f"/topics/{topic}?from=end", str(clients)]
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as listeners:  # fmt: skip
        assert listeners.stdin is not None and listeners.stdout is not None
        if listeners.stdout.readline() != "ready\n":
            raise RuntimeError(f"{server.name}: the clients could not connect")
        time.sleep(SETTLE_S)
        per_client_kb = (server.resident_kb - before_kb) / clients
        with _Beside(bootstrap, topic) as beside:
            cpu_s = server.cpu_s
            _produce(bootstrap, topic, records, rate)
            listeners.stdin.write(f"{records}\n")
            listeners.stdin.flush()
            found = json.loads(listeners.stdout.readline())
            cpu_s = server.cpu_s - cpu_s
    if found["complete"] != clients:
        raise RuntimeError(f"{server.name}: not every client had every record: {found}")
    figures = {
        "p50_ms": found["p50_ms"],
        "p99_ms": found["p99_ms"],
        "kb_per_client": per_client_kb,
        "cpu_s_per_million": cpu_s / found["received"] * 1e6,
    }
    return figures, beside.figures()


def _produce(bootstrap: str, topic: str, records: int, rate: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
    )
    producer.list_topics(topic, timeout=10)
    begin = time.perf_counter()
    for number in range(records):
        value = b'{"id":%d,"kind":"order.placed",%s%d}' % (number, STAMP, time.monotonic_ns())
        producer.produce(topic, value)
        producer.poll(max(0.0, begin + (number + 1) / rate - time.perf_counter()))
        time.sleep(max(0.0, begin + (number + 1) / rate - time.perf_counter()))
    if producer.flush(30):
        raise RuntimeError("not all records were stored")


class _Beside:
    """A plain consumer of the same records, in the same moments: what the log itself takes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._times_ns: list[int] = []
        self._stop = threading.Event()
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
             "fetch.wait.max.ms": 500, "log_level": 0}
        )  # fmt: skip
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._thread = threading.Thread(target=self._run, name="beside")

    def __enter__(self) -> _Beside:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def figures(self) -> dict[str, float]:
        ordered = sorted(self._times_ns)
        return {
            "p50_ms": ordered[len(ordered) // 2] / 1e6,
            "p99_ms": ordered[int(0.99 * (len(ordered) - 1))] / 1e6,
        }

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                value = message.value() or b""
                at = value.index(STAMP) + len(STAMP)
                self._times_ns.append(time.monotonic_ns() - int(value[at:-1]))
