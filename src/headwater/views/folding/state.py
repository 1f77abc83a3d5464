"""The fold of one key's changes, up to a moment, with the history that led to it.

`headwater state` asks `state_of`. Which partition is read follows Kafka's partitioner; only where the key
is not there are the others read, and `State.note` says so. The log's order is what counts: "as of" a time
means before the first record that is later than it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headwater.client import key_search
from headwater.client.cluster import EARLIEST, LATEST, READ_COMMITTED, Cluster
from headwater.client.key_search import Stretch
from headwater.client.partitioner import by_crc32, by_murmur2, forms_of
from headwater.errors import HeadwaterError
from headwater.record.records import Record
from headwater.views.folding.changes import TRUNCATE, completed, difference, said_by

PIECE_OFFSETS = 250_000
"""Looked at between two words about the progress."""
_OFFSET = re.compile(r"(?:(\d+):)?(\d+)")


class NoSuchState(HeadwaterError):
    """The topic, or the key, or the moment that was asked for is not there."""


@dataclass(frozen=True)
class AsOf:
    """A moment: after one offset (of one partition), or at a time; neither is now."""

    offset: int | None = None
    partition: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True)
class Change:
    """One record of the key's history; `row` is the state after it, `changed` what it changed."""

    partition: int
    offset: int
    timestamp_ms: int
    op: str
    row: Any
    changed: dict[str, list[Any]]


