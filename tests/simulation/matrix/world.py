"""A whole broker on a faulty disk, a virtual loop and a manual clock; requests go to its handlers.

`operations` ask it, `faults` break its disk, `run` puts both together. Everything follows from the seed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from kio.index import load_request_schema

from headwater.broker import broker as broker_module
from headwater.broker import child, cleaner, excisions
from headwater.broker.broker import Broker
from headwater.broker.registry import Context, Later
from headwater.broker.security.socket_server import SocketServer
from headwater.broker.watchdog import Watchdog
from headwater.errors import HeadwaterError
from headwater.log import compaction, excision
from headwater.log.cleaned_segment import CannotCompact
from headwater.log.compaction import Plan
from headwater.log.excision import Work
from headwater.record.errors import RecordError
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk, PowerCut
from headwater.testing.virtual_loop import Standstill, VirtualLoop, VirtualThreads
from tests.compat.wire import build

T = TypeVar("T")
ROOT = Path("/simulated")
REQUESTS, AUDIT = "__headwater_excisions", "__headwater_audit"
TICK_MS = 500
"""How often the broker looks for transactions that are overdue."""
SETTINGS: dict[str, object] = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 3,
    "log.cleaner.backoff.ms": 1000,
    "log.retention.ms": 100_000,
    "log.retention.check.interval.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": TICK_MS,
}


class Violation(AssertionError):
    """Something that must not be."""


class Disconnected(Violation):
    """A handler failed, so that a client would lose its connection instead of getting an answer."""


class Spinning(BaseException):
    """The broker has kept the processor busy for longer than any of this may take."""


ANSWER_SECONDS = 30.0
SPIN_SECONDS = 3.0
"""Of the processor's time, so that a busy machine makes no difference."""


@contextmanager
def _no_spinning() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Spinning("the broker spins")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SPIN_SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class NoAnswer(Exception):
    """A client has waited for as long as clients do, and gives up; what it asked for is in doubt."""


