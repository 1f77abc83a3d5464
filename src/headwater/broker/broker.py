"""The broker: puts the parts together, and nothing more.

`async with Broker(data=…)` in Python, `headwater broker` on the command line (`main`). Handlers in `api/`
get this object and reach everything through its attributes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from kio.schema.errors import ErrorCode

from headwater import __version__
from headwater.broker import catalogue_log
from headwater.broker.audit.changes import audited
from headwater.broker.audit.trail import Trail
from headwater.broker.catalogue import LOG_NAME, Catalogue, Topic
from headwater.broker.cleaner import Cleaner
from headwater.broker.clock import Clock, SystemClock
from headwater.broker.connection import Connection
from headwater.broker.disk import DiskThreads, closed
from headwater.broker.disk_space import DiskSpace
from headwater.broker.excisions import Excisions
from headwater.broker.expression_thread import ExpressionThread
from headwater.broker.features import Features, gated
from headwater.broker.fetch_sessions import FetchSessions
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.health import Health
from headwater.broker.health_topic import HealthTopic
from headwater.broker.housekeeping import (
    CHECKPOINT_SECONDS,
    RELEASE_SECONDS,
    Duty,
    Housekeeping,
)
from headwater.broker.internal_topic import InternalTopic
from headwater.broker.internal_topics import TRANSACTION_STATE
from headwater.broker.lookups import Lookups
from headwater.broker.maintenance import Maintenance
from headwater.broker.memory import MemoryBudget
from headwater.broker.offsets_topic import OffsetsTopic
from headwater.broker.partition import Partition
from headwater.broker.quotas.enforcement import Quotas
from headwater.broker.registry import load_apis
from headwater.broker.schema_check import SubjectIds
from headwater.broker.security.admission import Admission
from headwater.broker.security.authorizer import Authorizer
from headwater.broker.security.credentials import Credentials
from headwater.broker.security.socket_server import SocketServer
from headwater.broker.settings import Settings, arguments
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.node import Node
from headwater.broker.slices import sliced
from headwater.broker.state_budget import StateBudget
from headwater.broker.supervisor import Supervisor
from headwater.broker.telemetry.collector import Telemetry
from headwater.broker.topics import Topics
from headwater.broker.transactions.coordinator import TransactionCoordinator
from headwater.broker.transactions.markers import Markers
from headwater.broker.turns import Turns, in_turns
from headwater.broker.validation import Validation
from headwater.broker.watchdog import Watchdog
from headwater.log.descriptors import share_of_log
from headwater.log.files import Files, FileSystem
from headwater.log.store import LogStore

COMMIT_THREADS = 4  # several syncs side by side take hardly longer than one
READ_THREADS = 4
"""For what clients read. They may be busy for long."""
DUTY_THREADS = 4
"""For what must not wait for them: topics, retention, checkpoints, disk space, compaction's first look."""
STOP_SECONDS = 10.0


