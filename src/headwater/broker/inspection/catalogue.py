"""The catalogue as its log tells it, and what follows from it for the folders.

`check` shows it every batch of `__headwater_catalogue-0` and asks it about topics afterwards. Unlike the
broker's `Catalogue` it remembers what is gone, too: a folder of a topic that was deleted is one thing, a
folder that the catalogue never heard of another.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.broker import internal_topics
from headwater.broker.catalogue import LOG_NAME, PRODUCER_ID_BLOCK, Topic
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.finding import Finding, Severity
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.remedy import WriteCatalogue
from headwater.broker.settings import Settings
from headwater.record.batch import BatchHeader
from headwater.record.records import Record

KEY = (LOG_NAME, 0)
_KEPT: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}


@dataclass(slots=True)
class CatalogueView:
    """What the records of the catalogue add up to."""

    topics: dict[str, Topic] = field(default_factory=dict)
    gone: dict[uuid.UUID, str] = field(default_factory=dict)
    """Ids of topics that were deleted."""
    producer_ids_end: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Offsets of records that cannot be understood, and why."""
    is_whole: bool = True
    """False while damage, or the disk, hides some of its records."""

    def visit(self, _header: BatchHeader, found: list[Record], _data: memoryview) -> None:
        for record in found:
            try:
                key = (record.key or b"").decode()
                value = None if record.value is None else json.loads(record.value)
                self._apply(key, value)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.bad.append((record.offset, str(error)))

    def _apply(self, key: str, value: Any) -> None:
        kind, _, name = key.partition("/")
        self.kinds[kind] += 1
        if kind == "producer-ids" and value is not None:
            self.producer_ids_end = int(value["next"])
        if kind != "topic":
            return
        known = self.topics.pop(name, None)
        if known is not None:
            self.gone[known.id] = name
        if value is not None:
            count, made = int(value["partitions"]), int(value.get("created_ms", 0))
            topic = Topic(name, uuid.UUID(value["id"]), count, value["configs"], made)
            self.topics[name] = topic
            self.gone.pop(topic.id, None)

    def by_id(self) -> dict[uuid.UUID, Topic]:
        return {topic.id: topic for topic in self.topics.values()}


def configs_for(name: str) -> dict[str, str]:
    """Configs for a topic whose own are lost: such that nothing of it is removed."""
    row = internal_topics.find(name)
    return dict(_KEPT) if row is None else row.configs(Settings({}), {})


def topic_record(topic: Topic) -> tuple[str, dict[str, Any]]:
    return f"topic/{topic.name}", topic.to_json()


def inspect(folder: Folder, view: CatalogueView, facts: Mapping[Any, Facts]) -> Iterator[Finding]:
    """The catalogue itself: that it is there, and that its records make sense."""
    directory = folder.root / f"{LOG_NAME}-0"
    if KEY not in folder.partitions:
        yield Finding(
            "catalogue-missing",
            Severity.DAMAGE,
            f"{LOG_NAME}-0",
            "the catalogue, which says which topics there are, is missing",
            "the broker does not start, because it knows no topic any more; their configs, and all "
            "users, rules and settings that were made while it ran, are lost",
            LOG_NAME,
            0,
            remedy=WriteCatalogue(
                "make a new one from the folders of the topics, with configs under which nothing is "
                "removed; set the topics' own configs again, and make users and rules anew",
                directory,
                (("producer-ids", {"next": _producer_ids_end(facts)}),),
            ),
        )
        return
    for offset, why in view.bad:
        yield Finding(
            "catalogue-record-bad",
            Severity.DAMAGE,
            f"{LOG_NAME}-0",
            f"the record at offset {offset} cannot be understood: {why}",
            "the broker may refuse to start",
            LOG_NAME,
            0,
            offset,
            offset,
        )
    yield from _producer_ids(folder, view, facts)


def _producer_ids_end(facts: Mapping[Any, Facts]) -> int:
    highest = max((each.producer_id_max for each in facts.values()), default=-1)
    return (highest // PRODUCER_ID_BLOCK + 2) * PRODUCER_ID_BLOCK


def _producer_ids(
    folder: Folder, view: CatalogueView, facts: Mapping[Any, Facts]
) -> Iterator[Finding]:
    highest = max((each.producer_id_max for each in facts.values()), default=-1)
    if highest < view.producer_ids_end:
        return
    end = _producer_ids_end(facts)
    yield Finding(
        "producer-ids-behind",
        Severity.DAMAGE,
        f"{LOG_NAME}-0",
        f"producer {highest} has written, and the catalogue gives out ids from "
        f"{view.producer_ids_end} on",
        "a new producer may get the id of another; its records may then be refused, or taken for "
        "repetitions and dropped",
        LOG_NAME,
        0,
        remedy=WriteCatalogue(
            f"give out ids from {end} on",
            folder.root / f"{LOG_NAME}-0",
            (("producer-ids", {"next": end}),),
        )
        if view.is_whole
        else None,
    )
