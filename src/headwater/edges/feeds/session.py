"""One client of a changefeed from its first event to its last, whatever the wire.

    begin            where it starts: behind an id, at a place, or with a snapshot
    catch up         piece by piece from the log, until what is missing is in memory
    join             from here on, what comes is put into its box
    take             until it is dropped, or goes away

`begin` raises what is wrong with the request, before anything is answered. `chunks` then never raises:
whatever ends it is told in a last event.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial

from headwater.client.places import END, located
from headwater.client.records import Range, Record
from headwater.edges.feeds.bodies import gone
from headwater.edges.feeds.channels import Box
from headwater.edges.feeds.event_ids import Offsets, lost, placed, text_of
from headwater.edges.feeds.feed import Feed
from headwater.edges.feeds.request import Ask, Remembering
from headwater.edges.feeds.state import Snapshot
from headwater.edges.feeds.wires import Chunk, Item, Wire
from headwater.errors import HeadwaterError

QUIET_S = 5.0
"""A client that is behind, and whose filter keeps nothing, hears at least so often that it is alive."""
SLICE_ITEMS = 2_000
"""Of a snapshot, or of what is in memory: what a filter looks at in one turn of a thread."""
_log = logging.getLogger("headwater.edges")


class Session:
    """`is_state`: of rows, whose snapshot comes first and whose filter tells what leaves it; so it is also
    where a snapshot is asked for, or where the topic is compacted and no place to begin was named."""

    def __init__(self, feed: Feed, ask: Ask, wire: Wire, box: Box, *, is_state: bool) -> None:
        self._feed, self._ask, self._wire, self.box = feed, ask, wire, box
        wants = ask.snapshot if ask.snapshot is not None else is_state or feed.is_compacted
        self._wants_snapshot = wants and ask.place is None
        self._is_state = is_state or self._wants_snapshot
        self._tests = ask.tests(Remembering(feed.decoder))
        self._at: Offsets = {}
        self._gaps: dict[int, Range] = {}
        self._snapshot: Snapshot | None = None

    # ---- where it starts --------------------------------------------------------------------------

    async def begin(self) -> None:
        """Raises BadRequest, NotThere, RequestRefused, BrokerUnreachable."""
        feed, ask = self._feed, self._ask
        wants_snapshot = self._wants_snapshot
        if ask.after is not None:
            if await self._resumes(ask.after):
                return
            wants_snapshot = True
        if wants_snapshot:
            self._snapshot = await feed.snapshot()
            self._at = dict(self._snapshot.position)
            return
        await self._begin_at()

    async def _resumes(self, after: Offsets) -> bool:
        """Whether it can go on where it was; a state with holes in it is shown anew instead."""
        feed = self._feed
        held = await feed.held()
        at = placed(feed.topic, after, held)
        self._gaps = lost(at, held)
        if self._is_state and (self._gaps or await self._may_miss_deletes(at)):
            self._gaps = {}
            return False
        self._at = {p: max(offset, held[p][0]) for p, offset in at.items()}
        return True

    async def _may_miss_deletes(self, at: Offsets) -> bool:
        """Compaction forgets tombstones after a while: whoever was away for longer would not hear of them."""
        feed, kept_ms = self._feed, self._feed.retention_ms
        if kept_ms is None:
            return False
        since_ms = max(0, int(time.time() * 1000) - kept_ms // 2)
        places = [(feed.topic, p) for p in at]
        recent = await feed.readers.run(lambda: feed.client.offsets(places, since_ms))
        held = await feed.held()
        safe = {p: recent[feed.topic, p] for p in at}
        return any(offset < (held[p][1] if safe[p] < 0 else safe[p]) for p, offset in at.items())

    async def _begin_at(self) -> None:
        feed, place = self._feed, self._ask.place
        self._at = dict(feed.position)  # the end, as this process has read it
        if place is None or place == END:
            return
        held = await feed.held()
        found = await feed.readers.run(lambda: located(feed.client, feed.topic, place, held))
        self._at = {**self._at, **found.offsets}

    def end(self) -> None:
        """It is told no snapshot any more."""
        if self._snapshot is not None:
            self._snapshot.left()
            self._snapshot = None

    # ---- what it gets -----------------------------------------------------------------------------

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        try:
            async for chunk in self._first():
                yield chunk
            async for chunk in self._caught_up():
                yield chunk
            while (chunk_or_end := await self.box.take()) is not None:
                yield chunk_or_end
        except HeadwaterError as error:
            self.box.drop(str(error))
        except Exception as error:
            _log.exception("a changefeed of %s failed", self._feed.topic)
            self.box.drop(f"a mistake of ours: {type(error).__name__}")
        finally:
            self._feed.leave(self.box)
        if self.box.dropped is not None:
            yield self._wire.event("dropped", {"reason": self.box.dropped})[0]

    async def _first(self) -> AsyncIterator[Chunk]:
        wire = self._wire
        for partition, (first, end) in sorted(self._gaps.items()):
            yield wire.event("gap", {"partition": partition, "from": first, "to": end})[0]
        if self._snapshot is None:
            return
        yield wire.event("snapshot", {})[0]
        count, spoke = 0, time.monotonic()
        for start in range(0, len(self._snapshot.items), SLICE_ITEMS):
            some = self._snapshot.items[start : start + SLICE_ITEMS]
            rows = await self._beside(partial(self._chosen, some))
            if self.box.dropped is not None or self.box.is_closed:
                return
            count += len(rows)
            # Without ids: who loses the connection in the middle begins with the snapshot again.
            for chunk, _ in wire.records(Item(row.record, "", row.body) for row in rows):
                yield chunk
                spoke = time.monotonic()
            if time.monotonic() - spoke > QUIET_S:
                yield wire.heartbeat("")[0]
                spoke = time.monotonic()
        self.end()
        yield wire.event("live", {"records": count}, text_of(self._at))[0]

    def _chosen(self, items: list[Item]) -> Iterator[Item]:
        return (each for each in items if self._tests.fits(each.record))

    async def _caught_up(self) -> AsyncIterator[Chunk]:
        """Ends having joined the feed."""
        feed, wire, box = self._feed, self._wire, self.box
        await feed.reached(self._at)
        spoke = time.monotonic()
        while box.dropped is None and not box.is_closed:
            self._at = {p: self._at.get(p, 0) for p in feed.position}
            if feed.recent.covers(self._at):
                missed = feed.recent.behind(self._at)
                feed.join(self._ask, wire, box, is_state=self._is_state)  # no await since `missed`
                async for chunk in self._told(missed):
                    yield chunk
                return
            piece = await feed.readers.piece(feed.topic, self._at, feed.position, self._listed)
            self._at = piece.position
            for chunk, _ in wire.records(piece.items):
                yield chunk
                spoke = time.monotonic()
            if time.monotonic() - spoke > QUIET_S:
                yield wire.heartbeat(text_of(self._at))[0]
                spoke = time.monotonic()

    async def _told(self, missed: list[Item]) -> AsyncIterator[Chunk]:
        for start in range(0, len(missed), SLICE_ITEMS):
            known = [(each.record, each.body) for each in missed[start : start + SLICE_ITEMS]]
            items = await self._beside(partial(self._made, known, self._at))
            self._at |= {record.partition: record.offset + 1 for record, _ in known}
            for chunk, _ in self._wire.records(items):
                yield chunk

    async def _beside(self, made: Callable[[], Iterable[Item]]) -> list[Item]:
        """In a thread, where a filter looks at each of many: everybody else would wait for it."""
        if self._tests.is_empty:
            return list(made())
        return await self._feed.readers.run(lambda: list(made()))

    def _listed(self, records: list[Record], at: Mapping[int, int]) -> list[Item]:
        return list(self._made(((record, None) for record in records), at))

    def _made(
        self, records: Iterable[tuple[Record, bytes | None]], at: Mapping[int, int]
    ) -> Iterator[Item]:
        """Events for this client alone: their ids count what it has, not what the feed has."""
        own, feed = dict(at), self._feed
        for record, body in records:
            own[record.partition] = record.offset + 1
            if self._tests.fits(record):
                yield Item(record, text_of(own), body or feed.body(record, feed.decoder))
            elif self._is_state and self._tests.is_mine(record):
                ended = gone(record)
                yield Item(ended, text_of(own), feed.body(ended, feed.decoder))
