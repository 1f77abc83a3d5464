"""One key of a topic at a moment, and every change that led there: `views.folding` with a connection.

    found = state_of(log, "shop.orders", "17", "2026-11-15T15:00")
    found.row, found.changes[-1].changed

A slider needs one question only: ask for now, and take the last change that is not later than its moment.
`views.folding` understands JSON; of a topic in Avro, the key's records are read here, decoded, and folded as
the JSON that they stand for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.browse.decoder import Decoder
from headwater.browse.pages import Bounds, page
from headwater.browse.search import by_key
from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.client.places import END, Place
from headwater.client.records import Record

if TYPE_CHECKING:
    from headwater.views.folding.state import AsOf, State

_ALL = Bounds(scanned_max=1 << 62, seconds=3600.0)
_CHANGES_MAX = 1_000_000
Tell = Callable[[int, int], None]


def state_of(
    log: Log,
    topic: str,
    key: str | bytes,
    as_of: str | None = None,
    *,
    everywhere: bool = False,
    tell: Tell = lambda looked, total: None,
) -> State:
    """`as_of`: OFFSET, PARTITION:OFFSET or a time; None is now. Reads the key's partition as far as that.

    `tell` hears how many offsets were looked at, and of how many; what it raises ends the search.
    """
    if _is_avro(page(log, topic, back=True, limit=1).records):
        return _of_avro(log, topic, key, as_of, everywhere=everywhere, tell=tell)
    with log.cluster() as connected:
        from headwater.views.folding import state

        return state.state_of(
            connected, topic, key, state.parse_as_of(as_of), everywhere=everywhere, tell=tell
        )


def _is_avro(records: list[Record]) -> bool:
    return any((each.value or each.key or b"")[:1] == b"\0" for each in records)


def _of_avro(
    log: Log, topic: str, key: str | bytes, as_of: str | None, *, everywhere: bool, tell: Tell
) -> State:
    from headwater.record import records as plain
    from headwater.views.folding import state

    decoder = Decoder(log)
    found = by_key(
        log,
        topic,
        key,
        decoder,
        back=False,
        until=_until(state.parse_as_of(as_of)),
        limit=_CHANGES_MAX,
        everywhere=everywhere,
        bounds=_ALL,
        progress=tell,
    )
    shown = key if isinstance(key, str) else f"0x{key.hex()}"
    if not found.page.records:
        raise NotThere(
            f"{topic} has no record with the key {shown!r}{f' as of {as_of}' if as_of else ''}",
            hint="a key of Avro is given as its one value, or as JSON",
        )
    changes = [
        (each.partition, plain.Record(each.offset, each.timestamp_ms, each.key, value))
        for each in found.page.records
        for value in (_as_json(decoder, each),)
    ]
    row, history = state.fold(changes)
    read = {p: found.page.ranges[p] for p in found.partitions if p in found.page.ranges}
    return state.State(topic, shown, row is not None, row, history, read, found.note)


def _as_json(decoder: Decoder, record: Record) -> bytes | None:
    if record.value is None:
        return None
    shown = decoder.decode(record.value, record.topic)
    return json.dumps(shown.value).encode() if shown.is_by_schema else record.value


def _until(as_of: AsOf) -> Place:
    """The first place that does not count any more."""
    if as_of.offset is not None:
        return Place(as_of.offset + 1, as_of.partition)
    return END if as_of.time_ms is None else Place(time_ms=as_of.time_ms + 1)
