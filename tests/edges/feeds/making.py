"""Records and items for tests of the pure parts."""

from __future__ import annotations

from headwater.browse.decoder import Decoder
from headwater.client.records import Record
from headwater.edges.feeds.bodies import of_record
from headwater.edges.feeds.wires import Item

PLAIN = Decoder()


def record(
    offset: int, key: bytes | None = None, value: bytes | None = b"{}", partition: int = 0
) -> Record:
    return Record("orders", partition, offset, 1_794_757_955_580, key, value)


def item(
    offset: int, key: bytes | None = None, value: bytes | None = b"{}", partition: int = 0
) -> Item:
    made = record(offset, key, value, partition)
    return Item(made, f"{partition}={offset + 1}", of_record(made, PLAIN))
