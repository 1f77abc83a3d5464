"""An application's end of an aggregate: commands in, answers back, whoever owns the partition.

    async with Application(accounts, "127.0.0.1:9092") as bank:
        answer = await bank.send("alice", Deposit(10), who="teller 3")
        match answer:
            case Accepted(): answer.position, answer.version
            case Refused(): answer.reason

Every process of an application opens one; together they share the partitions (`owns="group"`), and a
command for a partition of another goes there through the log. `owns="all"` takes all partitions at once,
fencing whoever had them; `owns="none"` only sends. `BlockingApplication` is the same for threads.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from typing import Any, Generic, TypeVar, Unpack

import msgspec

from headwater.client.cluster import Cluster
from headwater.client.librdkafka import AdminClient, Message
from headwater.events import clock, lease, topics
from headwater.events import line as lines
from headwater.events import options as clients
from headwater.events.aggregate import Aggregate
from headwater.events.answers import Answer
from headwater.events.codec import NOTHING, Meta
from headwater.events.commands import Asked, CommandCodec
from headwater.events.errors import Closed, EventsError, OutcomeUnknown, OwnerFenced
from headwater.events.forwarder import Forwarding
from headwater.events.inbox import WAITING_MAX, Inbox
from headwater.events.ledger import WINDOW, Held
from headwater.events.line import Line
from headwater.events.membership import RELEASE_DEADLINE_S, Membership
from headwater.events.options import Owns, SendOptions
from headwater.events.owner import Owner
from headwater.events.watch import Watch
from headwater.events.writer import Answered, tell

State = TypeVar("State")
PARTITIONS = 8
SNAPSHOT_EVERY = 10_000
_RECLAIM_S = (0.2, 1.0)


class Application(Generic[State]):
    """Sends commands, and decides those of the partitions that it owns."""

    def __init__(
        self,
        aggregate: Aggregate[State],
        bootstrap: str,
        *,
        client: clients.Client = None,
        owns: Owns = "group",
        partitions: int = PARTITIONS,
        snapshot_every: int = SNAPSHOT_EVERY,
        window: int = WINDOW,
        session_timeout_ms: int = 6_000,
        timeout_s: float = 30.0,
    ) -> None:
        self.aggregate = aggregate
        self.partitions = partitions
        self._settings = clients.for_cluster(bootstrap, client)
        self._client = clients.for_confluent(bootstrap, client)
        self._owns = owns
        self._snapshot_every, self._window = snapshot_every, window
        self._session_timeout_ms = session_timeout_ms
        self._timeout_s = timeout_s
        self._commands = CommandCodec(aggregate)
        self._owners: dict[int, Owner] = {}
        self._lines: dict[tuple[str, int], asyncio.Task[Line]] = {}
        self._waiting: dict[asyncio.Future[Any], float] = {}
        self._membership: Membership | None = None
        self._closed = False
        # Ids of commands that have none: unique, and cheaper than chance for each.
        self._prefix, self._numbers = uuid.uuid4().hex[:20], itertools.count()

    # ---- life -----------------------------------------------------------------------------------

    async def __aenter__(self) -> Application[State]:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _ensure_topics(self, admin: AdminClient) -> int:
        cluster = Cluster(self._settings)
        try:
            return topics.ensure(cluster, admin, self.aggregate, self.partitions)
        finally:
            cluster.close()

    async def start(self) -> None:
        """Make the topics where they are missing, and begin to own."""
        self._loop = asyncio.get_running_loop()
        admin = AdminClient(self._client)
        self.partitions = await asyncio.to_thread(self._ensure_topics, admin)
        self._lease_s = await asyncio.to_thread(lease.of, admin)
        self._forwarding = Forwarding(self.aggregate, self._client, self._loop)
        self._sweeping = self._loop.create_task(self._sweep())
        self._watch = Watch(self.aggregate.name, self._settings, self._owners)
        if self._owns == "all":
            self.assigned(list(range(self.partitions)))
            await self.ready()
        elif self._owns == "group":
            self._inbox = Inbox(self.aggregate, self._client, self._submit)
            self._membership = Membership(
                self._client,
                self.aggregate.inbox,
                self.aggregate.owners,
                self._session_timeout_ms,
                self,
                self._loop,
            )

    async def ready(self) -> None:
        """Return when the partitions that are ours now can be written."""
        for owner in list(self._owners.values()):
            await owner.ready.wait()

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(p for p, owner in self._owners.items() if owner.ready.is_set())

    async def close(self) -> None:
        """Let what is on its way arrive, give the partitions back, and go."""
        self._closed = True
        if self._membership is not None:
            await self._membership.leave()
            self._inbox.flush(5)
        await self.released(list(self._owners), lost=False)
        await self._forwarding.close()
        self._sweeping.cancel()
        await self._watch.stop()
        for task in self._lines.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()

    # ---- commands -------------------------------------------------------------------------------

    async def send(
        self,
        id: str,
        command: object,
        *,
        command_id: str | None = None,
        expected_version: int | None = None,
        who: str = "",
        why: str = "",
        correlation: str = "",
        causation: str = "",
        sent_at_ms: int | None = None,
        timeout_s: float | None = None,
        former_id: str = "",
    ) -> Answer:
        """The answer, when it is on disk.

        `command_id`: a command with the same id is decided once, whoever sends it; another command with
        that id raises IdReused. `former_id`: another id under which it may have been decided before.
        `expected_version`: refused unless the aggregate has had so many events. Raises OutcomeUnknown
        after `timeout_s`.
        """
        meta = Meta(who, why, correlation, causation)
        asked = self._asked(id, command, command_id, expected_version, meta, sent_at_ms, former_id)
        return await self._route(asked, self._deadline(timeout_s))

    def dispatch(
        self, answered: Answered, id: str, command: object, **options: Unpack[SendOptions]
    ) -> None:
        """`send` without a task of its own, for `BlockingApplication`: `answered` gets what came of it."""
        timeout_s = options.pop("timeout_s", None)
        command_id = options.pop("command_id", None)
        expected = options.pop("expected_version", None)
        sent_at_ms = options.pop("sent_at_ms", None)
        try:
            deadline = self._deadline(timeout_s)
            # What is left are the words of Meta; a wrong one is told to whoever sends.
            meta = Meta(**options)  # type: ignore[misc]
            asked = self._asked(id, command, command_id, expected, meta, sent_at_ms)
            owner = self._owners.get(topics.partition_of(id, self.partitions))
        except Exception as error:
            answered(error)
            return

        def elsewhere(asked: Asked) -> None:
            def done(task: asyncio.Task[Answer]) -> None:
                answered(
                    Closed("closed") if task.cancelled() else task.exception() or task.result()
                )

            self._loop.create_task(self._route(asked, deadline)).add_done_callback(done)

        def here(outcome: Answer | BaseException) -> None:
            if isinstance(outcome, Closed) and not self._closed:
                elsewhere(_let_go(asked))
            else:
                answered(outcome)

        if owner is None:
            elsewhere(asked)
        else:
            owner.submit(asked, here)

    def _asked(
        self,
        id: str,
        command: object,
        command_id: str | None,
        expected_version: int | None,
        meta: Meta,
        sent_at_ms: int | None,
        former_id: str = "",
    ) -> Asked:
        self._commands.check(command)
        return Asked(
            id,
            command,
            f"{self._prefix}-{next(self._numbers):x}" if command_id is None else command_id,
            clock.now_ms() if sent_at_ms is None else sent_at_ms,
            NOTHING if meta == NOTHING else meta,
            expected_version,
            command_id is None,
            former_id,
        )

    def _deadline(self, timeout_s: float | None) -> float:
        return self._loop.time() + (self._timeout_s if timeout_s is None else timeout_s)

    async def _route(self, asked: Asked, deadline: float) -> Answer:
        partition = topics.partition_of(asked.id, self.partitions)
        while True:
            owner = self._owners.get(partition)
            if owner is None and self._owns == "all":
                raise self._not_ours(partition)
            try:
                if owner is not None:
                    return await self._decide(owner, asked, deadline)
                left = deadline - self._loop.time()
                return await self._forwarding.ask(asked, partition, left)
            except Closed:
                if self._closed:
                    raise
                asked = _let_go(asked)

    def _decide(self, owner: Owner, asked: Asked, deadline: float) -> asyncio.Future[Answer]:
        waiting: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[waiting] = deadline

        def answered(outcome: Answer | BaseException) -> None:
            self._waiting.pop(waiting, None)
            if waiting.done():
                return
            if isinstance(outcome, BaseException):
                waiting.set_exception(outcome)
            else:
                waiting.set_result(outcome)

        owner.submit(asked, answered)
        return waiting

    async def _sweep(self) -> None:
        """Tell those whose time is up."""
        while True:
            await asyncio.sleep(0.5)
            now = self._loop.time()
            for waiting, deadline in list(self._waiting.items()):
                if deadline < now and not waiting.done():
                    error = OutcomeUnknown(
                        "the command was not answered in time",
                        hint="send it again with the same command_id: it is decided once",
                    )
                    waiting.set_exception(error)
                if waiting.done():
                    self._waiting.pop(waiting, None)

    async def held(self, id: str) -> Held[State]:
        """The aggregate's state and version at its owner, which must be this process; on disk."""
        owner = self._owners.get(topics.partition_of(id, self.partitions))
        if owner is None:
            raise EventsError(
                f"{id} is owned by another process", hint="read it with headwater.events.Reader"
            )
        return await owner.held(id)

    async def state(self, id: str) -> State:
        state: State = (await self.held(id)).state
        return state

    # ---- what the group says (membership) -------------------------------------------------------

    def assigned(self, partitions: list[int]) -> None:
        for each in partitions:
            if each not in self._owners and not (self._closed and self._owns != "all"):
                owner = Owner(
                    self.aggregate,
                    each,
                    self._settings,
                    self._line,
                    snapshot_every=self._snapshot_every,
                    window=self._window,
                    lease_s=self._lease_s,
                    on_fenced=self._fenced,
                )
                self._owners[each] = owner
                owner.start()

    async def released(self, partitions: list[int], lost: bool) -> None:
        owners = [(p, self._owners[p]) for p in partitions if p in self._owners]
        if not lost:
            await asyncio.gather(*(o.drain(RELEASE_DEADLINE_S / 2) for _, o in owners))
        for partition, owner in owners:
            del self._owners[partition]
            why = Closed(f"{self.aggregate.name}-{partition} was let go")
            for _, answered in owner.end(why):
                tell(answered, why)
        if self._membership is not None and not lost:
            await asyncio.to_thread(self._inbox.flush, RELEASE_DEADLINE_S / 4)

    def forgotten(self, partitions: list[int]) -> None:
        self._inbox.forget(partitions)

    def arrived(self, messages: list[Message]) -> None:
        self._inbox.arrived(messages)
        if self._membership is not None:
            self._membership.pause(self._inbox.waiting > WAITING_MAX)

    def to_commit(self) -> dict[int, int]:
        return self._inbox.done()

    def committed(self, offsets: dict[int, int]) -> None:
        self._inbox.committed(offsets)

    def _submit(self, partition: int, asked: Asked, answered: Answered) -> None:
        owner = self._owners.get(partition)
        if owner is None:
            answered(Closed("not ours"))
        else:
            owner.submit(asked, answered)

    def _not_ours(self, partition: int) -> EventsError:
        if self._closed:
            return Closed(f"{self.aggregate.name} is closed")
        return OwnerFenced(
            f"another process decides for {self.aggregate.name}-{partition} now",
            hint='processes share partitions with owns="group"',
        )

    def _fenced(self, partition: int) -> None:
        if self._owns == "all":
            owner = self._owners.pop(partition)
            error = self._not_ours(partition)
            for _, answered in owner.end(error):
                tell(answered, error)
            return
        # The group will say whose it is. If it is still ours after a while, a late claim of the
        # former owner fenced us: claim again.
        owner = self._owners[partition]

        def again() -> None:
            if self._owners.get(partition) is owner:
                owner.reclaim()

        self._loop.call_later(random.uniform(*_RECLAIM_S), again)

    # ---- connections ----------------------------------------------------------------------------

    async def _line(self, address: tuple[str, int]) -> Line:
        """One for each broker, shared by the owners."""
        known = self._lines.get(address)
        if known is not None and known.done():
            if known.cancelled() or known.exception() is not None or known.result().closed:
                known = None
        if known is None:
            known = self._lines[address] = self._loop.create_task(
                lines.connect(address, self._settings)
            )
        return await asyncio.shield(known)


def _let_go(asked: Asked) -> Asked:
    """It may have been decided before the partition was let go: the log knows."""
    in_doubt = asked.in_doubt or asked.fresh
    return msgspec.structs.replace(asked, fresh=False, in_doubt=in_doubt)
