"""The bridges of a project as services of the edges. Called by `edges.app` for `services(context)`.

    in     receive ─▶ store (waits for the log as long as it takes) ─▶ acknowledge
    out    read    ─▶ send  (until it is confirmed)                 ─▶ commit the position

Both ways one batch at a time, so that nothing overtakes: while one is under way, the source or the log
keeps the next. What fails is started again by `runner`, with a new connection.

The records of a topic for a bridge out, as a member of the bridge's group.

The position is the group's committed offsets: `headwater groups` shows the lag, and can reset it. Several
edges with the same bridge share the partitions. The member is static (KIP-345), named after the edges: after
kill -9 the next process of that name goes on at once, and one of the same name beside it fences this one.
librdkafka's calls wait, so they are made in one thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.client.errors import told, translated
from headwater.client.librdkafka import AWAY, LATER, Consumer, KafkaException, TopicPartition
from headwater.client.log import Log
from headwater.client.records import Record, record_of
from headwater.edges import counts
from headwater.edges.bridges import config as sections
from headwater.edges.bridges import inbound
from headwater.edges.bridges.config import Config
from headwater.edges.bridges.contract import Bridge, Inbound, Outbound
from headwater.edges.bridges.inbound import Storing
from headwater.edges.schemas import Schemas
from headwater.edges.webhooks.subscriber import begin_at, instance_of
from headwater.project.mistakes import BadProject

if TYPE_CHECKING:
    from headwater.edges.context import Context
    from headwater.edges.services import Service


class InboundService:
    """From another system into a topic."""

    def __init__(self, context: Context, config: Config, schemas: Schemas) -> None:
        self.name = f"bridges.{config.name}"
        self._context, self._config = context, config
        schema = schemas.get(config.topic)
        has_schema = schema is not None
        if schema is not None and schema.is_stored_otherwise:
            raise BadProject(
                f"the bridge {config.name} writes to {config.topic}, whose values are those of a subject",
                hint=f"leave subject = … out of [edges.topics.{config.topic}], or name another topic",
            )
        check = partial(schemas.complaint, config.topic) if has_schema else None
        self._storing = Storing(context, config, check)
        self._bridge: Bridge | None = None

    async def run(self) -> None:
        # Before the source is asked for anything: what it gives must have a place to go to.
        await asyncio.to_thread(self._context.log.partitions, self._config.topic)
        bridge = self._config.opened(log=self._context.log)
        assert isinstance(bridge, Inbound)
        async with bridge:
            self._bridge = bridge
            while True:
                messages = await bridge.receive()
                await self._storing.store(messages)
                await bridge.stored(messages)

    def facts(self) -> Mapping[str, Any]:
        return {
            **_facts(self._config, self._bridge),
            "records": self._storing.records,
            "dead_letters": self._storing.dead,
            **({"repeated": self._storing.repeated} if self._config.is_once else {}),
            **({"waits_for": said, "trouble": said} if (said := self._storing.waits_for) else {}),
        }


class OutboundService:
    """From a topic to another system."""

    def __init__(self, context: Context, config: Config) -> None:
        self.name = f"bridges.{config.name}"
        self._context, self._config = context, config
        self._storing = Storing(context, config)
        self._bridge: Bridge | None = None
        self._sent = 0
        self._most = BATCH

    async def run(self) -> None:
        bridge = self._config.opened(log=self._context.log)
        assert isinstance(bridge, Outbound)
        async with bridge:
            self._bridge = bridge
            reading = Reading(self._context.log, self._config, self._context.edges.name)
            try:
                await reading.open()
                while True:
                    await self._one(reading, bridge)
            finally:
                await reading.close()

    async def _one(self, reading: Reading, bridge: Outbound) -> None:
        records = await reading.next(self._most)
        # After a failure one at a time, then more and more: a queue with room for a few gets on by a few,
        # and a record that breaks the connection is alone with it.
        grown, self._most = min(BATCH, self._most * 2), 1
        refused = await bridge.send(records)
        self._most = grown
        if refused:
            topic = inbound.topic_of(self._config)
            drafts = [inbound.of_refusal(self._config, each) for each in refused]
            await self._storing.keep(topic, drafts)
        await reading.commit(records)
        self._sent += len(records) - len(refused)
        counts.went(self._config.way, self._config.topic, len(records) - len(refused))

    def facts(self) -> Mapping[str, Any]:
        return {
            **_facts(self._config, self._bridge),
            "records": self._sent,
            "dead_letters": self._storing.dead,
        }


def _facts(config: Config, bridge: Bridge | None) -> dict[str, Any]:
    ends = (config.end.shown, f"topic:{config.topic}")
    source, target = ends if config.is_inbound else ends[::-1]
    shown = dict(bridge.status()) if bridge is not None else {}
    return {"from": source, "to": target, "loses": config.kind.LOSES, **shown}


def services(context: Context) -> list[Service]:
    """One for each section."""
    made: list[Service] = []
    schemas = Schemas.of(context)
    for name, section in context.edges.bridges.items():
        config = sections.read(name, section)
        if config.is_inbound:
            made.append(InboundService(context, config, schemas))
        else:
            made.append(OutboundService(context, config))
    return made


BATCH = 500
QUEUE_KBYTES = 16 * 1024
"""What is fetched ahead, and so also the size of a batch."""
SESSION_MS = 10_000
"""After so long without a sign of life, another process's edges take over the partitions."""
_POLL_S = 0.2
T = TypeVar("T")


