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
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headwater.broker import catalogue_log, internal_topics, producer_ids
from headwater.broker.partition import Partition
from headwater.broker.producer_ids import ProducerIds
from headwater.broker.settings import Settings, topic_config
from headwater.log.config import LogConfig
from headwater.record import batch as batches
from headwater.record import records

LOG_NAME = internal_topics.CATALOGUE

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

    def log_config(self, settings: Settings) -> LogConfig:
        """How its logs behave."""
        config = topic_config(settings, self.configs)
        return replace(config, is_never_cut=self.name in internal_topics.NEVER_CUT)

    def to_json(self) -> dict[str, Any]:
        """The value of its record."""
        found = {"id": str(self.id), "partitions": self.partitions, "configs": dict(self.configs)}
        return found | {"created_ms": self.created_ms} if self.created_ms else found


class Budget(Protocol):
    """Asked before something new is written, with its size. Raises StorageFailed."""

    def admit(self, kind: str, size: int) -> None: ...


class Catalogue:
    """The topics, the dynamic settings and the next producer id."""

    def __init__(
        self,
        partition: Partition,
        now_ms: Callable[[], int],
        budget: Budget | None = None,
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[uuid.UUID, Topic] = {}
        self.deleted: set[uuid.UUID] = set()
        """Topics that are gone while some of their folders may still be there."""
        self.version = 0
        """Grows whenever a topic comes, changes or goes."""
        self._configs: dict[str, dict[str, dict[str, str]]]
        self._configs = {"broker": {}, "group": {}, "client-metrics": {}}
        self.broker_configs = self._configs["broker"]
        self.on_topic_configs: Callable[[Topic], None] = lambda topic: None
        self.on_topic_gone: Callable[[str], asyncio.Future[None]] = _nothing_else
        """Called in the turn in which a topic is no more: what belongs to it goes with it, until the result
        is there."""
        self.on_broker_configs: Callable[[str, dict[str, str]], None] = lambda node, configs: None
        self.group_configs = self._configs["group"]
        self.client_metrics = self._configs["client-metrics"]
        self.feature_levels: dict[str, int] = {}
        self.on_group_configs: Callable[[str, dict[str, str]], None] = lambda group, configs: None
        self.on_client_metrics: Callable[[], None] = lambda: None
        self._budget = budget
        self._others: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._followers: dict[str, Callable[[str, Mapping[str, Any] | None], None]] = {}
        self.changing = asyncio.Lock()
        """Held by whoever reads a topic in order to change it."""
        self._partition = partition
        self._now_ms = now_ms
        self.producer_ids = ProducerIds(self._write)
        catalogue_log.replay(partition.log, self._apply)
        self.producer_ids.begin()

    # ---- changes: each is done when it is durable ------------------------------------------------

    async def put_topic(self, topic: Topic) -> None:
        """Create a topic, or change one. A topic never shrinks: its records would be nobody's."""
        known = self.topics.get(topic.name)
        if known is not None and known.id == topic.id and topic.partitions < known.partitions:
            raise ValueError(f"{topic.name} never shrinks")
        await self._write(f"topic/{topic.name}", topic.to_json())

    async def remove_topic(self, name: str) -> asyncio.Future[None]:
        """The result is there when all that belonged to it is gone, too: until then there must be no other of
        its name."""
        await self._write(f"topic/{name}", None)
        return self.on_topic_gone(name)

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

    async def _write(self, key: str, value: Mapping[str, Any] | None) -> None:
        now_ms = self._now_ms()
        text = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        kind, _, name = key.partition("/")
        if self._budget is not None and text is not None and name not in self.of(kind):
            self._budget.admit(kind, len(key) + len(text))
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

    def of(self, kind: str) -> Mapping[str, Mapping[str, object]]:
        """What there is of a kind of configs, or of one that another part follows."""
        return self._configs.get(kind) or self._others.get(kind) or {}

    def _apply(self, key: str, value: Mapping[str, Any] | None) -> None:
        kind, _, name = key.partition("/")
        if kind == "topic":
            self._apply_topic(name, value)
        elif kind in self._configs:
            self._configs[kind].pop(name, None)
            if value is not None:
                self._configs[kind][name] = dict(value["configs"])
        elif kind == "feature" and value is not None:
            self.feature_levels[name] = value["level"]
        elif kind == producer_ids.KEY and value is not None:
            self.producer_ids.apply(value)
        elif kind != producer_ids.KEY:
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
        if value is not None:
            created_ms = value.get("created_ms", 0)
            topic_id, partitions = uuid.UUID(value["id"]), value["partitions"]
            topic = Topic(name, topic_id, partitions, value["configs"], created_ms)
            self.topics[name] = topic
            self.by_id[topic.id] = topic
            self.deleted.discard(topic.id)


def _nothing_else(topic: str) -> asyncio.Future[None]:
    """Until somebody keeps something that belongs to topics."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
