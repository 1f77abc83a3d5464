"""Records that are not in memory any more, for clients that are behind: in pieces, by a few readers at once.

A thousand clients may come back at once. Each piece is read by one of a few threads and the reader is given
back before the client takes the piece, so that a slow one holds nobody up and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
PIECE_BYTES, BUILD_BYTES = 2 * 1024**2, 16 * 1024**2
"""For one client; for the state of a topic, which is built once for all of them."""
ITEM_BYTES = 1000
"""Of an event in memory, besides those of its record and its body: many are small."""
SLICE_RECORDS = 200
"""Events are made of so many, until there are enough: a page of the log may have very many more."""
PIECE_OFFSETS = 20_000
"""What is looked through at once: a filter may keep nothing of it, and a heartbeat is due in time."""


Result = TypeVar("Result")
Made = Callable[[list[Record], Mapping[int, int]], list[Item]]
"""Events of records, for one who has come so far."""


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
        made: Made,
        bytes_max: int = PIECE_BYTES,
    ) -> Piece:
        """From `at` towards `ends`, at least one step; `made` is called in the reader's thread."""
        return await self.run(lambda: _read(self._client, topic, (at, ends), made, bytes_max))

    async def run(self, function: Callable[[], Result]) -> Result:
        """Anything else that waits for the log."""
        return await self._workers.run(function)

    def close(self) -> None:
        self._workers.close()


def _read(
    log: Log,
    topic: str,
    between: tuple[Mapping[int, int], Mapping[int, int]],
    made: Made,
    bytes_max: int,
) -> Piece:
    at, ends = between
    wanted = stretches(at, ends, PIECE_OFFSETS)
    position = dict(at)
    found: list[Item] = []
    size = 0
    pages = ranges.read(log, topic, wanted, SCAN_BYTES)
    try:
        for some in _slices(pages):
            items = made(some, position)
            position |= {record.partition: record.offset + 1 for record in some}
            size += sum(
                len(each.record.value or b"") + len(each.body) + ITEM_BYTES for each in items
            )
            found += items
            if size >= bytes_max:
                return Piece(found, position)
    finally:
        close = getattr(pages, "close", None)
        if close is not None:
            close()  # the consumer goes back to its pool
    return Piece(found, {**position, **{p: end for p, (_, end) in wanted.items()}})


def _slices(pages: Iterable[list[Record]]) -> Iterator[list[Record]]:
    for records in pages:
        for start in range(0, len(records), SLICE_RECORDS):
            yield records[start : start + SLICE_RECORDS]


def stretches(at: Mapping[int, int], ends: Mapping[int, int], offsets_max: int) -> dict[int, Range]:
    """What to read next: of each partition that is behind, a share of what is read at once."""
    behind = {p: (at.get(p, 0), end) for p, end in ends.items() if at.get(p, 0) < end}
    share = max(1, offsets_max // max(1, len(behind)))
    return {p: (start, min(end, start + share)) for p, (start, end) in behind.items()}
