"""Which topics there are, with their ids and configs: itself a log, and this a view of it.

The folder `__headwater_catalogue-0` is an ordinary partition log of JSON records that only the broker
sees. A change is appended, and takes effect once it is durable; so a crash at any byte leaves the
catalogue as it was before the change or after it. At start the log is read from the beginning.

    key                 value (none: the thing is gone)
    topic/NAME          {"id": UUID, "partitions": N, "configs": {…}, "created_ms": N}
    broker/NODE         {"configs": {…}}                  dynamic settings; NODE may be empty: all
    group/ID            {"configs": {…}}                  a group's own configs
    client-metrics/NAME {"configs": {…}}                  a subscription to clients' metrics
    feature/NAME        {"level": N}                      a feature that is not at its highest level
    producer-ids        {"next": N}                       ids below N may have been given out
    excisions/TOPIC-ID  see excision_progress
    scram/… secret/…    see security/credentials
    acl/…               see security/authorizer

The record must be durable before anybody is told of the change, and before a folder is used or removed.

Without the catalogue nobody knows whose the partitions' folders are. So one that is missing, damaged or
shorter than it was must stop the start (`open_log`), before anything is opened or tidied up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.broker import internal_topics
from headwater.broker.partition import Partition
from headwater.errors import HeadwaterError
from headwater.log import integrity, replay
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.replay import Damage
from headwater.log.store import LogStore
from headwater.record import batch as batches
from headwater.record import records

LOG_NAME = internal_topics.CATALOGUE
PRODUCER_ID_BLOCK = 1000
MADE = "headwater.catalogue"
"""In meta.properties: there is a catalogue, so that its absence is a loss and not a beginning."""

logger = logging.getLogger("headwater.broker")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as clients know it."""

    name: str
    id: uuid.UUID
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0
    """When it was made; 0 if nobody has noted that."""

    @property
    def is_internal(self) -> bool:
        return self.name in internal_topics.INTERNAL

    def to_json(self) -> dict[str, Any]:
        """The value of its record."""
        found = {"id": str(self.id), "partitions": self.partitions, "configs": dict(self.configs)}
        return found | {"created_ms": self.created_ms} if self.created_ms else found


