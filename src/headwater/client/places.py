"""Words for a place in a topic, as a cursor: offsets are found by the broker's indexes, never by reading.

| words                             | place                                                          |
|-----------------------------------|----------------------------------------------------------------|
| `beginning`, `end`                | of every partition                                             |
| `17`, `2:17`                      | that offset, of every partition or of one                      |
| `2026-11-15T15:00`, `…+01:00`     | the first record not older than that (UTC if it says no zone)  |
| `-10m`, `-90s`, `-2h`, `-7d`      | so long ago                                                    |
| `0=12,1=340`                      | a cursor as it was given out                                   |
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headwater.client.errors import BadRequest, NotThere
from headwater.client.log import Log
from headwater.client.records import Cursor, Range

_OFFSET = re.compile(r"(?:(\d+):)?(\d+)")
_AGO = re.compile(r"-(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_CURSOR = re.compile(r"\d+=\d+(?:,\d+=\d+)*")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LAST_OFFSET = (1 << 63) - 1


@dataclass(frozen=True)
class Place:
    """One of: `offset` (of `partition`, or of all), `time_ms`, `cursor`; none of them is the beginning."""

    offset: int | None = None
    partition: int | None = None
    time_ms: int | None = None
    cursor: Cursor | None = None


BEGINNING = Place(offset=0)
END = Place(offset=_LAST_OFFSET)


def parse(text: str, now_ms: int | None = None) -> Place:
    words = text.strip()
    if words in ("beginning", "earliest", "start"):
        return BEGINNING
    if words in ("end", "latest"):
        return END
    if found := _OFFSET.fullmatch(words):
        return Place(int(found[2]), None if found[1] is None else int(found[1]))
    if _CURSOR.fullmatch(words):
        return Place(cursor=Cursor.parse(words))
    return Place(time_ms=time_of(words, now_ms))


def time_of(words: str, now_ms: int | None = None) -> int:
    """Milliseconds since 1970 of a time or of `-10m`."""
    if found := _AGO.fullmatch(words):
        now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return now - int(float(found[1]) * _UNIT_MS[found[2]])
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        raise BadRequest(
            f"{words!r} is neither an offset nor a time",
            hint="write beginning, end, 17, 2:17 (partition and offset), 2026-11-15T15:00 or -10m",
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def located(log: Log, topic: str, place: Place, ranges: Mapping[int, Range]) -> Cursor:
    """The place in each partition, within what there is of it."""
    if place.cursor is not None:
        strange = [p for p in place.cursor.offsets if p not in ranges]
        if strange:
            raise NotThere(f"{topic} has no partition {strange[0]}", hint="start over without it")
        return Cursor({p: _within(offset, ranges[p]) for p, offset in place.cursor})
    if place.time_ms is not None:
        found = log.offsets([(topic, p) for p in ranges], max(0, place.time_ms))
        ends = {p: end for p, (_, end) in ranges.items()}
        at = {p: found[topic, p] if found[topic, p] >= 0 else end for p, end in ends.items()}
        return Cursor({p: _within(offset, ranges[p]) for p, offset in at.items()})
    offset = place.offset or 0
    if place.partition is None:
        return Cursor({p: _within(offset, both) for p, both in ranges.items()})
    if place.partition not in ranges:
        raise NotThere(
            f"{topic} has no partition {place.partition}", hint=f"it has 0 to {max(ranges)}"
        )
    return Cursor({place.partition: _within(offset, ranges[place.partition])})


def is_beyond(place: Place, ranges: Mapping[int, Range]) -> bool:
    """Whether it names an offset that no partition has come to yet."""
    if place.offset is None or place == END:
        return False
    ends = [end for p, (_, end) in ranges.items() if place.partition in (None, p)]
    return all(place.offset > end for end in ends)


def _within(offset: int, both: Range) -> int:
    return max(both[0], min(offset, both[1]))