class Reading:
    """One member of the group; used by one task."""

    def __init__(self, log: Log, config: Config, edges: str) -> None:
        self._log, self._config, self._edges = log, config, edges
        self._topic = config.topic
        self._thread = ThreadPoolExecutor(1, f"bridge-{config.name}")
        self._consumer: Consumer | None = None
        self._ends: dict[int, int] = {}
        """Where the position is to be, as far as that is not committed: partition → offset."""

    async def open(self) -> None:
        """Raises NotThere where there is no such topic."""
        await self._do(self._open)

    def _open(self) -> None:
        settings: dict[str, Any] = {
            **self._log.settings,
            "group.id": self._config.group,
            "group.instance.id": instance_of(self._log, self._edges, self._topic),
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 4,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": QUEUE_KBYTES,
            "allow.auto.create.topics": False,
        }
        begin_at(self._config.start, self._log, self._config.group, self._topic)
        self._consumer = Consumer(settings)
        self._consumer.subscribe([self._topic])

    async def next(self, most: int = BATCH) -> Sequence[Record]:
        """Those that are there, at least one."""
        while True:
            found = await self._do(self._taken, most)
            if found:
                return found

    def _taken(self, most: int) -> list[Record]:
        assert self._consumer is not None, "open() comes first"
        self._commit_what_is_left()
        first = self._consumer.poll(_POLL_S)
        if first is None:
            return []
        # Without waiting: a record must not stand still until there are more.
        more = self._consumer.consume(most - 1, 0) if most > 1 else []
        return [record for each in (first, *more) if (record := self._record(each)) is not None]

    def _record(self, message: Any) -> Record | None:
        error = message.error()
        if error is not None:
            if error.code() in AWAY:
                return None  # librdkafka goes on trying
            raise translated(error, f"reading {self._topic}", self._log.bootstrap)
        return record_of(message)

    async def commit(self, records: Sequence[Record]) -> None:
        """These are done with. While partitions change hands no commit is taken: then it is made later, if
        the partition is still ours; else who has it now sends these once more."""
        self._ends |= {record.partition: record.offset + 1 for record in records}
        await self._do(self._commit)

    def _commit_what_is_left(self) -> None:
        assert self._consumer is not None
        if self._ends:
            ours = {each.partition for each in self._consumer.assignment()}
            self._ends = {each: end for each, end in self._ends.items() if each in ours}
            self._commit()

    def _commit(self) -> None:
        assert self._consumer is not None
        places = [TopicPartition(self._topic, *each) for each in self._ends.items()]
        if not places:
            return
        with told("committing a bridge's position", self._log.bootstrap):
            try:
                self._consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in LATER:
                    raise
                return
        self._ends = {}

    async def close(self) -> None:
        if self._consumer is not None:
            await self._do(self._consumer.close)
        self._thread.shutdown(wait=False)

    async def _do(self, call: Callable[..., T], *words: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *words)
