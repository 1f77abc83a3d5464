"""One member of a streams group: what it said, which tasks it has, and which it still has to let go.

`heartbeat` creates members and changes what they said; `reconcile` changes what they have. A process may
have several members, one for each of its stream threads; they share its state folder, so no two of them may
have the same task at the same time, in whatever role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from headwater.broker.groups.modern.member import HeldOf, ModernMember

Task = tuple[str, int]
"""Subtopology and number."""
Tasks = Mapping[str, frozenset[int]]
"""Subtopology → numbers. No subtopology has an empty set."""
NO_TASKS: Tasks = MappingProxyType({})
Held = HeldOf[str]
"""By subtopology."""


class Assignment(NamedTuple):
    """The tasks of a member, by the role in which it has them."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS
    """Kafka 4.3 assigns none."""


class Holding(NamedTuple):
    """The same, each with its epoch."""

    active: Held
    standby: Held
    warmup: Held

    def tasks(self) -> Assignment:
        return Assignment(
            *({id: frozenset(numbers) for id, numbers in role.items()} for role in self)
        )

    @property
    def size(self) -> int:
        return sum(len(numbers) for role in self for numbers in role.values())

    @property
    def is_empty(self) -> bool:
        return not any(self)


def nothing() -> Holding:
    return Holding({}, {}, {})


class Endpoint(NamedTuple):
    """Where a process answers interactive queries."""

    host: str
    port: int


@dataclass(slots=True)
class StreamsMember(ModernMember):
    """Kafka 4.3 refuses static members, and so do we; its records have room for an instance id."""

    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    assigned: Holding = field(default_factory=nothing)
    revoking: Holding = field(default_factory=nothing)


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    for subtopology, numbers in tasks.items():
        for number in numbers:
            yield subtopology, number


def task_rows(tasks: Tasks) -> list[dict[str, object]]:
    """As messages list them."""
    return [{"subtopology_id": id, "partitions": sorted(tasks[id])} for id in sorted(tasks)]
