"""Creating, growing and deleting topics: they are what the catalogue's record says.

Folders are made before the record that makes them count, and removed after the one that ends them; so
whatever fails in between leaves no topic without its partitions, and a folder without records at most.

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

from headwater.broker import internal_topics
from headwater.broker.catalogue import Catalogue, Topic
from headwater.broker.disk import DiskThreads
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings, check_topic_overrides, topic_config
from headwater.log.partition import StorageFailed
from headwater.log.replay import Batch
from headwater.log.store import LogStore

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
logger = logging.getLogger("headwater.broker")

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

    async def open_all(self) -> None:
        """At start: every partition that the catalogue names. Folders of deleted topics are removed,
        others set aside; an internal topic's configs are put right."""
        known = {
            (topic.name, number): topic.id
            for topic in self._catalogue.topics.values()
            for number in range(topic.partitions)
        }
        self._store.deleted = self._catalogue.deleted
        self._store.tidy(known)
        self._catalogue.deleted.clear()
        for topic in tuple(self._catalogue.topics.values()):
            topic = await self._put_right(topic)
            self._open(topic, 0, is_new=False)
            self._adopt(topic, 0)

    async def _put_right(self, topic: Topic) -> Topic:
        broken = internal_topics.broken(topic.name, topic.configs)
        if not broken:
            return topic
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(broken.items()))
        logger.warning("%s had other configs than it needs; it has %s now", topic.name, wanted)
        mended = replace(topic, configs={**topic.configs, **broken})
        await self._catalogue.put_topic(mended)
        return mended

    def _open(self, topic: Topic, first: int, *, is_new: bool = True) -> None:
        """Open the partitions from `first` on (disk work)."""
        config = topic_config(self._settings, topic.configs)
        for number in range(first, topic.partitions):
            self._store.open_log(topic.name, number, config, topic.id, is_new=is_new)

    def _adopt(self, topic: Topic, first: int) -> None:
        for number in range(first, topic.partitions):
            log = self._store.logs[topic.name, number]
            self.partitions[topic.name, number] = Partition(
                topic.name, number, log, self._disk, self._store.reopen_log
            )

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """The topic that would be made; an internal one as its owner wants it. Raises TopicError."""
        check_name(name)
        reserved = internal_topics.why_not(name)
        if reserved is not None:
            raise TopicError(ErrorCode.invalid_topic_exception, reserved)
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
        configs = internal_topics.configs(name, self._settings, configs)
        problem = check_topic_overrides(configs, self._settings)
        if problem is not None:
            raise TopicError(ErrorCode.invalid_config, problem)
        return Topic(name, uuid.uuid4(), partitions, configs)

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
                try:
                    await self._run(self._open, topic, 0)
                    await self._catalogue.put_topic(topic)
                except (OSError, StorageFailed):
                    await self._close(topic, 0)
                    raise
            self._adopt(topic, 0)
            return topic

    async def ensure(self, name: str) -> Topic:
        """An internal topic, made on first use as its owner wants it. Raises StorageFailed."""
        row = internal_topics.TABLE[name]
        if name not in self._catalogue.topics:
            try:
                await self.create(name, row.count(self._settings), {})
            except TopicError as error:
                if error.code != ErrorCode.topic_already_exists:  # somebody else was quicker
                    raise StorageFailed(str(error)) from error
        if (name, 0) not in self.partitions:
            async with self._catalogue.changing:  # its record is there, its folders are being made
                pass
        topic = self._catalogue.topics.get(name)
        if topic is None or (name, 0) not in self.partitions:
            raise StorageFailed(f"{name} is being deleted")
        return topic

    def internal(self, name: str, key: str) -> Partition:
        """Where the records of this key are in one of Kafka's internal topics. Raises StorageFailed if
        somebody has deleted the topic."""
        partition = self.partitions.get((name, self.hashed(name, key)))
        if partition is None:
            raise StorageFailed(f"{name} is not there")
        return partition

    def hashed(self, name: str, key: str) -> int:
        """The number of that partition, by Kafka's rule: Java's hash of the key."""
        topic = self._catalogue.topics.get(name)
        return internal_topics.java_hash(key) % topic.partitions if topic else 0

    def replay(self, name: str) -> Iterator[tuple[int, Batch]]:
        """(partition, batch) of everything durable in an internal topic, oldest first within each
        partition; see `LogStore.replay` for what cannot be read."""
        topic = self._catalogue.topics.get(name)
        for number in range(topic.partitions if topic else 0):
            for batch in self.replay_from(self.partitions[name, number], 0):
                yield number, batch

    def replay_from(self, partition: Partition, offset: int) -> Iterator[Batch]:
        """The same of one partition, from an offset on."""
        row = internal_topics.find(partition.topic)
        meaning = row.loss if row is not None else "these records are missing"
        return self._store.replay(partition.log, offset, meaning)

    async def grow(self, name: str, partitions: int) -> None:
        """Add partitions up to this number."""
        async with self._catalogue.changing:
            topic = self._catalogue.topics[name]
            first = topic.partitions
            grown = replace(topic, partitions=partitions)
            with _storage_errors():
                try:
                    await self._run(self._open, grown, first)
                    await self._catalogue.put_topic(grown)
                except (OSError, StorageFailed):
                    await self._close(grown, first)
                    raise
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
                if partition is not None:
                    partition.refuse(StorageFailed("the topic was deleted"))
                    await partition.settle()
                    async with partition.maintenance:  # whoever changes its files comes first
                        await partition.when_unread()
            if await self._close(topic, 0):
                self._catalogue.deleted.discard(topic.id)

    async def _close(self, topic: Topic, first: int) -> bool:
        """Remove the folders of partitions that are no more; False if one is left, which does no harm:
        it goes when its name is needed, or at the next start."""
        whole = True
        for number in range(first, topic.partitions):
            try:
                await self._run(self._store.remove_log, topic.name, number)
            except OSError as error:
                logger.error("%s-%d could not be removed: %s", topic.name, number, error)
                whole = False
        return whole

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
