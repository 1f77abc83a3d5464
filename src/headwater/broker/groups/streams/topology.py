"""A Kafka Streams application's topology, as its members send it and the log keeps it.

A subtopology reads source topics (the user's) and repartition topics (made by the broker), writes to the
repartition topics of others, and keeps its state in changelog topics. Topics of a copartition group are
read side by side, so they must have as many partitions as each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from headwater.broker.groups.streams import records

Configs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An internal topic: changelog or repartition topic."""

    name: str
    partitions: int = 0
    """0: as many as what flows into it has. Always 0 for a changelog."""
    replication_factor: int = 0
    """0: the broker's."""
    configs: Configs = ()


@dataclass(frozen=True, slots=True)
class Copartition:
    """Topics of one subtopology, by their place in its lists."""

    sources: tuple[int, ...] = ()
    regexes: tuple[int, ...] = ()
    repartitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    id: str
    sources: tuple[str, ...] = ()
    regexes: tuple[str, ...] = ()
    """Kafka 4.3 refuses them, and so do we; other records may have them."""
    changelogs: tuple[TopicInfo, ...] = ()
    sinks: tuple[str, ...] = ()
    """Repartition topics that it writes to."""
    repartitions: tuple[TopicInfo, ...] = ()
    """Repartition topics that it reads."""
    copartitions: tuple[Copartition, ...] = ()

    def inputs(self) -> Iterator[str]:
        yield from self.sources
        yield from (topic.name for topic in self.repartitions)

    @property
    def has_wrong_places(self) -> bool:
        """Whether a copartition group names a topic that is not in the lists."""
        return any(
            not 0 <= number < len(topics)
            for group in self.copartitions
            for numbers, topics in (
                (group.sources, self.sources),
                (group.regexes, self.regexes),
                (group.repartitions, self.repartitions),
            )
            for number in numbers
        )

    def copartitioned(self) -> Iterator[frozenset[str]]:
        for group in self.copartitions:
            names = [self.sources[number] for number in group.sources]
            yield frozenset(names + [self.repartitions[n].name for n in group.repartitions])


@dataclass(frozen=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()
    """In the order of their ids, each id once."""

    @cached_property
    def readers(self) -> dict[str, str]:
        """Topic → the subtopology that reads it."""
        return {topic: each.id for each in self.subtopologies for topic in each.inputs()}

    @cached_property
    def topics(self) -> frozenset[str]:
        """All that it needs."""
        changelogs = (topic.name for each in self.subtopologies for topic in each.changelogs)
        return frozenset(self.readers).union(changelogs)

    @cached_property
    def record_bytes(self) -> int:
        """What it takes in the log, and about as much in memory."""
        return len(records.topology_value(self))