class Broker:
    """A Kafka-compatible broker in this process's event loop.

    `listen` is one plain listener; without it the settings (`listeners`) say where, and how protected.
    """

    def __init__(
        self,
        data: Path | str,
        listen: str | None = None,
        settings: Mapping[str, object] | None = None,
        durability: str | None = None,
        advertise: str | None = None,
        *,
        clock: Clock | None = None,
        files: FileSystem | None = None,
    ) -> None:
        self.settings = Settings(
            {
                **(settings or {}),
                **arguments.as_settings(settings or {}, listen, durability, advertise),
            }
        )
        self.data = Path(data).absolute()
        self.clock: Clock = clock or SystemClock()
        self.node_id: int = self.settings.get("node.id")
        self.apis = load_apis()
        self.request_bytes_max: int = self.settings.get("socket.request.max.bytes")
        self.connections: set[Connection] = set()
        self.memory = MemoryBudget(self.settings.get("queued.max.request.bytes"))
        self.stopping = False
        self.stopped_cleanly = False
        """After a stop: everything is on disk, and the next start need not look."""
        self._files = files or Files(share_of_log())
        self.health = Health(self.clock.now_ms, __version__, self.clock.now_ms())
        self.supervisor = Supervisor(self.health, self.clock)
        self.state = StateBudget(self.settings, self.supervisor)
        self.turns = Turns(self.supervisor)
        listening = arguments.listeners_of(listen, advertise, self.settings)
        self.socket_server = SocketServer(listening, self.settings, self.supervisor)

    # ---- life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Recover the logs, rebuild the state from them, then listen."""
        self.executor = ThreadPoolExecutor(READ_THREADS, "headwater-read")
        self.duties = ThreadPoolExecutor(DUTY_THREADS, "headwater-duty")
        self.expressions = ExpressionThread()
        self.lookups = Lookups(self.memory, self.supervisor)
        self.disk = DiskThreads(COMMIT_THREADS, self.supervisor)
        self.validation = Validation(self.memory)
        self.schema_ids = SubjectIds()
        self.store = LogStore(self._files, self.data, self.clock.now_ms)
        self.store.on_damage, self.store.on_set_aside = self.health.damaged, self.health.set_aside
        try:
            self._open_catalogue()
            self._guard()
            await self.topics.open_all()
            await self._load_state()
            self.apis = audited(sliced(self.apis), self.trail.tell)
            await self._open_listeners()
        except BaseException:
            self.store.unlock()
            self.executor.shutdown(wait=False)
            self.duties.shutdown(wait=False)
            self.lookups.close()
            self.expressions.close()
            self.validation.close()
            self.disk.stop()
            raise
        self.groups.start()
        self.transactions.start()
        self.shares.start()
        self._start_maintenance()
        self.watchdog = Watchdog(self.health, partial(self.settings.get, "event.loop.turn.warn.ms"))
        self.watchdog.start()
        self.health_topic = HealthTopic(self.topics, self.clock, self.supervisor)
        self.health_topic.start()

    def _node(self) -> Node:
        return Node(
            self.settings,
            self.clock,
            self.supervisor,
            self.catalogue,
            self.topics,
            self.store,
            self.memory,
            self.state,
            self.executor,
            self.duties,
            is_other_group=lambda group_id: group_id in self.groups.groups,
            is_stopping=lambda: self.stopping,
        )

    def _start_maintenance(self) -> None:
        self.maintenance = Maintenance(
            self.settings,
            self.clock,
            self.supervisor,
            self.store,
            self.topics,
            self.duties,
            self._catalogue_partition,
        )
        more: list[Duty] = [
            ("state of groups", lambda: CHECKPOINT_SECONDS, self.state.recount),
            ("share state", lambda: RELEASE_SECONDS, self.shares.tidy),
        ]
        self.housekeeping = Housekeeping(
            self.maintenance, self.connections, self.memory, self.disk_space, more
        )
        self.housekeeping.start()
        self.cleaner = Cleaner(self.maintenance)
        self.cleaner.start()
        self.excisions = Excisions(self.maintenance, self.catalogue, self.authorizer)
        self.excisions.start()

    def _open_catalogue(self) -> None:
        """The log that says which others there are."""
        self.store.open(self.node_id)
        self.disk_space = DiskSpace(
            self._files, self.data, self.settings, self.supervisor, self.clock.now_ms
        )
        self.disk_space.look()
        self.disk.write_failed = self._write_failed
        log = catalogue_log.open_log(self.store)
        self._catalogue_partition = Partition(LOG_NAME, 0, log, self.disk, self.store.reopen_log)
        self.catalogue = Catalogue(self._catalogue_partition, self.clock.now_ms, self.state)
        self.store.census.given = lambda: self.catalogue.producer_ids.end
        self.store.census.most = self.state.producers_max
        self.store.begin()
        self.features = Features(self.node_id, self.apis, self.catalogue.feature_levels)
        self.apis = gated(self.apis, self.features)
        with contextlib.suppress(OSError):  # users' keys are in it, and nobody else's business
            self.store.directory(LOG_NAME, 0).chmod(0o700)

    def _guard(self) -> None:
        """What stands in front of the handlers, and the topics that they work on."""
        self.credentials = Credentials(self.catalogue)
        self.authorizer = self._make_authorizer()
        files, threads = (self.catalogue, self.store), (self.duties, self.disk)
        self.topics = Topics(*files, self.settings, *threads, self.supervisor)
        self.trail = Trail(self.topics, self.settings, self.clock, self.supervisor)
        self.quotas = Quotas(self.settings, self.catalogue, self.clock.monotonic)
        self._follow_configs()

    async def _load_state(self) -> None:
        """What the internal topics tell."""
        self.telemetry = Telemetry(
            self.catalogue,
            self.topics,
            self.settings,
            self.clock,
            self.validation,
            self.disk_space,
        )
        self.sessions = FetchSessions(
            self.settings.get("max.incremental.fetch.session.cache.slots"), self.clock
        )
        self.offsets_topic = OffsetsTopic(self.topics, self.clock.now_ms)
        self.groups = GroupCoordinator(
            self.settings, self.clock, self.offsets_topic, self.catalogue, self.supervisor
        )
        self.catalogue.on_topic_gone = self.groups.topic_gone
        self.groups.load(self.offsets_topic.settled())
        self.groups.pending.restore(self.offsets_topic.pending)
        self.transactions = TransactionCoordinator(
            self.settings,
            self.clock,
            self.catalogue,
            InternalTopic(TRANSACTION_STATE, self.topics, self.clock.now_ms),
            Markers(self.partition, self.topics.absence, self.groups.pending, self.clock.now_ms),
            self.topics.partitions.values,
            self.supervisor,
            self.state.for_partitions,
        )
        self.transactions.load()
        self.shares = ShareCoordinator(self._node())
        self.groups.share_names(self.shares.has)
        self.state.follow(
            self.groups, self.transactions, self.shares, self.store.census, self.catalogue
        )
        await self.shares.load()

    def _write_failed(self, error: BaseException | None) -> None:
        if error is not None:
            self.disk_space.write_failed(error, self.duties)

    def _follow_configs(self) -> None:
        for node, configs in self.catalogue.broker_configs.items():
            self.settings.set_dynamic(node, configs)
        for group, configs in self.catalogue.group_configs.items():
            self.settings.set_group(group, configs)
        self.catalogue.on_group_configs = self.settings.set_group
        self.catalogue.on_topic_configs = self.reconfigure
        self.catalogue.on_broker_configs = self._broker_configs_changed

    def _broker_configs_changed(self, node: str, configs: dict[str, str]) -> None:
        self.settings.set_dynamic(node, configs)
        for topic in self.catalogue.topics.values():
            self.topics.reconfigure(topic)

    def reconfigure(self, topic: Topic) -> None:
        self.topics.reconfigure(topic)

    def _make_authorizer(self) -> Authorizer | None:
        """Where one is asked for, its rules stand in front of every handler."""
        if not self.settings.get("authorizer.class.name"):
            return None
        from headwater.broker.security.rules import guarded  # nobody else needs them

        authorizer = Authorizer(self.catalogue, self.settings)
        self.apis = guarded(self.apis, authorizer)
        return authorizer

    async def _open_listeners(self) -> None:
        if any(listener.logs_in for listener in self.socket_server.listeners):
            await self.credentials.prepare()
        await self.state.recount()
        self.socket_server.open(partial(Connection, self), Admission.of_broker(self))
        if not self.socket_server.listeners:  # nobody is to come in: `security.offline`
            return
        first = self.socket_server.listeners[0]
        self.host, self.port = first.address
        self.bootstrap = first.bootstrap

    async def stop(self) -> None:
        """Answer what is in flight, flush everything, and leave no recovery to the next start."""
        self.stopping = True
        await self.socket_server.shut()
        await self.health_topic.stop()
        self.watchdog.stop()
        await self.excisions.stop()
        await self.cleaner.stop()
        await self.housekeeping.stop()
        deadline = self.clock.monotonic() + STOP_SECONDS
        async for connection in in_turns(tuple(self.connections), self.clock.monotonic):
            connection.drain()
        self.groups.stopping()
        self.shares.stopping()
        await self.sessions.wake_all()
        while any(c.busy for c in self.connections) and self.clock.monotonic() < deadline:
            await asyncio.sleep(0.005)
        async for connection in in_turns(tuple(self.connections), self.clock.monotonic):
            connection.finish()
        while self.connections:  # each goes when its answers are out, or is cut off
            await asyncio.sleep(0.005)
        names = {api.name for api in self.apis.values()}  # requests of those who went away
        await self.supervisor.settle(names, max(deadline - self.clock.monotonic(), 0))
        await self.trail.stop()
        await self.transactions.stop()
        await self.groups.stop()
        await self.shares.stop()
        await self.supervisor.stop()
        for partition in self.maintenance.partitions():
            await partition.close()
        self.lookups.close()
        self.expressions.close()
        loop = asyncio.get_running_loop()
        self.stopped_cleanly = await loop.run_in_executor(self.duties, closed, self.store)
        self.executor.shutdown()
        self.duties.shutdown()
        self.validation.close()
        self.credentials.close()
        self.disk.stop()

    # ---- what handlers ask for -------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self.store.cluster_id

    def partition(self, topic: str, number: int) -> Partition | None:
        return self.topics.partitions.get((topic, number))

    def absence(self, topic: str, number: int) -> ErrorCode:
        """Why `partition` gives none."""
        return self.topics.absence(topic, number)

    # ---- connections ------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        self.connections.add(connection)

    def disconnected(self, connection: Connection) -> None:
        self.connections.discard(connection)
        connection.place.leave()
        self.supervisor.call("share groups", self.shares.disconnected, connection)
