"""Delivers for the subscriptions that are there: begins, ends and begins anew as they change. A service.

One task for each, as `services` runs those of the file; what each is doing stands in /status under its name.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping

from headwater.browse.filters import Filter
from headwater.client.records import Record
from headwater.edges.context import Context
from headwater.edges.rights import Rights
from headwater.edges.services import State, keep_running
from headwater.edges.subscriptions.directory import Directory, now_ms
from headwater.edges.subscriptions.entry import Entry, Signing
from headwater.edges.subscriptions.history import REASON_CHARACTERS, Attempt, History
from headwater.edges.subscriptions.settings import Settings
from headwater.edges.subscriptions.upkeep import Upkeep, group_of
from headwater.edges.tokens import Need
from headwater.edges.webhooks.delivery import Delivery, Outcome, Sender
from headwater.edges.webhooks.poster import Poster
from headwater.edges.webhooks.subscriber import Subscriber, Wanted, forget
from headwater.edges.webhooks.subscription import Posting

PING = "headwater.ping"


class Runner:
    """The service, with what it shares with the routes."""

    name = "subscriptions"

    def __init__(self, context: Context, settings: Settings) -> None:
        self._context = context
        self.settings = settings
        self.history = History(context.log, context.appender)
        self.directory = Directory(context.log, context.appender, settings)
        self.directory.heard = self._heard
        self.upkeep = Upkeep(context.log, context.asking)
        self._rights = Rights(context.edges)
        self._lapsed: set[str] = set()
        """Services of those whose makers' rights have ended."""
        self._changed = asyncio.Event()
        self._running: dict[str, tuple[Entry, asyncio.Task[None]]] = {}
        """By the subscription's id."""

    def facts(self) -> Mapping[str, object]:
        return {"delivering": len(self._running)}

    async def run(self) -> None:
        try:
            while True:
                self._changed.clear()
                await self._follow()
                await self._changed.wait()
        finally:
            await asyncio.gather(*(self._end(id) for id in list(self._running)))

    def is_running(self, entry: Entry) -> bool:
        return entry.id in self._running

    def _heard(self) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        if not self.directory.is_current:
            return  # what was paused or deleted since must not be delivered for
        there = {each.id: each for each in self.directory.all()}
        unpaused = {id: each for id, each in there.items() if not each.paused}
        wanted = {id: each for id, each in unpaused.items() if self._may_go_on(each)}
        over = [
            id
            for id, (entry, _) in self._running.items()
            if id not in wanted or wanted[id].work() != entry.work()
        ]
        # Of a topic that was lost nobody has said that his records may go.
        deleted = [self._running[id][0] for id in over if id in self.directory.taken_back]
        self.directory.taken_back.clear()
        await asyncio.gather(*(self._end(id) for id in over))
        for entry in deleted:
            self.upkeep.clear(entry)  # what it made until now, in whichever process it was deleted
        self._tell_lapsed([each for id, each in unpaused.items() if id not in wanted])
        for id, entry in wanted.items():
            if id not in self._running:
                state = self._context.status.of(entry.service)
                task = asyncio.create_task(keep_running(self._subscriber(entry), state))
                self._running[id] = entry, task

    def _may_go_on(self, entry: Entry) -> bool:
        """Whether somebody who answers for it could make it now."""
        needs = (Need("admin", f"webhook:{entry.name}"), Need("read", entry.topic))
        return any(all(self._rights.may(who, each) for each in needs) for who in entry.makers)

    def _tell_lapsed(self, entries: Iterable[Entry]) -> None:
        status = self._context.status
        for name in self._lapsed:
            status.services.pop(name, None)
        self._lapsed = {each.service for each in entries}
        for each in entries:
            makers = " and ".join(sorted(who or "one without a token" for who in each.makers))
            said = f"{makers} may not send {each.topic} on any more; PATCH it as somebody who may"
            status.services[each.service] = State("waiting", 1, said)

    async def _end(self, id: str) -> None:
        entry, task = self._running.pop(id)
        task.cancel()
        await asyncio.wait([task])
        self._context.status.services.pop(entry.service, None)
        forget(entry.service)

    def _subscriber(self, entry: Entry) -> Subscriber:
        context = self._context
        wanted = Wanted(
            entry.service,
            group_of(entry),
            entry.topic,
            lambda: self.sender(entry),
            Filter(where=entry.where),
            entry.start,
            entry.parallel,
            entry.retrying,
        )
        return Subscriber(wanted, context.log, context.appender, context.edges.name)

    def sender(self, entry: Entry) -> _Noted:
        signing = _Secrets(entry, self.directory)
        allow = self.settings.allow_private
        posting = Posting(entry.to, signing, {}, entry.timeout_s, allow)
        return _Noted(entry.id, Poster(posting), self.history, signing)

    async def ping(self, entry: Entry) -> Attempt:
        """One signed request beside all others, and how it went."""
        sender = self.sender(entry)
        said = json.dumps({"type": PING, "subscription": entry.name, "at_ms": now_ms()})
        headers = (("content-type", b"application/json"),)
        record = Record(entry.topic, -1, -1, now_ms(), None, said.encode(), headers)
        try:
            return (await sender.tried(Delivery(f"ping-{secrets.token_hex(8)}", record)))[1]
        finally:
            await sender.close()


class _Secrets:
    """Those that sign now; a rotation needs no new beginning."""

    def __init__(self, entry: Entry, directory: Directory) -> None:
        self._entry, self._directory = entry, directory

    def __iter__(self) -> Iterator[str]:
        found = self._directory.find(self._entry.name)
        entry = found if found is not None and found.id == self._entry.id else self._entry
        return iter(Signing(entry, self._directory.settings, now_ms()).secrets())


class _Noted:
    """A sender whose attempts are in the history."""

    def __init__(
        self, subscription: str, inner: Sender, history: History, signing: Iterable[str]
    ) -> None:
        self._subscription, self._inner, self._history = subscription, inner, history
        self._signing = signing

    async def send(self, delivery: Delivery) -> Outcome:
        return (await self.tried(delivery))[0]

    async def tried(self, delivery: Delivery) -> tuple[Outcome, Attempt]:
        began = time.monotonic()
        if any(self._signing):
            outcome = await self._inner.send(delivery)
        else:
            outcome = Outcome(False, "the key of its secret is not in [edges.subscriptions]")
        found = self._attempt(delivery, outcome, time.monotonic() - began)
        self._history.note(found)
        return outcome, found

    async def close(self) -> None:
        await self._inner.close()

    def _attempt(self, delivery: Delivery, outcome: Outcome, took_s: float) -> Attempt:
        return Attempt(
            self._subscription,
            delivery.id,
            delivery.attempt,
            now_ms(),
            round(took_s * 1000),
            outcome.is_delivered,
            outcome.reason[:REASON_CHARACTERS],
            delivery.record.partition,
            delivery.record.offset,
        )
