"""What commits, transactions and share groups tell of what the catalogue knew, for when it is lost.

Their views fill it, and `folders` asks it. An id that was made up would make commits a deleted topic's.
With another number of partitions a key would have records in two of them, and at the next start an old one
could win over one that was acknowledged since.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.broker import internal_topics
from headwater.broker.catalogue import Topic
from headwater.broker.inspection.catalogue import configs_for
from headwater.broker.inspection.catalogue_view import CatalogueView
from headwater.broker.inspection.facts import Facts
from headwater.broker.internal_topics import java_hash
from headwater.broker.settings import Settings
from headwater.log import checkpoints
from headwater.log.checkpoints import TopicPartition

KEYS_MAX = 10_000
"""Looked at; a handful tells one number from all others."""
PARTITIONS_MAX = 10_000


@dataclass(slots=True)
class HashedKeys:
    """(hash, partition) of the keys of one topic."""

    found: set[tuple[int, int]] = field(default_factory=set)

    def seen(self, partition: int, key: str | None) -> None:
        if key is not None and len(self.found) < KEYS_MAX:
            self.found.add((java_hash(key), partition))

    def partitions(self, least: int, usual: int) -> int:
        """The number under which every key lies where it is: the usual one, or else the first that there
        are folders for; `least` where there is none."""
        candidates = (usual, *range(least, PARTITIONS_MAX + 1))
        fits = (n for n in candidates if n >= least and self._agrees(n))
        return next(fits, least)

    def _agrees(self, partitions: int) -> bool:
        return all(value % partitions == at for value, at in self.found)


@dataclass(frozen=True, slots=True)
class Testimony:
    """All of it together."""

    topic_ids: Mapping[str, uuid.UUID]
    """Topic → the id that commits name for it."""
    share_ids: frozenset[uuid.UUID]
    """Of topics that share groups have read."""
    keys: Mapping[str, HashedKeys]

    def partitions(self, name: str, least: int) -> int:
        """How many a topic has of which `least` are known."""
        row, hashed = internal_topics.find(name), self.keys.get(name)
        if row is None or hashed is None:
            return least
        return hashed.partitions(least, row.count(Settings({})))

    def made_again(
        self, topic: Topic, view: CatalogueView, facts: Mapping[TopicPartition, Facts]
    ) -> Topic | None:
        """The topic of this name that was made after this one, where the catalogue has lost what it said of
        that: all folders are of it, and a repair has filled later records, or commits name it."""
        numbers = [number for name, number in facts if name == topic.name]
        (found, *others) = {facts[topic.name, number].topic_id for number in numbers} or {None}
        if found is None or others or checkpoints.is_misread(found, topic.id):
            return None
        is_testified = self.topic_ids.get(topic.name) == found
        if found in {*view.gone, *view.by_id()} or not (
            is_testified or view.may_be_older(topic.name)
        ):
            return None
        return Topic(topic.name, found, max(numbers) + 1, configs_for(topic.name))

    def topic_id(
        self, name: str, facts: Mapping[TopicPartition, Facts], taken: Iterable[uuid.UUID]
    ) -> uuid.UUID:
        """Of a topic none of whose folders says it; made up where nobody else does, either. `taken`: ids that
        the catalogue has heard of."""
        known: dict[str, set[uuid.UUID]] = {}
        for (topic, _), each in facts.items():
            known.setdefault(topic, set()).update({each.topic_id} if each.topic_id else ())
        others = {*taken}.union(*known.values())
        named = self.topic_ids.get(name)
        if named is not None and named not in others:
            return named
        unsaid = {topic for topic, ids in known.items() if not ids} - {internal_topics.CATALOGUE}
        nameless = unsaid - {*self.topic_ids}
        left = self.share_ids - others - {*self.topic_ids.values()}
        if nameless == {name} and len(left) == 1:
            return next(iter(left))
        return uuid.uuid5(uuid.NAMESPACE_OID, str(sorted(key for key in facts if key[0] == name)))
