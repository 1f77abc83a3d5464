"""All subscriptions by API: a view of their topic. Whoever changes one appends, and waits until it is read.

A service of the edges. Several processes share the topic, and each learns of what the others have changed.
What is written was decided on all that stood there before: one process writes at a time, the others are
fenced (`schemas.writer`) and decide again. So of two that make one name at once exactly one does.

Who did it is told in `EDGE_CHANGES`, for `headwater audit` and the console; the broker adds who has told it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from headwater.browse.audit import EDGE_CHANGES, EDGE_CHANGES_CONFIGS
from headwater.client import topics
from headwater.client.cluster import Cluster
from headwater.client.errors import NotThere
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.options import cluster_settings
from headwater.client.publisher import Draft
from headwater.client.records import Record
from headwater.edges.appender import Appender
from headwater.edges.caller import SENDER
from headwater.edges.errors import Conflict, Invalid, Overloaded
from headwater.edges.subscriptions import entry as entries
from headwater.edges.subscriptions.entry import TOPIC, Entry, Salt, rotated
from headwater.edges.subscriptions.settings import Settings
from headwater.edges.subscriptions.topic_view import TopicView
from headwater.errors import HeadwaterError
from headwater.fair_queue import Busy, FairQueue
from headwater.schemas import records as schema_records
from headwater.schemas.writer import Writer, WriterFenced

TRIES = 10
Changes = Callable[[Entry], Mapping[str, object]]
_CONFIGS = {"cleanup_policy": "compact", "segment_ms": "3600000"}
READ_MAX = 10_000
"""Entries that are kept however many the topic has: who writes there could be anybody."""
_log = logging.getLogger("headwater.edges")


class Directory:
    """The service; `heard` is called whenever something has changed."""

    name = "subscriptions.directory"

    def __init__(self, log: Log, appender: Appender, settings: Settings) -> None:
        self.settings = settings
        self.heard: Callable[[], None] = lambda: None
        self._log, self._appender = log, appender
        self._writer: Writer | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="subscriptions")
        self._is_told = False
        """Whether the topic for it is known to be there."""
        self._entries: dict[str, Entry] = {}
        self.taken_back: set[str] = set()
        """Ids of those that somebody has deleted, until their deliveries have ended."""
        self._turns = FairQueue()
        self._view = TopicView(log, TOPIC, _CONFIGS, self._take)
        self._bad = 0

    def facts(self) -> Mapping[str, object]:
        return {"subscriptions": len(self._entries), "unreadable": self._bad}

    async def run(self) -> None:
        self._entries.clear()
        try:
            await self._view.run()
        finally:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()

    @property
    def is_current(self) -> bool:
        """Whether all was read: before that it may say what was taken back long ago."""
        return self._view.is_current

    def all(self) -> list[Entry]:
        return [self._entries[name] for name in sorted(self._entries)]

    def find(self, name: str) -> Entry | None:
        return self._entries.get(name)

    async def named(self, name: str) -> Entry:
        """Raises NotThere."""
        await self._view.current()
        found = self._entries.get(name)
        if found is None:
            raise NotThere(f"there is no subscription {name[:64]!r}", hint="GET /webhooks")
        return found

    async def current(self) -> None:
        await self._view.current()

    async def add(self, new: Entry) -> None:
        """Raises Invalid, Conflict."""

        def decide() -> Entry:
            self._check_new(new)
            return new

        await self._write(new.name, decide)
        await self._tell("create", new, new.made_by)

    async def check_new(self, new: Entry) -> None:
        """Raises Invalid, Conflict."""
        await self._view.current()
        self._check_new(new)

    def _check_new(self, new: Entry) -> None:
        self._check(new)
        if new.name in self._entries:
            raise Conflict(f"there is a subscription {new.name!r}", hint="choose another name")
        own = sum(each.made_by == new.made_by for each in self._entries.values())
        if len(self._entries) >= self.settings.most or own >= self.settings.most_per_token:
            raise Conflict(
                "there are as many subscriptions as may be",
                hint="delete one; [edges.subscriptions] has most and most_per_token",
            )

    async def change(self, name: str, id: str, by: str, **changes: object) -> Entry:
        """Raises NotThere, Invalid."""
        return await self._change(name, id, by, "change", lambda _: changes)

    async def rotate(self, name: str, id: str, by: str, salt: Salt, until_ms: int) -> Entry:
        """The one before signs on until then, whoever made it. Raises NotThere."""
        return await self._change(
            name, id, by, "rotate", lambda found: {"secrets": rotated(found, salt, until_ms)}
        )

    async def remove(self, entry: Entry, by: str) -> None:
        """Raises NotThere, also where another has the name by now."""

        def decide() -> None:
            self._same(entry.name, entry.id)

        await self._write(entry.name, decide)
        await self._tell("delete", entry, by)

    async def _change(self, name: str, id: str, by: str, what: str, changes: Changes) -> Entry:
        """`changes` sees it as it is when nobody else changes it."""

        def decide() -> Entry:
            found = self._same(name, id)
            told = {"changed_by": by, "changed_ms": now_ms(), **changes(found)}
            changed = msgspec.structs.replace(found, **told)
            self._check(changed)
            return changed

        changed = await self._write(name, decide)
        assert changed is not None
        await self._tell(what, changed, by)
        return changed

    def _same(self, name: str, id: str) -> Entry:
        found = self._entries.get(name)
        if found is None or found.id != id:
            raise NotThere(f"{name!r} is another one by now, or gone", hint="GET /webhooks")
        return found

    async def _write(self, name: str, decide: Callable[[], Entry | None]) -> Entry | None:
        """What `decide` returned, once it is in the log and read; it may be called again."""
        try:
            async with self._turns.turn(SENDER.get()):
                await self._view.current()
                for _ in range(TRIES):
                    with suppress(WriterFenced):  # another process has written: look again
                        return await self._once(name, decide)
        except Busy:
            raise Overloaded("too many changes of one sender wait", 1.0) from None
        raise Overloaded("other edges change subscriptions all the time", 1.0)

    async def _once(self, name: str, decide: Callable[[], Entry | None]) -> Entry | None:
        loop, is_settled = asyncio.get_running_loop(), False
        if self._writer is None:
            self._writer = await loop.run_in_executor(self._thread, self._connected)
        writer = self._writer
        try:
            mark = await loop.run_in_executor(self._thread, writer.claim)
            if mark is not None:
                await self._view.reached(mark)
            try:
                entry = decide()
            except HeadwaterError:
                is_settled = True  # nothing was written
                raise
            value = None if entry is None else msgspec.json.encode(entry)
            new = [schema_records.Record(name.encode(), value)]
            offset = await loop.run_in_executor(self._thread, writer.append, new)
            await self._view.reached(offset)
            is_settled = True
        finally:
            if not is_settled:
                writer.drop()
        return entry

    def _connected(self) -> Writer:
        cluster = Cluster(cluster_settings(self._log.settings, TIMEOUT_S))
        return Writer(cluster, TOPIC, "edges", schema_records.Record(b"", None))

    async def _tell(self, what: str, entry: Entry, by: str) -> None:
        """Who did it; it is done, whether or not that can be written down."""
        details = {"topic": entry.topic, "to": entry.place, "paused": entry.paused}
        said = {"on_behalf_of": by, "what": what, "name": entry.name, "details": details}
        try:
            if not self._is_told:
                await asyncio.to_thread(
                    topics.ensure, self._log, EDGE_CHANGES, 1, **EDGE_CHANGES_CONFIGS
                )
                self._is_told = True
            await self._appender.append(EDGE_CHANGES, [Draft(None, msgspec.json.encode(said))])
        except HeadwaterError as error:
            _log.error("who changed the webhook %s is not in the audit: %s", entry.name, error)

    def _check(self, entry: Entry) -> None:
        if said := entries.complaints(entry, self.settings):
            raise Invalid("; ".join(said), hint="GET /openapi.json says what is taken")

    def _take(self, records: list[Record]) -> None:
        for record in records:
            name = (record.key or b"").decode("utf-8", "replace")
            before = self._entries.pop(name, None)
            if before is not None:
                self.taken_back.add(before.id)
            if record.value is None:
                continue
            found = self._read(name, record.value)
            if found is not None and len(self._entries) < READ_MAX:
                self._entries[name] = found
                self.taken_back.discard(found.id)
        self.heard()

    def _read(self, name: str, value: bytes) -> Entry | None:
        """None: nobody of us has written it so."""
        try:
            found = entries.read(value)
            wrong = entries.complaints(found, self.settings)
            if found.name != name:
                wrong.append("its key is another name")
        except ValueError as error:
            wrong = [str(error)]
        if not wrong:
            return found
        self._bad += 1
        _log.warning("a record of %s is left out: %s", TOPIC, wrong[0][:300])
        return None


def now_ms() -> int:
    return int(time.time() * 1000)
