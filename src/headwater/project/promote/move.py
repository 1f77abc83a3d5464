"""One run of a move, between a log and a Kafka that both answer: plan, fill, compare, hand over.

`job` calls the steps in this order. Each can be done again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from headwater.client.cluster import Cluster, Metadata, Topic, TryAgain
from headwater.client.librdkafka import AdminClient
from headwater.client.options import Options
from headwater.project.file import Project
from headwater.project.promote import groups, topics
from headwater.project.promote import partitions as copying
from headwater.project.promote.comparison import Compared
from headwater.project.promote.errors import CannotPromote, Diverged
from headwater.project.promote.journal import Journal
from headwater.project.promote.left_behind import left_behind
from headwater.project.promote.partitions import Counted, Sides, Stretch

silence = logging.getLogger("headwater.project.promote.librdkafka")
silence.addHandler(logging.NullHandler())
silence.propagate = False


class Audience(Protocol):
    """Who watches; see `headwater.project.demo.summary.Audience`."""

    def begin(self, what: str, total: int | None = None) -> None: ...

    def advance(self, done: int, note: str = "") -> None: ...

    def end(self, outcome: str) -> None: ...


@dataclass(frozen=True)
class Order:
    """What `headwater promote` was told."""

    project: Project
    kafka: str
    spark: str | None
    client: Mapping[str, str] = field(default_factory=dict)
    """How to reach a Kafka that wants TLS or a login; librdkafka's names."""
    replicas: int = -1
    dry_run: bool = False


