"""Records that are not in memory any more, for clients that are behind: in pieces, by a few readers at once.

A thousand clients may come back at once. Each piece is read by one of a few threads and the reader is given
back before the client takes the piece, so that a slow one holds nobody up and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headwater.client import ranges
from headwater.client.log import SCAN_BYTES, Log
from headwater.client.records import Range, Record
from headwater.edges.feeds.event_ids import Offsets
from headwater.edges.feeds.wires import Item
from headwater.edges.workers import Workers

READERS, AT_ONCE = 4, 3
"""Threads, and those of one sender."""
WAITING_MAX = 1_000_000
"""As many as changefeeds are let in."""
PIECE_BYTES = 1024**2
PIECE_OFFSETS = 20_000
"""What is looked through at once: a filter may keep nothing of it, and a heartbeat is due in time."""


Result = TypeVar("Result")


@dataclass(frozen=True)
class Piece:
    """Some events, and how far they bring the one who reads."""

    items: list[Item]
    position: Offsets


class Readers:
    """The threads."""

    def __init__(self, log: Log) -> None:
        self._client = log
        self._workers = Workers(READERS, AT_ONCE, "feed reader", WAITING_MAX)

    async def piece(
        self,
        topic: str,
        at: Mapping[int, int],
        ends: Mapping[int, int],
        made: Callable[[list[Record]], list[Item]],
    ) -> Piece:
        """From `at` towards `ends`, at least one step; `made` is called in the reader's thread."""

        def work() -> Piece:
            records, position = _read(self._client, topic, at, ends)
            return Piece(made(records), position)

        return await self.run(work)

    async def run(self, function: Callable[[], Result]) -> Result:
        """Anything else that waits for the log."""
        return await self._workers.run(function)

    def close(self) -> None:
        self._workers.close()


def _read(
    log: Log, topic: str, at: Mapping[int, int], ends: Mapping[int, int]
) -> tuple[list[Record], Offsets]:
    wanted = stretches(at, ends, PIECE_OFFSETS)
    position = dict(at)
    found: list[Record] = []
    size = 0
    pages = ranges.read(log, topic, wanted, SCAN_BYTES)
    try:
        for records in pages:
            for record in records:
                position[record.partition] = record.offset + 1
                size += len(record.value or b"") + len(record.key or b"") + 100
            found += records
            if size >= PIECE_BYTES:
                return found, position
    finally:
        close = getattr(pages, "close", None)
        if close is not None:
            close()  # the consumer goes back to its pool
    return found, {**position, **{p: end for p, (_, end) in wanted.items()}}


def stretches(at: Mapping[int, int], ends: Mapping[int, int], offsets_max: int) -> dict[int, Range]:
    """What to read next: of each partition that is behind, a share of what is read at once."""
    behind = {p: (at.get(p, 0), end) for p, end in ends.items() if at.get(p, 0) < end}
    share = max(1, offsets_max // max(1, len(behind)))
    return {p: (start, min(end, start + share)) for p, (start, end) in behind.items()}
