"""Events in by HTTP: bulk (NDJSON) and one at a time, counted once they are stored."""

from __future__ import annotations

import asyncio
import statistics
import time
from itertools import count
from pathlib import Path

from confluent_kafka import Producer

from bench.edges.clients import Asked, ask, request
from bench.edges.plan import Plan, event
from bench.edges.servers import Server, edges, end_offset, make_topic, plain
from bench.spark.results import Results

BULK, SINGLE = "HTTP, {} records a request", "HTTP, one record a request"
ALONE = "confluent-kafka alone, no HTTP"
_numbers = count()


def measure(results: Results, home: Path, bootstrap: str, plan: Plan) -> None:
    with edges(home, bootstrap) as ours, plain(home, bootstrap) as peer:
        for server in (ours, peer):
            _bulk(server, bootstrap, plan, 0.5)  # connections, code paths, the broker's files
        for turn in range(plan.rounds):
            for server in (ours, peer) if turn % 2 == 0 else (peer, ours):
                name = BULK.format(f"{plan.lines:,}")
                results.add(name, server.name, _bulk(server, bootstrap, plan, plan.seconds))
                results.add(SINGLE, server.name, _single(server, bootstrap, plan, plan.seconds))
            results.add(BULK.format(f"{plan.lines:,}"), ALONE, _alone(bootstrap, plan))


def _bulk(server: Server, bootstrap: str, plan: Plan, seconds: float) -> dict[str, float]:
    body = b"".join(event(plan.record_bytes, n) + b"\n" for n in range(plan.lines))
    kind = "application/x-ndjson"
    return _asked(server, bootstrap, body, kind, plan.lines, plan.bulk_connections, seconds)


def _single(server: Server, bootstrap: str, plan: Plan, seconds: float) -> dict[str, float]:
    body, kind = event(plan.record_bytes), "application/json"
    return _asked(server, bootstrap, body, kind, 1, plan.single_connections, seconds)


def _asked(
    server: Server,
    bootstrap: str,
    body: bytes,
    kind: str,
    records: int,
    connections: int,
    seconds: float,
) -> dict[str, float]:
    topic = f"in-{next(_numbers)}"
    make_topic(bootstrap, topic)
    message = request(server.port, f"/topics/{topic}", kind, body)
    cpu_s = server.cpu_s
    asked: Asked = asyncio.run(ask(server.port, message, connections, seconds))
    cpu_s = server.cpu_s - cpu_s
    stored, said = end_offset(bootstrap, topic), asked.requests * records
    if asked.refused or stored != said or not said:
        raise RuntimeError(
            f"{server.name}: {said} acknowledged, {stored} stored, refused {asked.refused}"
        )
    times = sorted(asked.times_ms)
    return {
        "per_s": said / asked.seconds,
        "p50_ms": statistics.median(times),
        "p99_ms": times[int(0.99 * (len(times) - 1))],
        "cpu_s_per_million": cpu_s / said * 1e6,
    }


def _alone(bootstrap: str, plan: Plan) -> dict[str, float]:
    """What the client library takes by itself, from a Python loop: nothing of HTTP can be quicker."""
    topic = f"in-{next(_numbers)}"
    make_topic(bootstrap, topic)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0,
         "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    value, sent = event(plan.record_bytes), 0
    begin = time.perf_counter()
    while time.perf_counter() < begin + plan.seconds / 2:
        for _ in range(plan.lines):
            try:
                producer.produce(topic, value)
                sent += 1
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    seconds = time.perf_counter() - begin
    stored = end_offset(bootstrap, topic)
    if stored != sent:
        raise RuntimeError(f"{sent} sent, {stored} stored")
    return {"per_s": stored / seconds}