@dataclass
class Report:
    """What was found, and what was done."""

    topics: int = 0
    partitions: int = 0
    counted: Counted = field(default_factory=Counted)
    compared: Compared = field(default_factory=Compared)
    groups: int = 0
    share_groups: list[str] = field(default_factory=list)
    """Left behind: what they have in flight cannot be told to another broker."""
    left_behind: dict[str, list[str]] = field(default_factory=dict)
    """What else belongs to the old broker: kind → names."""
    unknown_settings: dict[str, list[str]] = field(default_factory=dict)
    """Topic → settings that Kafka does not have."""
    continued: list[str] = field(default_factory=list)
    afresh: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Topics and groups of an earlier run that are no longer here, and so no longer in Kafka."""
    queries: int = 0
    backup: Path | None = None


class Move:
    """One run, between a log and a Kafka that both answer."""

    def __init__(self, order: Order, old: str, audience: Audience) -> None:
        self.report = Report()
        self.journal = Journal.of(order.project.folder)
        self._order = order
        self._audience = audience
        own = {**order.client, "bootstrap.servers": order.kafka}
        self._sides = Sides(client_of({"bootstrap.servers": old}), client_of(own))
        self._old, self._new = Cluster(self._sides.old), Cluster(self._sides.new)
        self._here = AdminClient({"bootstrap.servers": old, "log_level": 0}, logger=silence)
        self._there = AdminClient({**own, "log_level": 0}, logger=silence)
        self._topics: dict[str, Topic] = {}
        self._todo: list[Stretch] = []
        self._groups: list[str] = []

    def close(self) -> None:
        self._old.close()
        self._new.close()

    def renamed(self) -> dict[str, str]:
        return self.journal.renamed()

    def plan(self) -> None:
        """What there is to move, and whether Kafka has room for it."""
        self._audience.begin("Looking at both sides")
        everything = self._old.metadata(None).topics
        self._topics = {
            name: topic
            for name, topic in sorted(everything.items())
            if name not in topics.INTERNAL and not topic.is_internal
        }
        places = [(name, p) for name, topic in self._topics.items() for p in topic.leaders]
        self._todo = copying.stretches(self._old, places)
        self._groups, self.report.share_groups = groups.groups(self._old)
        self.report.left_behind = left_behind(self._old, self._here, self._order.project.settings)
        self.report.topics, self.report.partitions = len(self._topics), len(places)
        self.report.groups = len(self._groups)
        there = self._new.metadata(list(self._topics))
        self._refuse_strangers(there)
        offsets = sum(each.end for each in self._todo)
        self._audience.end(
            f"{len(self._topics)} topics, {len(places)} partitions, {offsets:,} offsets, "
            f"{len(self._groups)} groups"
        )
        if self._order.dry_run:
            self._count()

    def _count(self) -> None:
        self._audience.begin("Counting", len(self._todo))
        for number, stretch in enumerate(self._todo, 1):
            self.report.counted.add(copying.count(self._old, stretch))
            self._audience.advance(number, stretch.name)
        self._audience.end(f"{self.report.counted.records:,} records")

    def _refuse_strangers(self, there: Metadata) -> None:
        if self.journal.cluster_id not in ("", there.cluster_id):
            raise CannotPromote(
                f"a move to another Kafka was begun and not ended ({self.journal.cluster_id})",
                hint=f"go on with that one; or forget it: rm {self.journal.path}",
            )
        self.journal.cluster_id = there.cluster_id
        strange = [
            name
            for name, topic in there.topics.items()
            if not copying.is_ours(self.journal, self._new, topic)
        ]
        if strange:
            raise CannotPromote(
                f"Kafka has topics of these names already: {', '.join(sorted(strange))}",
                hint="offsets can only be the same in topics that are made by the move: delete or rename "
                "those, or take another Kafka",
            )
        self.report.continued = sorted(there.topics)

    def _reconcile(self) -> None:
        """What an earlier run has made, and the project has let go or changed since, goes or grows."""
        for name, begun in list(self.journal.topics.items()):
            here, there = self._topics.get(name), self._new.metadata([name]).topics.get(name)
            if here is not None and (there is None or begun["old"] == str(here.id)):
                if there is not None and len(there.leaders) < len(here.leaders):
                    topics.grow(self._there, name, len(here.leaders))
                    self._new.retrying(partial(self._found, name, len(here.leaders)))
                continue
            if there is not None and copying.is_ours(self.journal, self._new, there):
                topics.remove(self._there, name)
                if here is None:
                    self.report.removed.append(f"the topic {name}")
            del self.journal.topics[name]
            self.report.continued = [each for each in self.report.continued if each != name]
        for name in [each for each in self.journal.groups if each not in self._groups]:
            topics.remove_group(self._there, name)
            self.report.removed.append(f"the group {name}")
            self.journal.groups.remove(name)
        self.journal.save()

    def fill(self) -> None:
        """Make the topics that are not there, and bring all of them to the end."""
        self._reconcile()
        for name, topic in self._topics.items():
            if name not in self.report.continued:
                self._make(name, topic)
            else:
                topics.hold(self._there, name)
        self._audience.begin("Copying", sum(each.end for each in self._todo))
        for name in self._topics:
            mine = [each for each in self._todo if each.place[0] == name]
            try:
                self._copy(mine, name)
            except Diverged:
                # A run before this one was killed in a moment that left its mark.
                self.report.continued = [each for each in self.report.continued if each != name]
                self.report.afresh.append(name)
                topics.remove(self._there, name)
                self._make(name, self._topics[name])
                self._copy(mine, name)
        counted = self.report.counted
        self._audience.end(f"{counted.records:,} records, {counted.gaps:,} offsets without one")

    def _copy(self, mine: list[Stretch], name: str) -> None:
        before = sum(each.end for each in self._todo if each.place[0] < name)
        found = copying.side_by_side(
            copying.copy,
            self._sides,
            mine,
            lambda done: self._audience.advance(before + done, name),
        )
        for each in found:
            self.report.counted.add(each)
        topics.begin_at(self._there, {each.place: each.start for each in mine})

    def _make(self, name: str, topic: Topic) -> None:
        self.journal.begin(name, str(topic.id))
        topics.make(self._there, name, len(topic.leaders), self._order.replicas)
        made = self._new.retrying(lambda: self._found(name, len(topic.leaders)))
        self.journal.topics[name]["new"] = str(made.id)
        self.journal.save()

    def _found(self, name: str, partitions: int) -> Topic:
        topic = self._new.metadata([name]).topics.get(name)
        if topic is None or len(topic.leaders) < partitions or min(topic.leaders.values()) < 0:
            raise TryAgain(f"Kafka has not made {name} yet")
        return topic

    def compare(self) -> None:
        """Read everything on both sides. CannotPromote at the first difference."""
        self._audience.begin("Comparing", sum(each.end for each in self._todo))
        found = copying.side_by_side(
            copying.check, self._sides, self._todo, lambda done: self._audience.advance(done)
        )
        for stretch, each in zip(self._todo, found, strict=True):
            if each.difference is not None:
                raise CannotPromote(
                    f"{stretch.name} is not the same in Kafka: {each.difference}",
                    hint="nothing has been changed here; try again, and tell us if it stays so",
                )
            self.report.counted.append_timed += each.append_timed
            self.report.compared.records += each.records
            self.report.compared.bytes += each.bytes
        self._audience.end(f"{self.report.compared.records:,} records are the same")

    def hand_over(self) -> None:
        """Positions of groups, and the settings of topics."""
        self._audience.begin("Moving groups and settings", len(self._groups))
        for number, group in enumerate(self._groups, 1):
            wanted = [
                each for each in groups.positions(self._old, group) if each.topic in self._topics
            ]
            if group in self.journal.groups and groups.positions(self._new, group) != wanted:
                topics.remove_group(self._there, group)  # as it was when an earlier run came here
            elif group not in self.journal.groups:
                if groups.positions(self._new, group):
                    raise CannotPromote(
                        f"Kafka has a group {group} of its own, with positions",
                        hint="delete or rename it there, or take another Kafka",
                    )
                self.journal.groups.append(group)
                self.journal.save()
            if wanted:
                groups.commit(self._new, group, wanted)
            if groups.positions(self._new, group) != wanted:
                raise CannotPromote(
                    f"the group {group} is at other positions in Kafka",
                    hint="somebody uses it there: stop them, and try again",
                )
            self._audience.advance(number, group)
        wanted_settings = topics.effective_settings(self._here, self._topics)
        for name in self._topics:
            if unknown := topics.settle(self._there, name, wanted_settings[name]):
                self.report.unknown_settings[name] = unknown
        self._audience.end(f"{len(self._groups)} groups, {len(self._topics)} topics")


def client_of(own: Mapping[str, str]) -> dict[str, str]:
    named = {**own, "client.id": "headwater-promote"}
    return Options({f"kafka.{name}": value for name, value in named.items()}).client_settings()