class Catalogue:
    """The topics, the dynamic settings and the next producer id."""

    def __init__(self, partition: Partition, now_ms: Callable[[], int]) -> None:
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[uuid.UUID, Topic] = {}
        self.deleted: set[uuid.UUID] = set()
        """Topics that are gone while some of their folders may still be there."""
        self.version = 0
        """Grows whenever a topic comes, changes or goes."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.on_topic_configs: Callable[[Topic], None] = lambda topic: None
        self.on_topic_gone: Callable[[Topic], None] = lambda topic: None
        """Called in the turn in which a topic is no more: what belongs to it goes with it."""
        self.on_broker_configs: Callable[[str, dict[str, str]], None] = lambda node, configs: None
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        self.feature_levels: dict[str, int] = {}
        self.on_group_configs: Callable[[str, dict[str, str]], None] = lambda group, configs: None
        self.on_client_metrics: Callable[[], None] = lambda: None
        self._others: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._followers: dict[str, Callable[[str, Mapping[str, Any] | None], None]] = {}
        self.changing = asyncio.Lock()
        """Held by whoever reads a topic in order to change it."""
        self._partition = partition
        self._now_ms = now_ms
        self._next_producer_id = 0
        self._producer_ids_end = 0
        _replay(partition.log, self._apply)
        # Which ids of the last block were given out is not known: none of them is given again.
        self._next_producer_id = self._producer_ids_end

    # ---- changes: each is done when it is durable ------------------------------------------------

    async def put_topic(self, topic: Topic) -> None:
        """Create a topic, or change one."""
        await self._write(f"topic/{topic.name}", topic.to_json())

    async def remove_topic(self, name: str) -> None:
        await self._write(f"topic/{name}", None)

    async def set_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace a topic's own configs, and tell its logs."""
        await self.put_topic(replace(self.topics[name], configs=dict(configs)))
        self.on_topic_configs(self.topics[name])

    async def set_broker_configs(self, node: str, configs: Mapping[str, str]) -> None:
        """Replace the dynamic settings of a node, or (empty name) of all."""
        await self._write(f"broker/{node}", {"configs": dict(configs)} if configs else None)
        self.on_broker_configs(node, dict(configs))

    async def set_group_configs(self, group: str, configs: Mapping[str, str]) -> None:
        """Replace a group's own configs; none: forget them."""
        await self._write(f"group/{group}", {"configs": dict(configs)} if configs else None)
        self.on_group_configs(group, dict(configs))

    async def set_client_metrics(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace a subscription to clients' metrics; no configs: end it."""
        await self._write(f"client-metrics/{name}", {"configs": dict(configs)} if configs else None)
        self.on_client_metrics()

    async def put(self, kind: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Write (none: remove) something of a kind that another part follows."""
        await self._write(f"{kind}/{name}", value)

    async def set_feature(self, name: str, level: int) -> None:
        await self._write(f"feature/{name}", {"level": level})

    @property
    def is_sound(self) -> bool:
        """Whether what memory says is what a start would find."""
        return self._partition.failed is None

    @property
    def epoch(self) -> int:
        """Grows with every change."""
        return self._partition.log.durable_offset

    @property
    def producer_ids_end(self) -> int:
        """No producer has been given an id from here on."""
        return self._producer_ids_end

    async def next_producer_id(self) -> int:
        """An id that no producer has had before."""
        while self._next_producer_id >= self._producer_ids_end:
            end = self._producer_ids_end + PRODUCER_ID_BLOCK
            await self._write("producer-ids", {"next": end})
        self._next_producer_id += 1
        return self._next_producer_id - 1

    async def _write(self, key: str, value: Mapping[str, Any] | None) -> None:
        now_ms = self._now_ms()
        text = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        data = records.build([records.Record(0, now_ms, key.encode(), text)])
        header = batches.read_header(data)
        offset = self._partition.append(data, header, now_ms)
        await self._partition.durable(offset + 1)
        self._apply(key, value)

    # ---- the view ------------------------------------------------------------------------------

    def follow(self, kind: str, apply: Callable[[str, Mapping[str, Any] | None], None]) -> None:
        """Hand everything of this kind to `apply`: what is there now, and each change from now on."""
        self._followers[kind] = apply
        for name, value in self._others.get(kind, {}).items():
            apply(name, value)

    def has(self, kind: str, name: str) -> bool:
        return name in self._others.get(kind, {})

    def _apply(self, key: str, value: Mapping[str, Any] | None) -> None:
        kind, _, name = key.partition("/")
        if kind == "topic":
            self._apply_topic(name, value)
        elif kind == "broker":
            self.broker_configs.pop(name, None)
            if value is not None:
                self.broker_configs[name] = dict(value["configs"])
        elif kind in ("group", "client-metrics"):
            kept = self.group_configs if kind == "group" else self.client_metrics
            kept.pop(name, None)
            if value is not None:
                kept[name] = dict(value["configs"])
        elif kind == "feature" and value is not None:
            self.feature_levels[name] = value["level"]
        elif kind == "producer-ids" and value is not None:
            self._producer_ids_end = value["next"]
        elif kind != "producer-ids":
            kept_values = self._others.setdefault(kind, {})
            kept_values.pop(name, None)
            if value is not None:
                kept_values[name] = value
            if kind in self._followers:
                self._followers[kind](name, value)

    def _apply_topic(self, name: str, value: Mapping[str, Any] | None) -> None:
        if name in internal_topics.NEVER_TOPICS:
            logger.error("the catalogue has a topic called %s; it is left out", name)
            return
        self.version += 1
        known = self.topics.pop(name, None)
        if known is not None:
            del self.by_id[known.id]
            self.deleted.add(known.id)
            if value is None:
                self.on_topic_gone(known)
        if value is not None:
            created_ms = value.get("created_ms", 0)
            topic_id, partitions = uuid.UUID(value["id"]), value["partitions"]
            topic = Topic(name, topic_id, partitions, value["configs"], created_ms)
            self.topics[name] = topic
            self.by_id[topic.id] = topic
            self.deleted.discard(topic.id)


# ---- at start ----------------------------------------------------------------------------------


def open_log(store: LogStore) -> PartitionLog:
    """The catalogue's log, made if the folder is new. Raises HeadwaterError if it is not as it was."""
    directory = store.directory(LOG_NAME, 0)
    if not any(name.endswith(".log") for name in store.files.list(directory)):
        if store.meta.is_noted(MADE) or store.was_used:
            raise _unusable(directory, "missing, though this folder has been used")
    elif problem := integrity.problem(store.files, directory, store.recovery_point(LOG_NAME, 0)):
        raise _unusable(directory, problem)
    config = LogConfig(compact=True, delete=False, syncs_durable_offset=True)
    log = store.open_log(LOG_NAME, 0, config)
    # A folder without records may have been made for the first topic, whose record never came.
    if not log.next_offset and any(store.has_records(*each) for each in store.partitions()):
        log.abandon()
        raise _unusable(directory, "empty, though there are partitions with records")
    store.meta.note(MADE)
    return log


def _unusable(directory: Path, problem: str) -> HeadwaterError:
    root = directory.parent
    return HeadwaterError(
        f"The catalogue of topics, {directory}, is {problem}.",
        hint=f"Restore that folder from a copy; or see with `headwater check {root}` what is there, and "
        f"let `headwater repair {root} --yes` make it anew from the partitions' folders.",
    )


def _replay(log: PartitionLog, apply: Callable[[str, Mapping[str, Any] | None], None]) -> None:
    """Hand over every record of the catalogue's log, in order. Raises HeadwaterError."""

    def stop(found: Damage) -> None:
        raise _unusable(log.directory, f"damaged: {found}")

    for batch in replay.read(log, 0, stop):
        for record in batch.records:
            try:
                value = None if record.value is None else json.loads(record.value)
                apply((record.key or b"").decode(), value)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                problem = f"damaged: its record {record.offset} cannot be read ({error!r})"
                raise _unusable(log.directory, problem) from error
