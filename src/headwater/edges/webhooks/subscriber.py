"""A subscription as a service: reads its topic as a member of a group, delivers, commits, buries.

Called by `edges.services`. `Subscriber` is the same for whatever sends: webhooks by HTTP, alerts also by
mail and commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.client import groups
from headwater.client.errors import InstanceFenced, NotThere, RequestRefused
from headwater.client.log import Log
from headwater.client.places import BEGINNING, END
from headwater.edges import counts
from headwater.edges.appender import Appender
from headwater.edges.webhooks import letters
from headwater.edges.webhooks.deliverer import Delivering, Outside, Tally
from headwater.edges.webhooks.delivery import Delivery, Outcome, Sender
from headwater.edges.webhooks.member import Member
from headwater.edges.webhooks.retry import Retrying
from headwater.errors import HeadwaterError

BURY_AGAIN_S = 1.0
LOOK_S = 1.0
_log = logging.getLogger("headwater.edges")
_ATTEMPTS = counts.counter(
    "headwater_edge_deliveries_total",
    "Attempts to deliver a record by webhook, mail or command, by how they went",
    ("subscription", "outcome"),
)
_BREAKER = counts.gauge(
    "headwater_edge_breaker_open",
    "1 while a subscription's circuit breaker is open",
    ("subscription",),
)


@dataclass(frozen=True)
class Wanted:
    """What is read, and how it is delivered."""

    name: str
    """As in the file: `webhooks.billing`."""
    group: str
    topic: str
    sender: Callable[[], Sender]
    """Made when the service starts."""
    filter: Filter = field(default_factory=Filter)
    start: str = "end"
    parallel: int = 16
    retrying: Retrying = field(default_factory=Retrying)
    made_with: Mapping[str, str] | None = None
    """Settings of a topic of our own, which is made where it is not there."""


class Subscriber:
    """The service."""

    def __init__(self, wanted: Wanted, log: Log, appender: Appender, instance: str) -> None:
        self.name = wanted.name
        self._wanted, self._log, self._appender = wanted, log, appender
        self._instance = instance
        self._dead, self._again = letters.topics_of(wanted.name)
        self._fenced: InstanceFenced | None = None
        self._delivering: Delivering | None = None

    def facts(self) -> Mapping[str, Any]:
        found = self._delivering
        if found is None:
            return {}
        tally = found.tally
        return {
            "breaker": found.breaker.state,
            "delivered": tally.delivered,
            "failed_attempts": tally.failed,
            "dead_letters": tally.dead,
            "waiting": found.held,
            "last_failed_attempt": tally.last_failure,
            **({} if found.breaker.state == "closed" else {"trouble": _trouble(tally)}),
        }

    async def run(self) -> None:
        if self._fenced is not None:
            raise self._fenced  # else two processes would take it from each other for ever
        preparing = asyncio.create_task(asyncio.to_thread(self._prepare))
        try:
            instance = await asyncio.shield(preparing)
        finally:  # no thread goes on making topics for what was deleted
            await asyncio.wait((preparing,))
        sender = _Counted(self._wanted, self._wanted.sender())
        outside = Outside(sender, lambda notes: member.commit(notes), self._bury)
        delivering = self._delivering = Delivering(
            outside,
            self._wanted.retrying,
            self._wanted.parallel,
            again=self._again,
        )
        keep = self._wanted.filter.compiled(Decoder(self._log, insists=True))
        member = Member(self._log, self._wanted.group, instance, delivering, keep)
        working = asyncio.create_task(delivering.run())
        reading = asyncio.create_task(member.run([self._wanted.topic, self._again]))
        try:
            await first_of(working, reading, look=self._look)
        except InstanceFenced as fenced:
            self._fenced = fenced
            raise
        finally:
            await self._end(member, delivering, working, reading, sender)

    async def _end(
        self,
        member: Member,
        delivering: Delivering,
        working: asyncio.Task[None],
        reading: asyncio.Task[None],
        sender: Sender,
    ) -> None:
        """What is under way is finished, as long as it can be committed."""
        try:
            if not working.done() and not reading.done():
                await delivering.let_go(delivering.places())
        except HeadwaterError as error:
            _log.warning("%s: %s", self.name, error)
        finally:
            member.close()
            await asyncio.gather(reading, return_exceptions=True)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await sender.close()

    def _look(self) -> None:
        if self._delivering is not None:
            _BREAKER.labels(self.name).set(self._delivering.breaker.state != "closed")

    def _prepare(self) -> str:
        """The member's name in the group. Raises NotThere for a topic that does not exist."""
        if self._wanted.made_with is not None:
            letters.ensure(self._log, self._wanted.topic, **self._wanted.made_with)
        instance = instance_of(self._log, self._instance, self._wanted.topic)
        letters.ensure(self._log, self._dead, self._again)
        begin_at(self._wanted.start, self._log, self._wanted.group, self._wanted.topic)
        return instance

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        """However long it takes: nothing is given up without a trace."""
        draft = letters.letter(delivery, reason, self._wanted.group, self._again)
        while True:
            try:
                await self._appender.append(self._dead, [draft])
                break
            except HeadwaterError as error:
                _log.warning("%s: %s", self.name, error)
                await asyncio.sleep(BURY_AGAIN_S)
        counts.dead("webhook", self._dead)
        _log.warning("%s: gave up on %s: %s", self.name, delivery.id, reason)


def _trouble(tally: Tally) -> str:
    return f"nothing is sent for a while, as the receiver fails: {tally.last_failure}"


class _Counted:
    """A sender whose attempts are counted."""

    def __init__(self, wanted: Wanted, inner: Sender) -> None:
        self._inner, self._wanted = inner, wanted

    async def send(self, delivery: Delivery) -> Outcome:
        outcome = await self._inner.send(delivery)
        word = "delivered" if outcome.is_delivered else "failed"
        _ATTEMPTS.labels(self._wanted.name, word).inc()
        if outcome.is_delivered:
            counts.went("webhook", self._wanted.topic, 1)
        return outcome

    async def close(self) -> None:
        await self._inner.close()


def forget(name: str) -> None:
    """The figures of a subscription that is no more."""
    with contextlib.suppress(KeyError):
        _BREAKER.remove(name)
    for outcome in ("delivered", "failed"):
        with contextlib.suppress(KeyError):
            _ATTEMPTS.remove(name, outcome)


async def first_of(*tasks: asyncio.Task[None], look: Callable[[], None] = lambda: None) -> None:
    """Until one of them ends; raises what it raised. `look` is called now and then."""
    while True:
        done, _ = await asyncio.wait(tasks, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        look()
        for task in done:
            error = task.exception()
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            if error is not None:
                raise error
            return


def instance_of(log: Log, edges: str, topic: str) -> str:
    """A static member's name. One that comes back gets the partitions that it had, without a look at what it
    reads now: so another topic, or more partitions of it, make another member."""
    return f"{edges}.{topic}.{len(log.partitions(topic))}"


def begin_at(start: str, log: Log, group: str, topic: str) -> None:
    """Of a group that has no position yet; partitions that come later are read from their beginning.

    Also where that is the beginning, at which it is read anyhow: without a position nobody sees its lag.
    """
    try:
        known = groups.named(log, group).partitions
    except NotThere:
        known = ()
    if any(each.topic == topic and each.committed is not None for each in known):
        return
    reset = groups.Reset(END if start == "end" else BEGINNING)
    with contextlib.nullcontext() if start == "end" else contextlib.suppress(RequestRefused):
        groups.apply_reset(log, groups.plan_reset(log, group, reset, [topic]))
