"""Topics of another cluster, brought into this project's log with their offsets.

Called by `headwater import`. The way in, as `move` is the way out, and by the same means: batches are read as
any reader of committed data gets them, written so that each takes the offset that it has there, and compared.
Both sides run, and the other one may be written to meanwhile: a run brings what is settled when it begins,
the next one what has come since, until readers and writers are moved over.

    data/import.json   the topics that are the import's own (`journal`); kept, so that another run goes on

A topic that the import has not made must never be touched, and one that has once been complete must never be
recreated: from then on it may have records of its own. A run that fails gives it back the settings it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from headwater.broker.settings.topic import TOPIC
from headwater.client.cluster import Cluster, Topic, TryAgain
from headwater.client.librdkafka import AdminClient
from headwater.client.namespace import SCHEMAS, SINK, is_own
from headwater.project.promote import groups, topics
from headwater.project.promote import partitions as copying
from headwater.project.promote.errors import CannotPromote, Diverged
from headwater.project.promote.groups import Committed
from headwater.project.promote.journal import Journal
from headwater.project.promote.left_behind import left_behind
from headwater.project.promote.move import Audience, Report, client_of, silence
from headwater.project.promote.partitions import Sides, Stretch

FILE = Path("data") / "import.json"


@dataclass(frozen=True)
class Order:
    """What `headwater import` was told. Addresses with librdkafka's settings."""

    folder: Path
    old: Mapping[str, str]
    new: Mapping[str, str]
    topics: tuple[str, ...] = ("*",)
    """Names, or patterns with * and ?."""
    dry_run: bool = False


@dataclass
class Arrived(Report):
    """What came of it."""

    ahead: list[str] = field(default_factory=list)
    """Groups that are further here than there: left as they are."""
    reserved: list[str] = field(default_factory=list)
    """Topics whose names belong to the log here."""


