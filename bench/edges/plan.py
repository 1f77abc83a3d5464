"""How much of everything; small by default, so that the whole run takes two to three minutes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Sizes of one run; they are written beside its figures."""

    seconds: float = 4.0
    """Of each measurement of events in."""
    rounds: int = 2
    lines: int = 1000
    """Records of a bulk request."""
    record_bytes: int = 100
    bulk_connections: int = 4
    single_connections: int = 64
    udp_rates: tuple[int, ...] = (10_000, 50_000, 0)
    """Datagrams per second; 0: as fast as one process sends."""
    clients: int = 1000
    records_per_second: int = 10
    records: int = 100
    """Of the fan-out: each goes to every client."""


def quick() -> Plan:
    return Plan(
        seconds=1.5, rounds=1, udp_rates=(10_000, 0), clients=200, records_per_second=20, records=40
    )


def event(size: int, number: int = 0) -> bytes:
    """A JSON object of so many bytes."""
    head = b'{"id":%d,"kind":"order.placed","total":12.5,"note":"' % number
    return head + b"x" * max(0, size - len(head) - 2) + b'"}'
