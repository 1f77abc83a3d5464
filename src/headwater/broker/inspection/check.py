"""The inspection as a whole: `headwater check` calls `inspect`, and so does `repair` before and after.

Order: the catalogue first, because it says which topics are compacted; then every other partition; then
what can only be told once all are known. Changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from headwater.broker.inspection import catalogue, folder, groups, shares, transactions
from headwater.broker.inspection.catalogue_view import CatalogueView
from headwater.broker.inspection.facts import Facts, Place
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.folders import Folders
from headwater.broker.inspection.groups import GroupsView
from headwater.broker.inspection.partition import PartitionCheck
from headwater.broker.inspection.promises import facts_of
from headwater.broker.inspection.remedy import EditSegment, FillHole, MoveAside, WriteMeta
from headwater.broker.inspection.segments import Options, Visitor
from headwater.broker.inspection.shares import SharesView
from headwater.broker.inspection.testimony import Testimony
from headwater.broker.inspection.transactions import TransactionsView
from headwater.broker.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from headwater.broker.settings import Settings, topic_config
from headwater.log import meta
from headwater.log.checkpoints import TopicPartition
from headwater.log.meta import META, completed, text_of

Progress = Callable[[int, int, str], None]
"""Bytes done, bytes in all, and where it is."""


@dataclass(slots=True)
class Report:
    """What an inspection found."""

    root: Path
    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    is_clean: bool = False
    is_kafkas: bool = False
    quick: bool = False

    @property
    def wrong(self) -> list[Finding]:
        return [each for each in self.findings if each.is_wrong]

    def count(self, severity: Severity) -> int:
        return sum(each.severity is severity for each in self.findings)

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.root),
            "right": not self.wrong,
            "clean_stop": self.is_clean,
            "apache_kafka": self.is_kafkas,
            "quick": self.quick,
            "partitions": self.partitions,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "findings": [each.as_json() for each in self.findings],
        }


def inspect(
    root: Path,
    *,
    quick: bool = False,
    progress: Progress = lambda *_: None,
    now_ms: int | None = None,
) -> Report:
    """Look at a data folder that no broker uses. Raises CannotLook."""
    began = time.monotonic()
    found = folder.opened(root)
    run = _Inspection(found, quick, progress, now_ms or int(time.time() * 1000))
    report = Report(root, is_clean=found.is_clean, is_kafkas=found.is_kafkas, quick=quick)
    report.findings = sorted(run.run(), key=_order)
    for facts in run.facts.values():
        report.partitions += 1
        report.batches += facts.batches
        report.records += facts.records
        report.bytes += facts.bytes
    report.seconds = time.monotonic() - began
    return report


def _order(finding: Finding) -> tuple[int, bool, str, int, int]:
    """The worst first and, of those, what explains the others: the catalogue."""
    return (
        list(Severity).index(finding.severity),
        finding.topic != catalogue.KEY[0],
        finding.topic or "",
        finding.partition or 0,
        finding.first_offset or 0,
    )


class _Inspection:
    """One run of `inspect`."""

    def __init__(self, found: Folder, quick: bool, progress: Progress, now_ms: int) -> None:
        self.facts: dict[TopicPartition, Facts] = {}
        self._folder = found
        self._quick = quick
        self._progress = progress
        self._now_ms = now_ms
        self._catalogue = CatalogueView()
        self._transactions = TransactionsView()
        self._groups = GroupsView()
        self._shares = SharesView()
        self._done = 0
        self._total = sum(map(_size, found.partitions.values()))

    def run(self) -> Iterator[Finding]:
        yield from self._small_files()
        places = self._folder.partitions
        if catalogue.KEY in places:
            before = [*self._partition(places[catalogue.KEY])]
            is_damaged = any(isinstance(each.remedy, EditSegment) for each in before)
            self._catalogue.is_whole = self.facts[catalogue.KEY].was_read and not is_damaged
            self._catalogue.has_holes |= any(each.is_wrong for each in before)
            yield from catalogue.explained(before, self._catalogue, self._folder)
        # The coordinator's log first: it tells how transactions ended whose markers are lost.
        for key in sorted(places, key=lambda key: (key[0] != TRANSACTION_STATE, key)):
            if key != catalogue.KEY:
                yield from self._partition(places[key])
        if self._folder.is_kafkas:
            yield _kafkas(self._folder)
            return
        if not self._catalogue.newest and any(each.batches for each in self.facts.values()):
            self._catalogue.has_holes = True  # a repair was killed before it had written any of it
        known = self._transactions.known.values()
        yield from catalogue.inspect(self._folder, self._catalogue, self.facts, known)
        yield from Folders(self._folder, self._catalogue, self.facts, self._testimony()).inspect()
        yield from transactions.inspect(self._transactions, self.facts, self._now_ms)
        topics: dict[str, UUID | None] = dict.fromkeys(name for name, _ in self.facts)
        if self._catalogue.topics:
            topics = {name: topic.id for name, topic in self._catalogue.topics.items()}
        yield from groups.inspect(self._groups, self.facts, topics)
        names = {topic.id: topic.name for topic in self._catalogue.topics.values()}
        yield from shares.inspect(self._shares, self.facts, names)

    def _testimony(self) -> Testimony:
        return Testimony(
            self._groups.topic_ids(),
            frozenset(key.topic_id for key in self._shares.starts),
            {
                CONSUMER_OFFSETS: self._groups.keys,
                TRANSACTION_STATE: self._transactions.keys,
                SHARE_GROUP_STATE: self._shares.keys,
            },
        )

    def _small_files(self) -> Iterator[Finding]:
        for name, why in self._folder.damaged.items():
            means = "the next start reads more of the logs to find its way"
            if name == META and meta.FORMAT_LINE in why:
                means = "the broker does not start"
            elif name == META:
                means = "the next start makes a new one, with another cluster id: who knows the old one, as "
                means += "Spark's source does, takes this for another log; restore it from a copy"
            yield Finding(
                "checkpoint-damaged",
                Severity.DAMAGE if name == META else Severity.NUISANCE,
                name,
                f"it cannot be used: {why}",
                means,
                remedy=self._meta()
                if name == META
                else MoveAside("put it aside; it is written again", (self._folder.root / name,)),
            )

    def _meta(self) -> WriteMeta | None:
        """What can be read stays; Apache Kafka's own tool formats Apache Kafka's folder."""
        if self._folder.is_kafkas:
            return None
        found = dict(self._folder.meta)
        if not found.get("node.id", "").isdigit():
            found.pop("node.id", None)
        kept = "the cluster id that it has" if found.get("cluster.id") else "a new cluster id"
        node = found.get("node.id", "1")
        says = f"write it again, with {kept}, and node {node}; the old one is kept aside"
        return WriteMeta(says, self._folder.root / META, text_of(completed(found, node)))

    def _partition(self, place: Place) -> Iterator[Finding]:
        topic = self._catalogue.topics.get(place.topic)
        config = topic_config(Settings({}), topic.configs if topic is not None else {})
        gaps = topic is None or config.compact
        is_known = topic is not None and place.number < topic.partitions
        known = is_known or place.key == catalogue.KEY or not self._catalogue.is_whole
        facts = self.facts[place.key] = facts_of(self._folder, place, gaps=gaps, is_known=known)
        facts.decisions = self._transactions.decisions
        options = Options(
            decode=not self._quick,
            batch_bytes_max=config.max_message_bytes if topic is not None else 2**31,
            read=partial(self._read, f"{place.topic}-{place.number}"),
        )
        found = PartitionCheck(self._folder, facts, options, self._visitor(place)).run()
        for each in found:
            waits = isinstance(each.remedy, FillHole) and self._may_come_back(place)
            yield replace(each, remedy=None) if waits else each

    def _may_come_back(self, place: Place) -> bool:
        """Whether it is not known yet if what it lacks was set aside: filled, it would be in the way."""
        is_known = self._catalogue.is_whole and place.topic in self._catalogue.topics
        return not is_known and place.key in self._folder.strays.values()

    def _visitor(self, place: Place) -> Visitor | None:
        if place.key == catalogue.KEY:
            return self._catalogue.visit
        if place.topic == TRANSACTION_STATE:
            return self._transactions.visitor(place.number)
        if place.topic == CONSUMER_OFFSETS:
            return self._groups.visitor(place.number)
        if place.topic == SHARE_GROUP_STATE:
            return self._shares.visitor(place.number)
        return None

    def _read(self, where: str, size: int) -> None:
        self._done += size
        self._progress(self._done, self._total, where)


def _size(place: Place) -> int:
    try:
        return sum(path.stat().st_size for path in place.directory.glob("*.log"))
    except OSError:
        return 0


def _kafkas(found: Folder) -> Finding:
    return Finding(
        "apache-kafka",
        Severity.NOTE,
        str(found.root.name),
        "this is a data folder of Apache Kafka",
        "its segments and indexes were looked at; its metadata, groups and transactions were not",
    )