class World:
    """One broker's life, or several of them on the same disk."""

    def __init__(self, seed: int, durability: str = "disk") -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = ManualClock()
        self.disk = FaultyDisk(seed)
        self.durability = durability
        self.reports: list[str] = []
        """What the broker told its operator since it was started."""
        self.told: list[str] = []
        """… and in its lives before."""
        self.connection = _Connection()
        self.numbers = Random(seed)
        self.started_ms = 0
        self.latest_ms = 0
        """What the clock showed when it was set back."""
        self.loop: VirtualLoop | None = None
        self.broker: Broker | None = None

    # ---- life --------------------------------------------------------------------------------------

    @property
    def now(self) -> Broker:
        assert self.broker is not None, "the broker is not running"
        return self.broker

    def start(self) -> None:
        """Raises HeadwaterError if the broker says that it cannot, PowerCut, or Violation."""
        self.told += self.reports
        self.reports.clear()
        self.loop = VirtualLoop(self.clock, self.random.getrandbits(32))
        self.disk.at_power_cut(self.loop.stop)
        asyncio.set_event_loop(self.loop)
        self.connection = _Connection()
        try:
            self.run(self._start())
        except BaseException as error:
            self.abandon()
            if isinstance(error, (HeadwaterError, PowerCut, Violation)):
                raise
            raise Violation(f"the broker does not start: {error!r}") from error

    async def _start(self) -> None:
        settings = SETTINGS | {"durability": self.durability}
        broker = Broker(ROOT, "127.0.0.1:0", settings, clock=self.clock, files=self.disk)
        broker.socket_server = SocketServer([], broker.settings, broker.supervisor)
        broker.host, broker.port = "127.0.0.1", 9092
        await broker.start()
        self.broker, self.started_ms = broker, self.clock.now_ms()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self.loop is not None
        with _reports_to(self.reports), _no_spinning():
            try:
                return self.loop.run(work)
            except Spinning as error:
                raise Violation(str(error)) from error
            except RuntimeError as error:
                if self.disk.is_off:
                    raise PowerCut("the machine is off") from error
                raise
            except Standstill as error:
                raise Violation(f"everything stands still: {error}") from error

    def stop(self) -> None:
        """In good order, as far as the disk allows."""
        self.run(self.now.stop())
        self.abandon()
        self.disk = self.disk.kill()

    def abandon(self) -> None:
        """The process is gone."""
        self.broker = None
        if self.loop is not None:
            with _reports_to([]):
                self.loop.abandon()
            self.loop = None
            asyncio.set_event_loop(None)

    def has_told(self, what: str) -> bool:
        return any(what in report for report in (*self.told, *self.reports))

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait_for_tick(self, at_least_ms: int) -> None:
        """Until the very moment in which the broker looks for overdue transactions."""
        begun = self.clock.now_ms() - self.started_ms
        tick = -(-(begun + at_least_ms) // TICK_MS) * TICK_MS
        await asyncio.sleep((tick - begun) / 1000)

    # ---- requests ----------------------------------------------------------------------------------

    async def ask(self, key: int, version: int, **values: Any) -> Any:
        """As a connection would: the handler's answer. Raises Disconnected where it has none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._ask(key, version, values)
        except TimeoutError as error:
            raise NoAnswer(f"{self.now.apis[key].name} is not answered") from error

    async def _ask(self, key: int, version: int, values: dict[str, Any]) -> Any:
        schema: Any = load_request_schema(key, version)
        context = Context(version, "simulated", "here", self.connection)
        api = self.now.apis[key]
        try:
            answer = api.handle(self.now, build(schema, values), context)
            if isinstance(answer, Later):
                waiting = asyncio.get_running_loop().create_future()
                answer.listen(waiting.set_result, waiting.set_exception)
                return await waiting
            return await answer if isinstance(answer, Awaitable) else answer
        except TimeoutError:
            raise
        except Exception as error:
            raise Disconnected(f"{api.name} failed: {error!r}") from error


class _Connection:
    """What handlers want to know of a connection."""

    principal = "User:ANONYMOUS"
    address = ("127.0.0.1", 9092)
    client_host = "here"

    def fail(self, why: str, level: int = logging.ERROR) -> None:
        raise Disconnected(why)

    def reads(self, size: int) -> None:
        """Memory is not what is rehearsed here."""

    def is_kept(self) -> None:
        """Nor is it here."""


# ---- seams -----------------------------------------------------------------------------------------


def simulated(patch: pytest.MonkeyPatch, world: Callable[[], World]) -> None:
    """Threads, child processes and ids as the simulation has them."""

    async def run_here(command: Sequence[str], given: str) -> str:
        await asyncio.sleep(0.001)
        return _child(world().disk, command, given)

    patch.setattr(broker_module, "DiskThreads", VirtualThreads)
    patch.setattr(Watchdog, "start", lambda self: None)  # its time is the processor's
    patch.setattr(cleaner, "run_child", run_here)
    patch.setattr(excisions, "run_child", run_here)
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=world().numbers.getrandbits(128), version=4))


def _child(disk: FaultyDisk, command: Sequence[str], given: str) -> str:
    """What the process would have printed."""
    directory = Path(command[command.index("--directory") + 1])
    try:
        if excision.__name__ in command:
            return excision.excise(disk, directory, Work.from_json(given)).to_json()
        return compaction.compact(disk, directory, Plan.from_json(given)).to_json()
    except (RecordError, CannotCompact, OSError) as error:
        raise child.ChildFailed(f"{directory}: {error}") from error


class _Handler(logging.Handler):
    def __init__(self, reports: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._reports = reports

    def emit(self, record: logging.LogRecord) -> None:
        self._reports.append(record.getMessage())


@contextmanager
def _reports_to(reports: list[str]) -> Iterator[None]:
    logger, handler = logging.getLogger("headwater"), _Handler(reports)
    before = logger.level, logger.propagate, logger.handlers[:]
    logger.handlers[:] = [handler]
    logger.level, logger.propagate = logging.WARNING, False
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        logger.handlers[:] = before[2]
        logger.level, logger.propagate = before[0], before[1]
        logger.manager._clear_cache()  # type: ignore[attr-defined]


def excision_request(identity: str, topic: str, key: bytes) -> bytes:
    target = excision.Selection.of_key(key, "00" * 8)
    return json.dumps(
        {
            "id": identity,
            "topic": topic,
            "target": {"salt": target.salt, "digest": target.digest},
            "by": "simulation",
            "reason": "matrix",
        }
    ).encode()