class Arrival:
    """One run."""

    def __init__(self, order: Order, audience: Audience) -> None:
        self.report = Arrived()
        self.journal = Journal.of(order.folder, FILE)
        self._order, self._audience = order, audience
        self._sides = Sides(client_of(order.old), client_of(order.new))
        self._old, self._new = Cluster(self._sides.old), Cluster(self._sides.new)
        self._there = AdminClient({**order.old, "log_level": 0}, logger=silence)
        self._here = AdminClient({**order.new, "log_level": 0}, logger=silence)
        self._topics: dict[str, Topic] = {}
        self._todo: list[Stretch] = []
        self._positions: dict[str, list[Committed]] = {}
        self._settings: dict[str, dict[str, str]] = {}
        """Of topics that were complete before, and are held: as this run has found them."""

    def close(self) -> None:
        self._old.close()
        self._new.close()

    def run(self) -> Arrived:
        """All of it; CannotPromote leaves what was complete as it was."""
        try:
            self._plan()
            if not self._order.dry_run:
                self._fill()
                self._compare()
                self._hand_over()
            return self.report
        finally:
            self.close()
            for name, found in self._settings.items():
                topics.settle(self._here, name, found)

    def _plan(self) -> None:
        self._audience.begin("Looking at both sides")
        chosen = self._chosen(self._old.metadata(None).topics)
        self._topics = {n: topic for n, topic in chosen.items() if n == SINK or not is_own(n)}
        self.report.reserved = [name for name in chosen if name == SCHEMAS]
        self._refuse_strangers()
        places = [(name, p) for name, topic in self._topics.items() for p in topic.leaders]
        self._todo = self._from_where_both_begin(copying.settled(self._old, places))
        found, self.report.share_groups = groups.groups(self._old)
        for group in found:
            mine = [p for p in groups.positions(self._old, group) if p.topic in self._topics]
            if mine:
                self._positions[group] = mine
        self.report.left_behind = left_behind(self._old, self._there, {})
        self.report.topics, self.report.partitions = len(self._topics), len(places)
        self.report.groups = len(self._positions)
        wanted = topics.effective_settings(self._there, self._topics)
        for name, values in wanted.items():
            if unknown := sorted(set(values) - set(TOPIC)):
                self.report.unknown_settings[name] = unknown
        self._audience.end(
            f"{len(self._topics)} topics, {len(places)} partitions, "
            f"{sum(each.end - each.start for each in self._todo):,} offsets, {self.report.groups} groups"
        )
        if self._order.dry_run:
            for stretch in self._todo:
                self.report.counted.add(copying.count(self._old, stretch))

    def _from_where_both_begin(self, found: list[Stretch]) -> list[Stretch]:
        """A topic that an earlier run has completed has its retention here as well."""
        done = [s for s in found if s.place[0] in self.report.continued]
        grown = self._new.metadata(list(self.report.continued)).topics
        known = [s.place for s in done if s.place[1] in grown[s.place[0]].leaders]
        starts = {each.place: each.start for each in copying.settled(self._new, known)}
        return [
            Stretch(s.place, min(max(s.start, starts.get(s.place, 0)), s.end), s.end) for s in found
        ]

    def _chosen(self, everything: Mapping[str, Topic]) -> dict[str, Topic]:
        found = {
            name: topic
            for name, topic in sorted(everything.items())
            if not topic.is_internal and any(fnmatchcase(name, p) for p in self._order.topics)
        }
        absent = [p for p in self._order.topics if not any(fnmatchcase(n, p) for n in found)]
        if absent:
            raise CannotPromote(
                f"the other cluster has no topic {', '.join(absent)}",
                hint="see what it has: headwater topics list --bootstrap HOST:PORT",
            )
        return found

    def _refuse_strangers(self) -> None:
        there, here = self._old.metadata([]), self._new.metadata(list(self._topics))
        if there.cluster_id == here.cluster_id:
            raise CannotPromote(
                "both addresses are the same cluster", hint="--from names the other one"
            )
        if self.journal.cluster_id not in ("", there.cluster_id):
            raise CannotPromote(
                f"an import from another cluster was begun here ({self.journal.cluster_id})",
                hint=f"go on with that one; or forget it: rm {self.journal.path}",
            )
        self.journal.cluster_id = there.cluster_id
        strange = [
            name
            for name, topic in here.topics.items()
            if not copying.is_ours(self.journal, self._new, topic)
        ]
        if strange:
            raise CannotPromote(
                f"this log has topics of these names already: {', '.join(sorted(strange))}",
                hint="offsets can only be the same in topics that the import makes: choose others with "
                "--topic, or delete these first",
            )
        self.report.continued = sorted(here.topics)
        for name in self.report.continued:
            if self.journal.topics[name]["old"] != str(self._topics[name].id):
                raise CannotPromote(
                    f"{name} was deleted and recreated in the other cluster since it was imported",
                    hint=f"delete it here to import the new one: headwater topics delete {name}",
                )

    def _fill(self) -> None:
        complete = [name for name in self.report.continued if self.journal.is_complete(name)]
        if complete:
            self._settings = topics.effective_settings(self._here, complete)
        for name, topic in self._topics.items():
            if name not in self.report.continued:
                self._make(name, topic)
            else:
                topics.hold(self._here, name)
                self._grow(name, len(topic.leaders))
        self._audience.begin("Copying", sum(each.end for each in self._todo))
        for name in self._topics:
            mine = [each for each in self._todo if each.place[0] == name]
            try:
                self._copy(mine, name)
            except Diverged as error:
                if self.journal.is_complete(name):
                    raise CannotPromote(
                        f"{name} has records of its own by now ({error})",
                        hint="it was complete once, and is left as it is",
                    ) from None
                # A run before this one was killed in a moment that left its mark.
                self.report.afresh.append(name)
                topics.remove(self._here, name)
                self._make(name, self._topics[name])
                self._copy(mine, name)
        counted = self.report.counted
        self._audience.end(f"{counted.records:,} records, {counted.gaps:,} offsets without one")

    def _make(self, name: str, topic: Topic) -> None:
        self.journal.begin(name, str(topic.id))
        topics.make(self._here, name, len(topic.leaders), -1)
        made = self._new.retrying(lambda: self._found(name, len(topic.leaders)))
        self.journal.topics[name]["new"] = str(made.id)
        self.journal.save()

    def _grow(self, name: str, partitions: int) -> None:
        if len(self._new.metadata([name]).topics[name].leaders) < partitions:
            topics.grow(self._here, name, partitions)
            self._new.retrying(lambda: self._found(name, partitions))

    def _found(self, name: str, partitions: int) -> Topic:
        topic = self._new.metadata([name]).topics.get(name)
        if topic is None or len(topic.leaders) < partitions:
            raise TryAgain(f"{name} is not made yet")
        return topic

    def _copy(self, mine: list[Stretch], name: str) -> None:
        def tell(done: int) -> None:
            self._audience.advance(done, name)

        for each in copying.side_by_side(copying.copy, self._sides, mine, tell):
            self.report.counted.add(each)
        topics.begin_at(self._here, {each.place: each.start for each in mine})

    def _compare(self) -> None:
        self._audience.begin("Comparing", sum(each.end for each in self._todo))
        found = copying.side_by_side(
            copying.check, self._sides, self._todo, lambda done: self._audience.advance(done)
        )
        for stretch, each in zip(self._todo, found, strict=True):
            if each.difference is not None:
                raise CannotPromote(
                    f"{stretch.name} is not the same here: {each.difference}",
                    hint="retention may have taken something there meanwhile: try again",
                )
            self.report.counted.append_timed += each.append_timed
            self.report.compared.records += each.records
        self._audience.end(f"{self.report.compared.records:,} records are the same")

    def _hand_over(self) -> None:
        self._audience.begin("Groups and settings")
        for group, wanted in self._positions.items():
            here = {(p.topic, p.partition): p.offset for p in groups.positions(self._new, group)}
            if any(here.get((p.topic, p.partition), -1) > p.offset for p in wanted):
                self.report.ahead.append(group)
            else:
                groups.commit(self._new, group, wanted)
        values = topics.effective_settings(self._there, self._topics)
        for name in self._topics:
            topics.settle(self._here, name, values[name])
            self._settings.pop(name, None)
            self.journal.finish(name)
        self._audience.end(f"{len(self._positions)} groups, {len(self._topics)} topics")
