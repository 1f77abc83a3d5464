"""StatsD lines by UDP, one a datagram: how many are stored of those that were sent, at which rate."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.edges.plan import Plan
from bench.edges.servers import Server, edges, end_offset, make_topic, plain
from bench.spark.results import Results

SLICE_S = 0.005
QUIET_S, DEADLINE_S = 1.0, 30.0
LINE = b"shop.checkout.orders:1|c|#country:de,plan:basic"
_numbers = count()
BRIDGE = """
[edges.bridges.metrics]
from = "statsd://127.0.0.1:{port}"
to = "topic:{topic}"
"""


def measure(results: Results, home: Path, bootstrap: str, plan: Plan) -> None:
    for rate in plan.udp_rates:
        scenario = f"StatsD, {rate:,} datagrams/s" if rate else "StatsD, as fast as can be sent"
        for make in (_ours, _peer):
            topic, port = f"udp-{next(_numbers)}", _free_udp_port()
            make_topic(bootstrap, topic)
            with make(home, bootstrap, port, topic) as server:
                _wait_until_it_listens(bootstrap, port, topic)
                results.add(
                    scenario, server.name, _measured(server, bootstrap, port, topic, rate, plan)
                )


@contextmanager
def _ours(home: Path, bootstrap: str, port: int, topic: str) -> Iterator[Server]:
    with edges(home, bootstrap, BRIDGE.format(port=port, topic=topic)) as server:
        yield server


@contextmanager
def _peer(home: Path, bootstrap: str, port: int, topic: str) -> Iterator[Server]:
    with plain(home, bootstrap, "--udp", str(port), "--topic", topic) as server:
        yield server


def _measured(
    server: Server, bootstrap: str, port: int, topic: str, rate: int, plan: Plan
) -> dict[str, float]:
    before, cpu_s = end_offset(bootstrap, topic), server.cpu_s
    begin = time.perf_counter()
    sent = _send(port, rate, plan.seconds)
    end, stored = _settled(bootstrap, topic)
    stored -= before
    if not stored:
        raise RuntimeError(f"{server.name}: of {sent} datagrams none was stored")
    return {
        "per_s": stored / (end - begin),
        "sent_per_s": sent / plan.seconds,
        "lost_percent": 100 * (sent - stored) / sent,
        "cpu_s_per_million": (server.cpu_s - cpu_s) / stored * 1e6,
    }


def _wait_until_it_listens(bootstrap: str, port: int, topic: str) -> None:
    deadline = time.perf_counter() + DEADLINE_S
    while not end_offset(bootstrap, topic):
        if time.perf_counter() > deadline:
            raise RuntimeError(f"nothing that is sent to UDP port {port} is stored")
        _send(port, 1000, 0.05)
    _settled(bootstrap, topic)


def _send(port: int, rate: int, seconds: float) -> int:
    """So many a second in slices of a few milliseconds; 0: without a pause."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        there = ("127.0.0.1", port)
        send, sent, begin = out.sendto, 0, time.perf_counter()
        while (now := time.perf_counter()) < begin + seconds:
            due = int(rate * (now - begin)) if rate else sent + 500
            for _ in range(due - sent):
                send(LINE, there)
            sent = max(sent, due)
            if rate:
                time.sleep(SLICE_S)
        return sent


def _settled(bootstrap: str, topic: str) -> tuple[float, int]:
    """When the last record came, and how many there are: nobody says that no more will come."""
    grown, last = time.perf_counter(), end_offset(bootstrap, topic)
    deadline = time.perf_counter() + DEADLINE_S
    while time.perf_counter() < min(grown + QUIET_S, deadline):
        time.sleep(0.05)
        now = end_offset(bootstrap, topic)
        if now != last:
            grown, last = time.perf_counter(), now
    return grown, last


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
