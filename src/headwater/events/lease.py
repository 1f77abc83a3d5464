"""For how long a claim counts before its owner must claim again. `Application` asks once, at its start.

Brokers forget transactional ids and producers that were silent for long. An owner that claims again well
before is never forgotten, and an owner that sleeps past its lease decides nothing when it awakes.
"""

from __future__ import annotations

from headwater.client import settings
from headwater.client.librdkafka import AdminClient, KafkaException

LEASE_S = 3600.0
LEASE_S_MIN = 0.2
_SHARE = 4
"""A claim is renewed when a quarter of what the broker remembers has passed, and before three quarters in any
case: taking over, which may be slow, is not counted (`desk`)."""
_MEMORIES = ("transactional.id.expiration.ms", "producer.id.expiration.ms")


def of(admin: AdminClient) -> float:
    """In seconds; LEASE_S where the broker does not tell (a user may lack the right to ask)."""
    try:
        found = settings.of_broker(admin)
    except (KafkaException, StopIteration, TimeoutError):
        return LEASE_S
    return shortest([found[name].value for name in _MEMORIES if name in found])


def shortest(memories_ms: list[str | None]) -> float:
    """A part of the shortest memory, and never more than LEASE_S."""
    known = [int(each) / 1000 / _SHARE for each in memories_ms if each and each.isdigit()]
    return max(LEASE_S_MIN, min([LEASE_S, *known]))
