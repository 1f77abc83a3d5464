"""What came in, went out and was refused: counters for GET /metrics.

A registry of our own, so that a test or an application with prometheus_client sees only its own. Other files
add their metrics with `counter` and `gauge`, which give the same one when asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY = CollectorRegistry()
_MADE: dict[str, Any] = {}


def counter(name: str, says: str, labels: Sequence[str] = ()) -> Counter:
    return _made(Counter, name, says, labels)


def gauge(name: str, says: str, labels: Sequence[str] = ()) -> Gauge:
    return _made(Gauge, name, says, labels)


def _made(kind: Any, name: str, says: str, labels: Sequence[str]) -> Any:
    if name not in _MADE:
        _MADE[name] = kind(name, says, labels, registry=REGISTRY)
    return _MADE[name]


_RECORDS_IN = counter(
    "headwater_edge_records_in_total", "Records stored in the log", ("way", "topic")
)
_BYTES_IN = counter("headwater_edge_bytes_in_total", "Bytes of their values", ("way", "topic"))
_RECORDS_OUT = counter(
    "headwater_edge_records_out_total", "Records handed to somebody", ("way", "topic")
)
_REFUSED = counter("headwater_edge_refused_total", "What was not taken", ("way", "reason"))
_DEAD = counter(
    "headwater_edge_dead_letters_total", "What went to a dead-letter topic", ("way", "topic")
)


def arrived(way: str, topic: str, records: int, size: int) -> None:
    """Stored: `way` is http, hook, udp, mqtt and so on."""
    counted, weighed = _arriving(way, topic)
    counted.inc(records)
    weighed.inc(size)


@cache
def _arriving(way: str, topic: str) -> tuple[Counter, Counter]:
    """Found once: `labels` takes as long as the rest of a small request's counting."""
    return _RECORDS_IN.labels(way, topic), _BYTES_IN.labels(way, topic)


def went(way: str, topic: str, records: int) -> None:
    _RECORDS_OUT.labels(way, topic).inc(records)


def refused(way: str, reason: str, count: int = 1) -> None:
    """`reason` is one of a few words, never what a sender wrote."""
    _REFUSED.labels(way, reason).inc(count)


def dead(way: str, topic: str, count: int = 1) -> None:
    _DEAD.labels(way, topic).inc(count)