@dataclass(frozen=True)
class State:
    topic: str
    key: str
    exists: bool
    row: Any
    changes: Sequence[Change]
    read: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition → the offsets that were looked at."""
    note: str | None = None


def parse_as_of(text: str | None) -> AsOf:
    """OFFSET, PARTITION:OFFSET, or a time as in 2026-11-15T15:00 (UTC, if it says no zone)."""
    if text is None:
        return AsOf()
    if found := _OFFSET.fullmatch(text.strip()):
        partition = None if found[1] is None else int(found[1])
        return AsOf(offset=int(found[2]), partition=partition)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise NoSuchState(
            f"{text!r} is neither an offset nor a time",
            hint="write 17, or 2:17 (partition and offset), or 2026-11-15T15:00:00",
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return AsOf(time_ms=int(moment.timestamp() * 1000))


def fold(records: Iterable[tuple[int, Record]]) -> tuple[Any, list[Change]]:
    """The row that is left, and every change on the way."""
    row: Any = None
    changes: list[Change] = []
    for partition, record in records:
        said = said_by(record.value)
        if said is None or (said.op == TRUNCATE and row is None):
            continue
        after = completed(said.row, row if row is not None else said.before)
        changed = difference(row, after)
        place = (partition, record.offset, record.timestamp)
        changes.append(Change(*place, said.op, after, changed))
        row = after
    return row, changes


def state_of(
    cluster: Cluster,
    topic: str,
    key: str | bytes,
    as_of: AsOf,
    *,
    everywhere: bool = False,
    tell: Callable[[int, int], None] = lambda looked, total: None,
) -> State:
    """The state of a key; a `str` may also be the one value of a key that is JSON.

    `tell` hears how many offsets were looked at, and of how many; what it raises ends the search.
    """
    stretches = _stretches(cluster, topic, as_of)
    forms = [key] if isinstance(key, bytes) else forms_of(key, _example(cluster, stretches))
    found: list[tuple[int, Record]] = []
    looked: dict[int, tuple[int, int]] = {}
    guesses = _guesses(forms, set(stretches), everywhere)
    done = 0
    for guess in guesses:
        new = sorted(guess - set(looked))
        total = done + sum(stretches[partition].length for partition in new)
        for piece in _pieces(stretches[partition] for partition in new):
            tell(done, total)
            found += [
                (piece.partition, each) for each in key_search.records_of(cluster, piece, forms)
            ]
            done += piece.length
        tell(done, total)
        looked |= {p: (stretches[p].start, stretches[p].end) for p in new}
        if any(record.key is not None for _, record in found):
            break
    shown = key if isinstance(key, str) else f"0x{key.hex()}"
    places = {partition for partition, record in found if record.key is not None}
    if not places:
        raise _absent(topic, shown, as_of, looked)
    if len(places) > 1 and as_of.offset is not None and as_of.partition is None:
        raise NoSuchState(
            f"the key {shown!r} is in the partitions {_listed(places)} of {topic}",
            hint=f"say of which the offset is, as in --as-of {min(places)}:{as_of.offset}",
        )
    mine = [(partition, each) for partition, each in found if partition in places]
    mine.sort(key=lambda each: each[1].timestamp if len(places) > 1 else each[1].offset)
    row, changes = fold(mine)
    gone = {p: start for p, (start, _) in looked.items() if start > 0 and p in places}
    note = _note(places, guesses, gone)
    return State(topic, shown, row is not None, row, changes, looked, note)


def _stretches(cluster: Cluster, topic: str, as_of: AsOf) -> dict[int, Stretch]:
    known = cluster.metadata([topic]).topics.get(topic)
    if known is None:
        raise NoSuchState(
            f"there is no topic {topic!r}", hint="headwater topics list shows those that exist"
        )
    places = [(topic, partition) for partition in known.leaders]
    starts = cluster.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = cluster.list_offsets(dict.fromkeys(places, LATEST), READ_COMMITTED)
    if as_of.time_ms is not None:
        later = cluster.list_offsets(dict.fromkeys(places, as_of.time_ms + 1))
        ends = {place: _least(later[place], end) for place, end in ends.items()}
    if as_of.offset is not None:
        ends = {place: min(as_of.offset + 1, end) for place, end in ends.items()}
    if as_of.partition is not None:
        if as_of.partition not in known.leaders:
            raise NoSuchState(f"{topic} has no partition {as_of.partition}")
        places = [(topic, as_of.partition)]
    return {p: Stretch(topic, p, starts[t, p], ends[t, p]) for t, p in places}


def _pieces(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    for where in stretches:
        for start in range(where.start, where.end, PIECE_OFFSETS):
            end = min(start + PIECE_OFFSETS, where.end)
            yield Stretch(where.topic, where.partition, start, end)


def _least(found: int, end: int) -> int:
    return end if found < 0 else min(found, end)


def _example(cluster: Cluster, stretches: dict[int, Stretch]) -> bytes | None:
    for where in stretches.values():
        if (
            where.start < where.end
            and (key := key_search.an_example_key(cluster, where)) is not None
        ):
            return key
    return None


def _guesses(forms: Sequence[bytes], everything: set[int], everywhere: bool) -> list[set[int]]:
    """Partitions to look at, the likely ones first, each set only if the one before had nothing."""
    count = len(everything)
    if everywhere or count == 1:
        return [everything]
    return [
        {by_murmur2(form, count) for form in forms},
        {by_crc32(form, count) for form in forms},
        everything,
    ]


def _absent(topic: str, key: str, as_of: AsOf, looked: dict[int, tuple[int, int]]) -> NoSuchState:
    until = "" if as_of == AsOf() else " up to then"
    size = sum(max(0, end - start) for start, end in looked.values())
    return NoSuchState(
        f"{topic} has no record with the key {key!r}{until} "
        f"({size:,} offsets of {len(looked)} partition{'' if len(looked) == 1 else 's'} looked at)",
        hint="a key is compared byte by byte; --hex takes one that is no text",
    )


def _note(places: set[int], guesses: list[set[int]], gone: dict[int, int]) -> str | None:
    """What a reader of the answer must know about where it comes from."""
    notes = []
    if len(guesses) > 1 and not places <= guesses[0]:
        where = (
            "where librdkafka's partitioner puts it (crc32)"
            if places <= guesses[1]
            else "where no partitioner known here puts it, after reading all partitions"
        )
        notes.append(
            f"The key is not in partition {_listed(guesses[0])}, where Kafka's partitioner puts it, "
            f"but in {_listed(places)}, {where}."
        )
    if len(places) > 1:
        notes.append(
            f"The key is in the partitions {_listed(places)}, between which there is no order; its "
            "changes are shown by their timestamps."
        )
    for partition, start in gone.items():
        notes.append(f"Partition {partition} begins at offset {start}; what was before is gone.")
    return " ".join(notes) or None


def _listed(places: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(places)))
