"""What an ACL is, and which of them speak of a request. Pure; the numbers are Kafka's (KIP-11, KIP-290).

    "Principal P is [allowed | denied] operation O from host H on resources that match pattern R"

A pattern is literal (`*` matches every name) or prefixed. Some operations imply others: whoever may
read, write, delete or alter a thing may describe it, and whoever may alter its configs may see them.
That holds for what is allowed, not for what is denied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

CLUSTER_NAME = "kafka-cluster"
EVERYTHING = "*"
EVERYBODY = "User:*"


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = Operation
IMPLIED_BY = {
    _O.DESCRIBE: frozenset((_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER, _O.ALL)),
    _O.DESCRIBE_CONFIGS: frozenset((_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL)),
}
OPERATIONS = {
    ResourceType.TOPIC: (
        *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (
        *(_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    ResourceType.CLUSTER: (
        *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE),
    ),
}
"""What can be done with a resource; for the bit fields of the describing APIs."""


class Acl(NamedTuple):
    """One of them, with the numbers as on the wire."""

    resource_type: int
    resource_name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def speaks_to(self, principal: str, host: str) -> bool:
        return self.principal in (principal, EVERYBODY) and self.host in (host, EVERYTHING)


class Filter(NamedTuple):
    """Which ACLs a client means; None and ANY mean all."""

    resource_type: int
    resource_name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, acl.pattern):
            return False
        if self.resource_name is None:
            return True
        if self.pattern != Pattern.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern == Pattern.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in (self.resource_name, EVERYTHING)


class AclTable:
    """All ACLs, found by resource and principal in a time that does not grow with their number."""

    def __init__(self) -> None:
        self._by_pattern: dict[tuple[int, int, str], dict[str, set[Acl]]] = {}
        """Those of each pattern by principal: others' are many, and concern nobody else."""
        self._prefix_lengths: dict[int, Counter[int]] = {}
        """By kind of resource: how many patterns are prefixes of which length."""
        self._speaking: dict[tuple[int, str], dict[Acl, None]] = {}
        """By kind of resource and principal."""

    def add(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.pattern, acl.resource_name)
        there = self._by_pattern.get(key)
        if there is None:
            there = self._by_pattern[key] = {}
            if acl.pattern == Pattern.PREFIXED:
                lengths = self._prefix_lengths.setdefault(acl.resource_type, Counter())
                lengths[len(acl.resource_name)] += 1
        there.setdefault(acl.principal, set()).add(acl)
        self._speaking.setdefault((acl.resource_type, acl.principal), {})[acl] = None

    def remove(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.pattern, acl.resource_name)
        there = self._by_pattern.get(key, {})
        there.get(acl.principal, set()).discard(acl)
        if not there.get(acl.principal):
            there.pop(acl.principal, None)
        if not there and self._by_pattern.pop(key, None) is not None:
            self._forget_length(acl)
        speaking = self._speaking.get((acl.resource_type, acl.principal), {})
        speaking.pop(acl, None)
        if not speaking:
            self._speaking.pop((acl.resource_type, acl.principal), None)

    def _forget_length(self, acl: Acl) -> None:
        if acl.pattern == Pattern.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def __iter__(self) -> Iterator[Acl]:
        return chain.from_iterable(self._speaking.values())

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._speaking.get((acl.resource_type, acl.principal), ())

    def speaking(self, resource_type: int, principal: str) -> list[Acl]:
        """Those that speak to the principal or to everybody of any such resource."""
        found = self._speaking.get((resource_type, principal), {})
        return [*found, *self._speaking.get((resource_type, EVERYBODY), ())]

    def about(self, resource_type: int, name: str, principal: str) -> Iterator[Acl]:
        """Those whose pattern matches this resource, and that speak to the principal or to everybody."""
        for there in self._matching(resource_type, name):
            yield from there.get(principal, ())
            if principal != EVERYBODY:
                yield from there.get(EVERYBODY, ())

    def speaks_of(self, resource_type: int, name: str) -> bool:
        """Whether there is one about this resource, whomever it speaks to."""
        return any(True for _ in self._matching(resource_type, name))

    def _matching(self, resource_type: int, name: str) -> Iterator[dict[str, set[Acl]]]:
        find = self._by_pattern.get
        if there := find((resource_type, Pattern.LITERAL, name)):
            yield there
        if name != EVERYTHING and (there := find((resource_type, Pattern.LITERAL, EVERYTHING))):
            yield there
        for length in sorted(self._prefix_lengths.get(resource_type, ())):
            if length > len(name):
                break
            if there := find((resource_type, Pattern.PREFIXED, name[:length])):
                yield there


def decide(acls: Iterable[Acl], principal: str, host: str, operation: Operation) -> bool | None:
    """What the ACLs about a resource say: a denial wins; None where there is none of these."""
    allowing = IMPLIED_BY.get(operation, (operation, Operation.ALL))
    found = allowed = False
    for acl in acls:
        found = True
        if not acl.speaks_to(principal, host):
            continue
        if acl.permission == Permission.DENY:
            if acl.operation in (operation, Operation.ALL):
                return False
        elif acl.operation in allowing:
            allowed = True
    return allowed if found else None


class Denials:
    """What is denied of one kind of resource; whether that leaves anything of what is allowed is found in a
    time that does not grow with their number (KIP-679)."""

    def __init__(self) -> None:
        self._names: dict[int, set[str]] = {Pattern.LITERAL: set(), Pattern.PREFIXED: set()}
        self._prefix_lengths: set[int] = set()

    def add(self, acl: Acl) -> None:
        self._names[acl.pattern].add(acl.resource_name)
        if acl.pattern == Pattern.PREFIXED:
            self._prefix_lengths.add(len(acl.resource_name))

    def cover(self, allowed: Acl) -> bool:
        """Whether nothing of what this one allows is left by them."""
        name, literal = allowed.resource_name, self._names[Pattern.LITERAL]
        if EVERYTHING in literal:
            return True
        if allowed.pattern == Pattern.LITERAL:
            if name in literal:
                return True
            if name == EVERYTHING:
                return False
        return any(
            name[:length] in self._names[Pattern.PREFIXED] for length in self._prefix_lengths
        )
