"""A topology beside the topics that there are: how many tasks each subtopology has, what is missing.

`steps` calls `configured` when the topology is new, or topics have come or gone. A subtopology has as
many tasks as the largest of its inputs has partitions. A repartition topic has as many partitions as it
says, else as what flows into it; topics that are read side by side must agree; a changelog has one for
each task. The sentences are Apache Kafka's: clients show them.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from headwater.broker.groups.group import HeartbeatRefused, Image
from headwater.broker.groups.streams.status import Status, StatusCode
from headwater.broker.groups.streams.topology import Subtopology, TopicInfo, Topology

TASKS_MAX = 4_000
"""Of one group: they are assigned in one turn of the event loop, and each member's fit one record."""
INPUTS_MAX = 100_000
"""Partitions that all tasks of a group read: who asks where queries are answered hears of each."""


@dataclass(frozen=True, slots=True)
class ConfiguredTopic:
    name: str
    partitions: int
    info: TopicInfo


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    subtopology: Subtopology
    tasks: int
    repartitions: tuple[ConfiguredTopic, ...]
    changelogs: tuple[ConfiguredTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


@dataclass(frozen=True, slots=True)
class Configured:
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    """By id; none if that cannot be said yet."""
    missing: tuple[ConfiguredTopic, ...] = ()
    """Internal topics that have to be made."""
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Wrong(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configured(topology: Topology, image: Image) -> Configured:
    """Raises `HeartbeatRefused` for a topology that no topics can make right."""
    try:
        _check_sources(topology, image)
        counts = _Counts(topology, image)
        counts.decide()
        found = {each.id: _subtopology(each, counts) for each in topology.subtopologies}
        _check_size(found)
        missing = tuple(_missing(found, image))
    except _Wrong as wrong:
        return Configured(problem=wrong.status)
    if not missing:
        return Configured(found)
    names = summary([topic.name for topic in missing])
    detail = f"Internal topics are missing: {names}"
    return Configured(found, missing, Status(StatusCode.MISSING_INTERNAL_TOPICS, detail))


def _check_size(found: Mapping[str, ConfiguredSubtopology]) -> None:
    tasks = sum(each.tasks for each in found.values())
    inputs = sum(each.tasks * len(set(each.subtopology.inputs())) for each in found.values())
    for count, most, what in ((tasks, TASKS_MAX, "tasks"), (inputs, INPUTS_MAX, "inputs")):
        if count > most:
            raise _Wrong(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"The topology has more than {most} {what}.",
            )


def summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:3])
    return f"{shown} and {len(names) - 3} additional topics" if len(names) > 3 else shown


def _check_sources(topology: Topology, image: Image) -> None:
    named = {name for each in topology.subtopologies for name in each.sources}
    missing = sorted(name for name in named if name not in image.topics)
    if missing:
        raise _Wrong(
            StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {summary(missing)} are missing."
        )


class _Counts:
    """How many partitions topics have, or are to have."""

    def __init__(self, topology: Topology, image: Image) -> None:
        self._topology = topology
        self._image = image
        self._decided: dict[str, int] = {}
        self._repartitions = {
            topic.name: topic for each in topology.subtopologies for topic in each.repartitions
        }

    def of(self, topic: str) -> int:
        found = self._image.topics.get(topic)
        return self._decided[topic] if found is None else found.partitions

    def wanted(self, topic: TopicInfo) -> int:
        return topic.partitions or self._decided[topic.name]

    def decide(self) -> None:
        self._decide_repartitions()
        for each in self._topology.subtopologies:
            for names in each.copartitioned():
                self._agree(names)
        for each in self._topology.subtopologies:
            tasks = max(map(self.of, each.inputs()), default=0)
            if not tasks:
                raise _invalid(f"No source topics found for subtopology {each.id}")
            self._decided.update((topic.name, tasks) for topic in each.changelogs)

    def _decide_repartitions(self) -> None:
        decided = self._decided
        for topic in self._repartitions.values():
            if topic.partitions:
                decided[topic.name] = topic.partitions
        self._flow()
        if any(sink not in decided for each in self._topology.subtopologies for sink in each.sinks):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        if not self._repartitions.keys() <= decided.keys():
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )

    def _flow(self) -> None:
        """Let what is known flow into the sinks. Kafka walks the list again and again, and a sink has the
        largest of the inputs known at that time: here each is visited once, when Kafka would decide it."""
        subtopologies = self._topology.subtopologies
        readers: dict[str, list[int]] = {}
        for place, each in enumerate(subtopologies):
            for topic in each.repartitions:
                readers.setdefault(topic.name, []).append(place)
        visits = [(0, place) for place, each in enumerate(subtopologies) if self._most(each)]
        planned = {place for _, place in visits}
        while visits:
            walk, place = heapq.heappop(visits)
            most = self._most(subtopologies[place])
            for sink in subtopologies[place].sinks:
                if sink in self._decided:
                    continue
                self._decided[sink] = most
                for reader in readers.get(sink, ()):
                    if reader not in planned:
                        planned.add(reader)
                        heapq.heappush(visits, (walk + (reader < place), reader))

    def _most(self, each: Subtopology) -> int:
        """Partitions of the largest input that is known; 0: none is."""
        known = [self._decided[t.name] for t in each.repartitions if t.name in self._decided]
        return max(known + [self.of(name) for name in each.sources], default=0)

    def _agree(self, names: frozenset[str]) -> None:
        """Give topics that are read side by side one number of partitions."""
        ours = {name: self.of(name) for name in names if name in self._repartitions}
        others = {name: self.of(name) for name in names if name not in ours}
        fixed = {name: ours[name] for name in ours if self._repartitions[name].partitions}
        if others:
            number = _same(others, others)
        elif fixed:
            number = _same(fixed, ours)
        else:
            number = max(ours.values(), default=0)
        for name, count in ours.items():
            if name in fixed and count != number:
                raise _Wrong(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{count}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{number}] of the source topic.",
                )
            self._decided[name] = number


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    if len(set(counts.values())) != 1:
        pairs = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise _Wrong(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{pairs}}}]",
        )
    return next(iter(counts.values()))


def _subtopology(each: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    def topics(infos: tuple[TopicInfo, ...]) -> tuple[ConfiguredTopic, ...]:
        return tuple(ConfiguredTopic(info.name, counts.wanted(info), info) for info in infos)

    tasks = max(map(counts.of, each.inputs()))
    return ConfiguredSubtopology(each, tasks, topics(each.repartitions), topics(each.changelogs))


def _missing(
    subtopologies: Mapping[str, ConfiguredSubtopology], image: Image
) -> Iterator[ConfiguredTopic]:
    wanted = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in (*each.repartitions, *each.changelogs)
    }
    for topic in wanted.values():
        found = image.topics.get(topic.name)
        if found is None:
            yield topic
        elif found.partitions != topic.partitions:
            raise _Wrong(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {topic.name} has different number of partitions: expected "
                f"{topic.partitions}, found {found.partitions}",
            )


def _invalid(why: str) -> HeartbeatRefused:
    return HeartbeatRefused(ErrorCode.streams_invalid_topology, why)
