"""The partitions' folders against the catalogue: missing ones, unknown ones, those of another topic.

`check` calls `inspect` once every partition has been gone through. A folder says in `partition.metadata`
which topic it is of; the catalogue's history says whether that topic was deleted or never known.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.broker.catalogue import LOG_NAME, Topic
from headwater.broker.inspection.catalogue import KEY, configs_for, topic_record
from headwater.broker.inspection.catalogue_view import CatalogueView
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.remedy import Remedy, RenameFolder, WriteCatalogue, WriteTopicId
from headwater.broker.inspection.testimony import Testimony
from headwater.log import checkpoints
from headwater.log.checkpoints import TopicPartition
from headwater.log.files import Files

_SET_ASIDE = "the next start sets it aside, and its records cannot be read"
_WRITTEN = "the next start writes it, because folder and catalogue agree on the name"
_KEPT = "with configs under which nothing is removed; its own configs are lost, set them again"


@dataclass(slots=True)
class Folders:
    """All folders of partitions, against what the catalogue says."""

    folder: Folder
    view: CatalogueView
    facts: Mapping[TopicPartition, Facts]
    testimony: Testimony

    def inspect(self) -> Iterator[Finding]:
        for finding in (*self._missing(), *self._present(), *self._strays(), *self._others()):
            # Damage hides records of the catalogue: what they say must be read first.
            yield finding if self.view.is_whole else replace(finding, remedy=None)

    @property
    def _has_catalogue(self) -> bool:
        return KEY in self.folder.partitions

    # ---- what the catalogue names --------------------------------------------------------------

    def _missing(self) -> Iterator[Finding]:
        strays = set(self.folder.strays.values())
        for known in self.view.topics.values():
            topic = self.testimony.made_again(known, self.view, self.facts) or known
            for number in range(topic.partitions):
                key = (topic.name, number)
                if key not in self.folder.partitions and key not in strays:
                    yield self._missing_one(topic, number)

    def _missing_one(self, topic: Topic, number: int) -> Finding:
        key, folder = (topic.name, number), self.folder
        end = folder.offset(checkpoints.RECOVERY_POINTS, key)
        start = folder.offset(checkpoints.START_OFFSETS, key)
        had_any = end > start
        is_known = any(key in entries for entries in folder.offsets.values())
        directory = folder.root / f"{topic.name}-{number}"
        lost = f"its records up to offset {end - 1} are gone unless there is a copy elsewhere"
        return Finding(
            "folder-missing",
            Severity.LOSS if had_any else Severity.NUISANCE if is_known else Severity.NOTE,
            directory.name,
            f"the catalogue has partition {number} of {topic.name}, and its folder is missing",
            lost
            if had_any
            else "the next start makes it, empty; a crash while it was made explains it",
            topic.name,
            number,
            start if had_any else None,
            end - 1 if had_any else None,
            WriteTopicId("make the folder", directory, topic.id),
        )

    def _present(self) -> Iterator[Finding]:
        unknown: dict[str, list[TopicPartition]] = {}
        for key, facts in self.facts.items():
            topic = self.view.topics.get(key[0])
            if key[0] == LOG_NAME or not facts.was_read:
                continue
            if topic is None:
                unknown.setdefault(key[0], []).append(key)
            elif facts.topic_id != topic.id:
                yield self._other_id(topic, facts)
            elif key[1] >= topic.partitions:
                yield self._beyond(topic, facts)
        for name, keys in unknown.items():
            yield from self._unknown(name, keys)

    def _other_id(self, topic: Topic, facts: Facts) -> Finding:
        place, found = facts.place, facts.topic_id
        elsewhere = self.view.gone.get(found) if found is not None else None
        if elsewhere is not None or (found in self.view.by_id()):
            whose = elsewhere or self.view.by_id()[found].name if found is not None else ""
            is_removed = elsewhere is not None or not facts.batches
            fate = "removes it" if is_removed else "sets it aside"
            return self._finding(
                facts,
                "folder-of-another-topic",
                Severity.DAMAGE if facts.records else Severity.NOTE,
                f"the folder is of another topic: {checkpoints.encode_topic_id(found or topic.id)}, "
                f"which was or is called {whose}",
                f"the next start {fate} and starts the partition again, empty",
                _set_aside(place.directory),
            )
        what, means = "does not say which topic it is of", _WRITTEN
        if found is not None:
            what = "names a topic unknown here"
            means = means if checkpoints.is_misread(found, topic.id) else _SET_ASIDE
        again = self.testimony.made_again(topic, self.view, self.facts)
        return self._finding(
            facts,
            "topic-id-wrong",
            Severity.DAMAGE if facts.batches or found is not None else Severity.NOTE,
            f"{checkpoints.PARTITION_METADATA} {what}",
            means,
            self._write(f"put {topic.name} into the catalogue as it was made again, {_KEPT}", again)
            if again
            else WriteTopicId("write the id that the catalogue has", place.directory, topic.id),
        )

    def _beyond(self, topic: Topic, facts: Facts) -> Finding:
        """A partition whose addition the catalogue does not know."""
        numbers = [number for name, number in self.facts if name == topic.name]
        grown = replace(topic, partitions=max(numbers) + 1)
        return self._finding(
            facts,
            "partition-unknown",
            Severity.DAMAGE if facts.records else Severity.NOTE,
            f"the catalogue says that {topic.name} has {topic.partitions} partitions",
            _SET_ASIDE if facts.records else "it is empty: a crash while it was added explains it",
            self._write(f"let {topic.name} have {grown.partitions} partitions", grown)
            if any(self.facts[topic.name, number].records for number in numbers)
            else None,
        )

    # ---- what the catalogue does not name ------------------------------------------------------

    def _unknown(self, name: str, keys: list[TopicPartition]) -> Iterator[Finding]:
        ids = Counter(self.facts[key].topic_id for key in keys if self.facts[key].topic_id)
        majority = ids.most_common(1)[0][0] if ids else None
        for key in keys:
            facts = self.facts[key]
            found = facts.topic_id
            owner = self.view.by_id().get(found) if found is not None else None
            if found is not None and found in self.view.gone:
                yield self._finding(
                    facts,
                    "folder-of-deleted-topic",
                    Severity.NOTE,
                    "the topic was deleted, and a crash has left this folder of it",
                    "nobody reads it; the next start removes it",
                )
            elif owner is not None:
                yield self._finding(
                    facts,
                    "two-folders-of-one-topic",
                    Severity.NUISANCE,
                    f"it says that it is of topic {owner.name}, which has a folder of its own",
                    "nobody reads it; perhaps somebody has copied or renamed a folder",
                    _set_aside(facts.place.directory),
                )
            elif self._was_being_made(keys):
                yield self._finding(
                    facts,
                    "folder-of-unborn-topic",
                    Severity.NOTE,
                    f"an empty folder of topic {name}, which the catalogue does not know",
                    "a crash while the topic was made explains it; the next start "
                    + ("leaves it" if found is None else "removes it"),
                )
            else:
                yield self._adopted(name, keys, facts, majority)

    def _was_being_made(self, keys: list[TopicPartition]) -> bool:
        """Nobody was told that the topic is there: the folders come first, then the catalogue."""
        is_empty = not any(self.facts[key].batches for key in keys)
        return is_empty and self._has_catalogue and not self.view.has_holes

    def _adopted(
        self, name: str, keys: list[TopicPartition], facts: Facts, topic_id: uuid.UUID | None
    ) -> Finding:
        taken = {*self.view.gone, *self.view.by_id()}
        chosen = topic_id or self.testimony.topic_id(name, self.facts, taken)
        partitions = self.testimony.partitions(name, max(number for _, number in keys) + 1)
        topic = Topic(name, chosen, partitions, configs_for(name))
        what = f"without the catalogue nobody knows {name}"
        means = "the broker does not start, and its records cannot be read"
        if self._has_catalogue:
            what, means = f"the catalogue has never heard of {name}", _SET_ASIDE
        severity = Severity.DAMAGE if facts.records else Severity.NUISANCE
        remedy = self._write(
            f"put {name} back into the catalogue, {_KEPT}",
            topic,
        )
        return self._finding(facts, "folder-unknown", severity, what, means, remedy)

    def _strays(self) -> Iterator[Finding]:
        for name, key in self.folder.strays.items():
            yield self._stray(name, key)

    def _stray(self, name: str, key: TopicPartition) -> Finding:
        path = self.folder.root / name
        try:
            found = checkpoints.read_topic_id(Files(), path)
        except OSError:
            found = None
        topic = self.view.topics.get(key[0])
        current = self.facts.get(key)
        is_free = current is None or (current.was_read and not current.batches)
        remedy: Remedy | None = None
        severity, means = Severity.NOTE, "nobody reads it; it may be deleted if it is not wanted"
        back = RenameFolder("give it its name back", path, self.folder.root / f"{key[0]}-{key[1]}")
        if found is not None and found in self.view.gone:
            what = f"a folder that was set aside; its topic {key[0]} was deleted"
        elif is_free and topic is not None and found in (topic.id, None):
            what = "a folder that was set aside, of a partition that is empty now"
            severity, means, remedy = Severity.DAMAGE, "its records cannot be read", back
        elif topic is None and found is not None and found not in self.view.by_id():
            what = "a folder that was set aside, of a topic that the catalogue never heard of"
            severity, means = Severity.DAMAGE, "its records cannot be read"
            remedy = back if is_free else None
        else:
            what = "a folder that was set aside"
        return Finding("folder-set-aside", severity, name, what, means, *key, remedy=remedy)

    def _others(self) -> Iterator[Finding]:
        doomed = ("a partition that was being deleted", "the next start removes it")
        for name in self.folder.doomed:
            yield Finding("folder-doomed", Severity.NOTE, name, *doomed)
        unknown = ("nothing in a data folder has this name", "nobody reads it")
        for name in self.folder.unknown:
            yield Finding("unknown-file", Severity.NOTE, name, *unknown)

    def _write(self, says: str, topic: Topic) -> WriteCatalogue:
        return WriteCatalogue(says, self.folder.root / f"{LOG_NAME}-0", (topic_record(topic),))

    def _finding(
        self,
        facts: Facts,
        kind: str,
        severity: Severity,
        what: str,
        means: str,
        remedy: Remedy | None = None,
    ) -> Finding:
        place = facts.place
        return Finding(
            kind, severity, place.where(), what, means, place.topic, place.number, remedy=remedy
        )


def _set_aside(directory: Path) -> RenameFolder:
    stray = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}-stray")
    return RenameFolder("set the folder aside", directory, stray)
