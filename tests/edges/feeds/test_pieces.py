"""What a client that is behind has in memory: little, however small and many the records are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.client.log import Log
from headwater.client.records import Record
from headwater.edges.feeds.history import ITEM_BYTES, PIECE_BYTES, SLICE_RECORDS, Readers
from headwater.edges.feeds.wires import Item
from tests.edges.feeds.clients import put

COUNT = 5_000


async def test_a_piece_is_bounded_by_what_its_events_take_and_leaves_none_out(
    log: Log, topic: Callable[..., str]
):
    """Forty clients that took nothing had a gigabyte and a half."""
    name = topic()
    put(log, name, *range(COUNT))

    def made(records: list[Record], at: Mapping[int, int]) -> list[Item]:
        assert records[0].offset >= at.get(0, 0)
        return [Item(each, str(each.offset), each.value or b"") for each in records]

    readers, at, seen = Readers(log), {0: 0}, list[int]()
    while at[0] < COUNT:
        piece = await readers.piece(name, at, {0: COUNT}, made)
        assert len(piece.items) <= PIECE_BYTES // ITEM_BYTES + SLICE_RECORDS
        seen += [each.record.offset for each in piece.items]
        at = dict(piece.position)
    readers.close()
    assert seen == list(range(COUNT))
