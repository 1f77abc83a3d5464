"""One topic and all who follow it: one reader, the last records in memory, channels of clients.

    log ──Follower──▶ publish ──▶ recent, fold ──▶ audiences, of each sender ──▶ the clients' boxes

Everything here happens on the event loop. What came is here from one moment on, between two awaits, so a
client that joins sees exactly what is behind the position at that moment: what came before is in the log or
in `recent`, what comes after goes to its box. To tell it to all may take several turns (`channels`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.browse.decoder import Decoder
from headwater.client import settings
from headwater.client.errors import BrokerUnreachable, told
from headwater.client.log import Log
from headwater.client.records import Range, Record
from headwater.edges.caller import SENDER
from headwater.edges.feeds.bodies import Body
from headwater.edges.feeds.channels import DROPPED, SLOW, Audience, Box, Channel, all_told
from headwater.edges.feeds.event_ids import Offsets, text_of
from headwater.edges.feeds.follower import Batch, Follower
from headwater.edges.feeds.history import BUILD_BYTES, Piece, Readers
from headwater.edges.feeds.recent import Recent
from headwater.edges.feeds.request import Ask
from headwater.edges.feeds.state import Change, Snapshot, State
from headwater.edges.feeds.wires import Item, Wire
from headwater.edges.memory_share import MemoryShare
from headwater.edges.workers import LARGE_BYTES
from headwater.errors import HeadwaterError

RECENT_BYTES = 4 * 1024**2
RECENT_OFFSETS = 2000
"""How far back the reader begins: clients that come back after a restart of the edges find theirs."""
STATE_BYTES = 256 * 1024**2
PATIENCE_S = 15.0


@dataclass(frozen=True)
class Bounds:
    """What a feed may keep in memory."""

    recent_bytes: int = RECENT_BYTES
    state_bytes: int = STATE_BYTES


class Feed:
    """Of one topic. `start` it on the loop that it is for."""

    def __init__(
        self,
        log: Log,
        topic: str,
        body: Body,
        readers: Readers,
        decoder: Decoder,
        bounds: Bounds,
        states: MemoryShare,
    ) -> None:
        self.client, self.topic, self.body, self.readers = log, topic, body, readers
        self.decoder = decoder
        self._known = decoder.known()
        """For the event loop: the thread that follows the topic has asked for the schemas of what came."""
        self.position: Offsets = {}
        self.recent = Recent(bounds.recent_bytes)
        self.retention_ms: int | None = None
        """How long a deleted key's last word is kept; None where the topic is not compacted."""
        self._audiences: dict[str, Audience] = {}
        """By sender."""
        self._state = State(topic, bounds.state_bytes, states)
        self._moved = asyncio.Event()
        self._follower: Follower | None = None
        self.failure: HeadwaterError | None = None

    # ---- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns once the reader is where the log ended when it was asked."""
        held, self.retention_ms = await self.readers.run(lambda: _look(self.client, self.topic))
        back = max(1, RECENT_OFFSETS // len(held))
        self.position = {p: max(first, end - back) for p, (first, end) in held.items()}
        self.recent.begin(self.position)
        self._follower = Follower(
            self.client,
            self.topic,
            self.position,
            self.body,
            self.decoder,
            publish=self._publish,
            failed=self.fail,
        )
        self._follower.start()
        await self.reached({p: end for p, (_, end) in held.items()})

    def stop(self, reason: str) -> None:
        if self._follower is not None:
            self._follower.stop()
        self._state.close()
        for each in self._audiences.values():
            each.end(reason)
        self._audiences.clear()

    def fail(self, error: HeadwaterError) -> None:
        """The reader cannot go on: everybody is told why."""
        self.failure = error
        DROPPED.labels("failed").inc(len(self.boxes()))
        self.stop(str(error))
        self._tell_moved()

    # ---- what clients ask -------------------------------------------------------------------------

    @property
    def is_compacted(self) -> bool:
        return self.retention_ms is not None

    async def held(self) -> dict[int, Range]:
        return await self.readers.run(lambda: self.client.ranges(self.topic))

    async def reached(self, offsets: Mapping[int, int]) -> None:
        """Wait until the reader has come at least so far. The offsets must be in the log."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not self._covers(offsets):
                    if self.failure is not None:
                        raise self.failure
                    await self._moved.wait()
        except TimeoutError:
            raise BrokerUnreachable(
                f"{self.topic} was not read as far as {text_of(offsets)} within {PATIENCE_S:g} s",
                hint="see what the broker logs, and come again",
            ) from None

    async def snapshot(self) -> Snapshot:
        """The latest record of each key, and where that is; RequestRefused where the topic has none such."""
        if self.failure is not None:
            raise self.failure
        return await self._state.snapshot(lambda: self.position, self._read)

    def join(self, ask: Ask, wire: Wire, box: Box, *, is_state: bool) -> None:
        """From now on, what is published is put into the box."""
        if self.failure is not None:
            raise self.failure
        kind = (ask.filter, wire.name, is_state)
        sender = SENDER.get()
        audience = self._audiences.get(sender)
        if audience is None:
            audience = Audience(self.topic, sender, self._known, self._id)
            self._audiences[sender] = audience
        channel = audience.channels.get(kind)
        if channel is None:
            tests = ask.tests(audience.decoder)
            channel = Channel(tests, wire, self._bodied, is_state=is_state)
            audience.channels[kind] = channel
        channel.boxes.add(box)

    def leave(self, box: Box) -> None:
        for sender, audience in list(self._audiences.items()):
            audience.leave(box)
            if audience.is_empty:
                del self._audiences[sender]

    def boxes(self) -> list[Box]:
        return [box for each in self._audiences.values() for box in each.boxes()]

    # ---- looked at by the hub, every moment ---------------------------------------------------------

    def beat(self) -> None:
        for each in self._audiences.values():
            each.beat()

    def drop_stalled(self, slow_s: float) -> None:
        for box in self.boxes():
            if box.stalled_s() > slow_s:
                box.drop(f"too slow: it has taken nothing for {slow_s:g} s")
        self._let_go()

    # ---- records come -----------------------------------------------------------------------------

    async def _publish(self, batch: Batch) -> None:
        if batch.added:
            self.recent.begin(dict.fromkeys(batch.added, 0))
        self.position = batch.position
        if batch.items:
            self.recent.add(batch.items)
            await self._to_all(self._changes(batch.items))
        self._tell_moved()

    async def _to_all(self, changes: list[Change]) -> None:
        """Large values are looked at in a thread. Who joins meanwhile has what came from `recent`."""
        is_much = sum(len(each.record.value or b"") for each, _ in changes) >= LARGE_BYTES
        beside = self.readers.run if is_much else None
        self._audiences = {n: each for n, each in self._audiences.items() if not each.is_empty}
        if len(self._audiences) > 1:
            self._drop_late()
        for each in self._audiences.values():
            each.put(changes, knows=self._state.is_known, beside=beside)
        await all_told(list(self._audiences.values()))
        self._let_go()

    def _drop_late(self) -> None:
        """Alone, somebody may take his time; others do not wait for him."""
        for sender in [sender for sender, each in self._audiences.items() if each.is_full]:
            late = self._audiences.pop(sender)
            DROPPED.labels("slow").inc(len(late.boxes()))
            late.end(SLOW)

    def _changes(self, items: list[Item]) -> list[Change]:
        try:
            return self._state.changes(items)
        except HeadwaterError as error:
            self._drop_state(str(error))
            return [(item, None) for item in items]

    def _drop_state(self, reason: str) -> None:
        for audience in self._audiences.values():
            for (_, _, is_state), channel in audience.channels.items():
                for box in channel.boxes if is_state else ():
                    box.drop(reason)

    def _let_go(self) -> None:
        for each in self._audiences.values():
            each.let_go()

    def _id(self) -> str:
        return text_of(self.position)

    def _bodied(self, record: Record) -> bytes:
        return self.body(record, self._known)

    # ---- the state of the topic -------------------------------------------------------------------

    async def _read(self, at: Mapping[int, int], ends: Mapping[int, int]) -> Piece:
        return await self.readers.piece(self.topic, at, ends, self._plain, BUILD_BYTES)

    def _plain(self, records: list[Record], _at: Mapping[int, int]) -> list[Item]:
        return [Item(record, "", self._bodied(record)) for record in records]

    def _covers(self, offsets: Mapping[int, int]) -> bool:
        return all(self.position.get(p, -1) >= offset for p, offset in offsets.items())

    def _tell_moved(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


def _look(log: Log, topic: str) -> tuple[dict[int, Range], int | None]:
    """What the topic holds, and how long it keeps tombstones where it is compacted."""
    held = log.ranges(topic)
    with told(f"reading the settings of {topic}", log.bootstrap):
        found = settings.of_topic(log.admin, topic)
    if "compact" not in (found["cleanup.policy"].value or ""):
        return held, None
    return held, int(found["delete.retention.ms"].value or 0)
