"""The consumers that are open by HTTP: so many in all, so many of one token, each for as long as it is used.

A service of the edges: what nobody has used for its time is closed, and the group goes on without it. An
instance belongs to the token that made it; to others it is not there.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from starlette.exceptions import HTTPException

from headwater.client.librdkafka import KafkaException
from headwater.client.log import Log
from headwater.edges.errors import Overloaded
from headwater.edges.memory_share import MemoryShare
from headwater.edges.rest.access import NO_INSTANCE
from headwater.edges.rest.answers import RestError
from headwater.edges.rest.batch import ANSWER_BYTES, ANSWER_BYTES_MAX, Answer
from headwater.edges.rest.instance import Instance, Options
from headwater.errors import HeadwaterError

THERE_ALREADY = 40902
LOOK_S = 1.0
AWAY_S = 3.0
"""Who has not asked for so long is away."""
FULL_WAIT_S = 5.0
FIRST_ONES = 2
"""So many times the bound are open where each beyond it is its owner's only one."""
_Result = TypeVar("_Result")
_log = logging.getLogger("headwater.edges")


class ConsumerLimits(Protocol):
    """Of [edges.limits]."""

    @property
    def consumers(self) -> int: ...
    @property
    def consumers_per_token(self) -> int: ...
    @property
    def consumer_idle_seconds(self) -> float: ...
    @property
    def slow_seconds(self) -> float: ...


class Instances:
    """For one event loop."""

    name = "consumers"

    def __init__(self, log: Log, limits: ConsumerLimits) -> None:
        self.limits = limits
        self._log = log
        self._open: dict[tuple[str, str], Instance] = {}
        self._turns: dict[Instance, asyncio.Lock] = {}
        self.answers = MemoryShare(max(limits.consumers * ANSWER_BYTES, 2 * ANSWER_BYTES_MAX))
        """Bytes of answers that are being gathered, or wait to be taken."""
        # As many as there are instances: each may be waiting for records.
        threads = FIRST_ONES * limits.consumers + 4
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="consumers")

    def facts(self) -> Mapping[str, object]:
        return {"open": len(self._open)}

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                await asyncio.gather(*map(self._look, list(self._open.values())))
        finally:
            await self._end()

    def check_room(self, owner: str) -> None:
        """Who has none yet finds a place beyond the bound, so that a few cannot take all."""
        mine = sum(each.owner == owner for each in self._open.values())
        most = self.limits.consumers * (1 if mine else FIRST_ONES)
        if len(self._open) >= most:
            raise Overloaded("too many consumers are open by HTTP", FULL_WAIT_S)
        if mine >= self.limits.consumers_per_token:
            raise Overloaded("this token has too many consumers open: delete one", FULL_WAIT_S)

    def add(self, owner: str, group: str, name: str | None, options: Options) -> Instance:
        """Raises Overloaded, 409 where there is one of that name."""
        self.check_room(owner)
        name = name or f"rest-{secrets.token_hex(16)}"
        if (group, name) in self._open:
            raise RestError(THERE_ALREADY, f"the group {group} has an instance {name} already")
        made = Instance(self._log, owner, group, name, options)
        self._open[group, name] = made
        self._turns[made] = asyncio.Lock()
        return made

    def get(self, owner: str, group: str, name: str) -> Instance:
        """404 also where it is somebody else's."""
        found = self._open.get((group, name))
        if found is None or found.owner != owner:
            raise RestError(
                NO_INSTANCE,
                f"there is no consumer instance {name[:100]!r} of yours: "
                "make one with POST /consumers/{group}",
            )
        return found

    async def do(self, instance: Instance, what: Callable[[], _Result]) -> _Result:
        """In a thread, after what the instance is doing; it is in use then."""
        turn = self._turns.get(instance)
        if turn is None:
            raise RestError(NO_INSTANCE, "the consumer instance has ended")
        async with turn:
            instance.used_at = time.monotonic()  # where it has ended meanwhile, it says so
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, what)
            finally:
                instance.used_at = time.monotonic()

    async def read(self, instance: Instance, timeout_s: float, bytes_max: int) -> Answer:
        """Its bytes count among `answers` until somebody gives them back."""
        self.answers.take(bytes_max)
        size = 0
        try:
            found = await self.do(instance, lambda: instance.read(timeout_s, bytes_max))
            size = len(found.body)
            return found
        finally:
            self.answers.give(bytes_max - size)

    async def remove(self, instance: Instance, *, in_order: bool) -> None:
        self._open.pop((instance.group, instance.name), None)
        self._turns.pop(instance, None)
        await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: instance.close(in_order=in_order)
        )

    async def _look(self, instance: Instance) -> None:
        turn = self._turns.get(instance)
        idle_s = time.monotonic() - instance.used_at
        if turn is None or turn.locked() or idle_s < AWAY_S:
            return
        try:
            if idle_s > self.limits.consumer_idle_seconds:
                await self.remove(instance, in_order=False)
                return
            async with turn:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._threads, instance.attend)
        except (HeadwaterError, HTTPException, KafkaException, RuntimeError) as error:
            _log.warning("consumer %s of %s: %s", instance.name, instance.group, error)

    async def _end(self) -> None:
        found = list(self._open.values())
        for each in found:
            each.end()
        await asyncio.gather(
            *(self.remove(each, in_order=False) for each in found), return_exceptions=True
        )
