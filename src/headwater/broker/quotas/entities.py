"""Whose quota counts: the table of all quotas, and Kafka's order of precedence. Pure.

An entity is what a quota belongs to: a user, a client id, both, or an address; a name that is None stands
for all that have no quota of their own. From strong to weak:

    user + client id · user + any client · user · any user + client id · any user + any client ·
    any user · client id · any client

A quota of a user is shared by all of that user's clients; a default one is each user's or client's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

USER, CLIENT, IP = "user", "client-id", "ip"

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, by type."""


class Key(StrEnum):
    """What is limited, by the protocol's names."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


class Limit(NamedTuple):
    """A quota that applies, and the name under which its rate is measured."""

    value: float
    shared_by: tuple[str, ...]


def entity(parts: Mapping[str, str | None]) -> Entity:
    return tuple(sorted(parts.items()))


class Table:
    """Every quota there is: entity → key → value."""

    def __init__(self) -> None:
        self.quotas: dict[Entity, dict[str, float]] = {}

    def put(self, owner: Entity, values: Mapping[str, float]) -> None:
        """Replace an entity's quotas; none removes it."""
        if values:
            self.quotas[owner] = dict(values)
        else:
            self.quotas.pop(owner, None)

    def limit(self, key: Key, user: str, client: str) -> Limit | None:
        """The quota that counts for this user's client."""
        for owner, shared_by in (
            (((CLIENT, client), (USER, user)), (user, client)),
            (((CLIENT, None), (USER, user)), (user, client)),
            (((USER, user),), (user, "")),
            (((CLIENT, client), (USER, None)), (user, client)),
            (((CLIENT, None), (USER, None)), (user, client)),
            (((USER, None),), (user, "")),
            (((CLIENT, client),), ("", client)),
            (((CLIENT, None),), ("", client)),
        ):
            value = self._value(owner, key)
            if value is not None:
                return Limit(value, shared_by)
        return None

    def connection_limit(self, address: str) -> Limit | None:
        """The quota on new connections from an address."""
        value = self._value(((IP, address),), Key.CONNECTION)
        if value is None:
            value = self._value(((IP, None),), Key.CONNECTION)
        return None if value is None else Limit(value, (address,))

    def _value(self, owner: Entity, key: Key) -> float | None:
        values = self.quotas.get(owner)
        return None if values is None else values.get(key)
