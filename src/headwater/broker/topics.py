"""Creating, growing and deleting topics: they are what the catalogue's record says.

Folders are made before the record that makes them count, and removed after the one that ends them; so
whatever fails in between leaves no topic without its partitions, and a folder without records at most.

The topic APIs (and Metadata, when a topic is to be made on first use) come here. All work on the same
topic is done one after the other, so that two clients that create it at once get one topic.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.catalogue import Catalogue, Topic
from headwater.broker.disk import OPENERS, DiskThreads, side_by_side
from headwater.broker.partition import Partition
from headwater.broker.settings import Settings, check_topic_overrides
from headwater.broker.supervisor import Supervisor
from headwater.broker.topic_admission import (
    PARTITIONS_MAX,
    Admission,
    Reservations,
    TopicError,
    anything,
    check_name,
    clashing,
    storage_errors,
    unknown_topic,
)
from headwater.log.partition import StorageFailed
from headwater.log.replay import Batch
from headwater.log.store import LogStore

logger = logging.getLogger("headwater.broker")

FOLDERS_AT_ONCE = 50
"""Made by a thread before it is somebody else's turn."""


class Topics:
    """The life of topics: partitions by (name, number), changed only here."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: LogStore,
        settings: Settings,
        executor: Executor,
        disk: DiskThreads,
        supervisor: Supervisor,
    ) -> None:
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.offline: dict[tuple[str, int], str] = {}
        """Partitions whose files could not be read at start, and why: neither read nor written."""
        self._in_doubt: set[str] = set()
        """Topics whose deletion the disk has refused: nobody knows whether the record of it is there."""
        self.reserved = Reservations(catalogue.changing)
        """Names of topics whose folders are being made or removed."""
        self._catalogue = catalogue
        self._store = store
        self._settings = settings
        self._executor = executor
        self._disk = disk
        self._supervisor = supervisor

    async def open_all(self) -> None:
        """At start: every partition of the catalogue. Folders of deleted topics go, others are set aside."""
        known = {
            (topic.name, number): topic.id
            for topic in self._catalogue.topics.values()
            for number in range(topic.partitions)
        }
        self._store.deleted = self._catalogue.deleted
        self._store.tidy(known)
        self._catalogue.deleted.clear()
        topics = [await self._put_right(topic) for topic in tuple(self._catalogue.topics.values())]
        await side_by_side(lambda share: self._open_some(topics, share), OPENERS)
        self._store.count_producers()  # threads have counted
        for topic in topics:
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

    async def _open_new(self, topic: Topic, first: int) -> None:
        """Make the partitions from `first` on, some at a time: others have work for these threads, too."""
        for begin in range(first, topic.partitions, FOLDERS_AT_ONCE):
            numbers = range(begin, min(begin + FOLDERS_AT_ONCE, topic.partitions))
            await self._run(self._open, topic, numbers)

    def _open(self, topic: Topic, numbers: range) -> None:
        """Open these partitions (disk work)."""
        config = topic.log_config(self._settings)
        for number in numbers:
            self._store.open_log(topic.name, number, config, topic.id)

    def _open_some(self, topics: list[Topic], first: int) -> None:
        """A share of all partitions. What cannot be read must not keep the others from being served."""
        for topic in topics:
            config, whole = topic.log_config(self._settings), topic.name in internal_topics.KAFKAS
            for number in range(first, topic.partitions, OPENERS):
                if why := self._store.open_found(topic.name, number, config, topic.id, whole):
                    self.offline[topic.name, number] = why

    def _adopt(self, topic: Topic, first: int) -> None:
        """From here on `reconfigure` finds them; what was changed while they were opened counts, too."""
        config = topic.log_config(self._settings)
        for number in range(first, topic.partitions):
            log = self._store.logs.get((topic.name, number))
            if log is not None:  # else it is offline
                log.config = config
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
        clash = clashing(name, itertools.chain(self._catalogue.topics, self.reserved.new))
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
        return Topic(name, uuid.uuid4(), partitions, configs, self._store.now_ms())

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Make a topic; done when it survives a crash and can be used.

        Its folders, of which there may be thousands, are made while others may change the catalogue;
        until its record is there, or is refused, nobody can do more with its name than wait.
        """
        topic = await self.reserved.begin(name, lambda: self.check_new(name, partitions, configs))
        self.reserved.new.add(name)
        return await self._supervisor.whole("topics", self._make(topic))

    async def _make(self, topic: Topic) -> Topic:
        """Whoever stops waiting for it: open folders without a record would keep their name from being
        used until the next start."""
        with self.reserved.held(topic.name), storage_errors():
            try:
                await self._open_new(topic, 0)
                async with self._catalogue.changing:
                    await self._catalogue.put_topic(topic)
                    self._adopt(topic, 0)
            except (OSError, StorageFailed):
                await self._close(topic, 0)
                raise
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
        await self.reserved.over(name)
        topic = self._catalogue.topics.get(name)
        if topic is None or not self.has(name, 0):
            raise StorageFailed(f"{name} is being deleted")
        return topic

    def has(self, name: str, number: int) -> bool:
        return (name, number) in self.partitions or (name, number) in self.offline

    def absence(self, name: str, number: int) -> ErrorCode:
        """Why there is no such partition: its files could not be read at start, or there is none."""
        if (name, number) in self.offline:
            return ErrorCode.kafka_storage_error
        return ErrorCode.unknown_topic_or_partition

    def is_offline(self, name: str, key: str) -> bool:
        """Whether the records of this key are in a partition that could not be read: nobody knows what
        they say, which is not the same as that there are none."""
        return (name, self.hashed(name, key)) in self.offline

    def hashed(self, name: str, key: str) -> int:
        """The partition of a key's records in an internal topic, by Kafka's rule: Java's hash of the key."""
        topic = self._catalogue.topics.get(name)
        return internal_topics.java_hash(key) % topic.partitions if topic else 0

    def replay_from(self, partition: Partition, offset: int) -> Iterator[Batch]:
        """Everything durable in a partition, from an offset on; see `LogStore.replay` for what cannot be
        read."""
        row = internal_topics.find(partition.topic)
        meaning = row.loss if row is not None else "these records are missing"
        return self._store.replay(partition.log, offset, meaning)

    async def grow(self, name: str, partitions: int, admit: Admission = anything) -> None:
        """Add partitions up to this number, if `admit` has nothing against it. Raises TopicError."""
        await self._supervisor.whole("topics", self._grow(name, partitions, admit))

    async def _grow(self, name: str, partitions: int, admit: Admission) -> None:
        topic = await self.reserved.begin(name, lambda: self._known(name, admit, unknown_topic()))
        grown, first = replace(topic, partitions=partitions), topic.partitions
        with self.reserved.held(name), storage_errors():
            try:
                await self._open_new(grown, first)
                async with self._catalogue.changing:  # others may have changed its configs
                    grown = replace(self._catalogue.topics[name], partitions=partitions)
                    await self._catalogue.put_topic(grown)
                    self._adopt(grown, first)
            except (OSError, StorageFailed):
                await self._close(grown, first)
                raise

    def _known(self, name: str, admit: Admission, unknown: TopicError) -> Topic:
        topic = self._catalogue.topics.get(name)
        if topic is None:
            raise unknown
        admit(topic)
        return topic

    async def delete(self, name: str, admit: Admission = anything) -> Topic:
        """Remove a topic and its data, if `admit` has nothing against it. Raises TopicError."""
        kept = internal_topics.why_kept(name)
        if kept is not None and name in self._catalogue.topics:
            raise TopicError(ErrorCode.invalid_topic_exception, kept)
        return await self._supervisor.whole("topics", self._delete(name, admit))

    async def _delete(self, name: str, admit: Admission) -> Topic:
        unknown = unknown_topic(f"Topic '{name}' does not exist.")
        topic = await self.reserved.begin(name, lambda: self._known(name, admit, unknown))
        with self.reserved.held(name):
            with storage_errors():
                async with self._catalogue.changing:
                    try:
                        others_gone = await self._catalogue.remove_topic(name)
                    except (StorageFailed, OSError):
                        self._in_doubt.add(name)
                        raise
            await self._take_away(topic)
            await others_gone
            return topic

    async def _take_away(self, topic: Topic) -> None:
        """What is left of one that the catalogue does not know any more."""
        for number in range(topic.partitions):
            self.offline.pop((topic.name, number), None)
            if (partition := self.partitions.pop((topic.name, number), None)) is not None:
                partition.refuse(StorageFailed("the topic was deleted"))
                await partition.settle()
                async with partition.maintenance:  # whoever changes its files comes first
                    await partition.cold_reads.over()
        if await self._close(topic, 0):
            self._catalogue.deleted.discard(topic.id)

    def is_in_doubt(self, name: str) -> bool:
        """Whether the next start may find that this topic was deleted, although whoever asked for that
        was told otherwise: what is written to it now would be gone. Until the catalogue has gone back
        to what is durable."""
        if self._catalogue.is_sound:
            self._in_doubt.discard(name)
        return name in self._in_doubt

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
        config = topic.log_config(self._settings)
        for number in range(topic.partitions):
            if (partition := self.partitions.get((topic.name, number))) is not None:
                partition.log.config = config

    async def _run(self, function: Callable[..., object], *arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
