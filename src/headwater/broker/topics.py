"""Creating, growing and deleting topics: first the catalogue's record, then the folders.

The topic APIs (and Metadata, when a topic is to be made on first use) come here. All work on the same
topic is done one after the other, so that two clients that create it at once get one topic.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace

from kio.schema.errors import ErrorCode

from headwater.broker.catalogue import Catalogue, Topic
from headwater.broker.disk import DiskThreads
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings, check_topic_overrides, topic_config
from headwater.log.partition import StorageFailed
from headwater.log.store import LogStore

logger = logging.getLogger("headwater.broker")

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PARTITIONS_MAX = 10_000
"""Of one topic. Each has a folder and open files; more is a mistake on one machine."""


class TopicError(Exception):
    """A topic operation that is refused, with the protocol's code."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def check_name(name: str) -> None:
    """Raise TopicError unless a topic may be called this."""
    if name in ("", ".", ".."):
        raise TopicError(ErrorCode.invalid_topic_exception, f"{name!r} is not a topic name")
    if not _NAME.fullmatch(name):
        raise TopicError(
            ErrorCode.invalid_topic_exception,
            f"Topic name is invalid: {name[:300]!r} is not made of at most 249 ASCII letters, "
            f"digits, '.', '_' and '-'",
        )


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except (StorageFailed, OSError) as error:
        raise TopicError(
            ErrorCode.kafka_storage_error, f"the disk refused the change: {error}"
        ) from error


class Topics:
    """The life of topics: partitions by (name, number), changed only here."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: LogStore,
        settings: Settings,
        executor: Executor,
        disk: DiskThreads,
    ) -> None:
        self.partitions: dict[tuple[str, int], Partition] = {}
        self._catalogue = catalogue
        self._store = store
        self._settings = settings
        self._executor = executor
        self._disk = disk

    def open_all(self) -> None:
        """At start: every partition that the catalogue names; other folders are removed."""
        known = {
            (topic.name, number): topic.id
            for topic in self._catalogue.topics.values()
            for number in range(topic.partitions)
        }
        self._store.tidy(known)
        for topic in self._catalogue.topics.values():
            self._open(topic, 0)
            self._adopt(topic, 0)

    def _open(self, topic: Topic, first: int) -> None:
        """Open the partitions from `first` on (disk work)."""
        config = topic_config(self._settings, topic.configs)
        for number in range(first, topic.partitions):
            self._store.open_log(topic.name, number, config, topic.id)

    def _adopt(self, topic: Topic, first: int) -> None:
        for number in range(first, topic.partitions):
            log = self._store.logs[topic.name, number]
            self.partitions[topic.name, number] = Partition(
                topic.name, number, log, self._disk, self._store.reopen_log
            )

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """The topic that would be made. Raises TopicError."""
        check_name(name)
        if name in self._catalogue.topics:
            raise TopicError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        clash = self._clash(name)
        if clash is not None:
            raise TopicError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic: {clash}",
            )
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise TopicError(
                ErrorCode.invalid_partitions,
                f"Number of partitions must be from 1 to {PARTITIONS_MAX}, not {partitions}.",
            )
        problem = check_topic_overrides(configs, self._settings)
        if problem is not None:
            raise TopicError(ErrorCode.invalid_config, problem)
        return Topic(name, uuid.uuid4(), partitions, dict(configs))

    def _clash(self, name: str) -> str | None:
        """Kafka treats '.' and '_' as one letter here, because its metric names do."""
        if "." not in name and "_" not in name:
            return None
        same = name.replace(".", "_")
        return next((t for t in self._catalogue.topics if t.replace(".", "_") == same), None)

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Make a topic; done when it survives a crash and can be used."""
        async with self._catalogue.changing:
            topic = self.check_new(name, partitions, configs)
            with _storage_errors():
                await self._catalogue.put_topic(topic)
                try:
                    await self._run(self._open, topic, 0)
                except OSError:
                    await self._catalogue.remove_topic(name)
                    raise
            self._adopt(topic, 0)
            return topic

    async def grow(self, name: str, partitions: int) -> None:
        """Add partitions up to this number."""
        async with self._catalogue.changing:
            topic = self._catalogue.topics[name]
            first = topic.partitions
            grown = replace(topic, partitions=partitions)
            with _storage_errors():
                await self._run(self._open, grown, first)
                await self._catalogue.put_topic(grown)
            self._adopt(grown, first)

    async def delete(self, name: str) -> None:
        """Remove a topic and its data."""
        async with self._catalogue.changing:
            topic = self._catalogue.topics.get(name)
            if topic is None:
                raise TopicError(
                    ErrorCode.unknown_topic_or_partition, f"Topic '{name}' does not exist."
                )
            with _storage_errors():
                await self._catalogue.remove_topic(name)
            for number in range(topic.partitions):
                partition = self.partitions.pop((name, number), None)
                if partition is None:
                    continue
                partition.refuse(StorageFailed("the topic was deleted"))
                await partition.settle()
                await partition.when_unread()
                try:
                    await self._run(self._store.remove_log, name, number)
                except OSError as error:  # it is deleted all the same; a start removes the rest
                    logger.error("%s-%d could not be removed: %s", name, number, error)

    def reconfigure(self, topic: Topic) -> None:
        """Let a topic's logs follow its changed configs (or changed defaults)."""
        config = topic_config(self._settings, topic.configs)
        for number in range(topic.partitions):
            partition = self.partitions.get((topic.name, number))
            if partition is not None:
                partition.log.config = config

    async def _run(self, function: Callable[..., object], *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, function, *arguments)
