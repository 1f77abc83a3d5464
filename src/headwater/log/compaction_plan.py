"""Deciding what to compact, and the two messages between the broker and the process that does it.

`plan` looks at a log and says which of its segments are worth compacting, as Kafka decides it; pure,
once `prepare` has read the timestamps that it needs. `Plan` and `Result` travel as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headwater.log import time_lookup
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.config import NEVER_MS, LogConfig
from headwater.log.index import INTERVAL_BYTES_MAX, OFFSETS_MAX, OffsetIndex, TimeIndex
from headwater.log.latest import KEY_BYTES_MAX
from headwater.log.partition import PartitionLog
from headwater.log.segment import Segment
from headwater.log.survivors import LastOfProducer


@dataclass(frozen=True, slots=True)
class Source:
    """A sealed segment, as it was when the plan was made."""

    base_offset: int
    next_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to compact, decided by the log's owner. Everything in it is below the durable offset."""

    groups: tuple[tuple[Source, ...], ...]
    """Each becomes one segment; in the order of offsets, without gaps."""
    first_dirty_offset: int
    """Below this no key is twice."""
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    producers: Mapping[int, LastOfProducer]
    """Active producers whose last batch may be among the sources."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """Every aborted transaction with records among the sources, wherever its marker lies: the files
    beside the sources do not tell of one whose marker is in the active segment."""
    compacted_offset: int = 0
    """Below this no key is twice either, except for segments that were damaged then."""
    key_bytes_max: int = KEY_BYTES_MAX
    bytes_per_second: float | None = None
    """How fast the process may read; None: as fast as it can."""
    segments: tuple[Segment, ...] = field(default=(), compare=False, repr=False)
    """The sources themselves, for `apply`; stays with the owner."""

    @property
    def sources(self) -> list[Source]:
        return [source for group in self.groups for source in group]

    @property
    def end_offset(self) -> int:
        """What lies from here on is not touched."""
        return self.groups[-1][-1].next_offset

    def to_json(self) -> str:
        return json.dumps(
            {
                "groups": [
                    [(one.base_offset, one.next_offset, one.size) for one in group]
                    for group in self.groups
                ],
                "first_dirty_offset": self.first_dirty_offset,
                "compacted_offset": self.compacted_offset,
                "now_ms": self.now_ms,
                "delete_retention_ms": self.delete_retention_ms,
                "index_interval_bytes": self.index_interval_bytes,
                "producers": [(number, *last) for number, last in self.producers.items()],
                "aborted": self.aborted,
                "key_bytes_max": self.key_bytes_max,
                "bytes_per_second": self.bytes_per_second,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        fields: dict[str, Any] = json.loads(text)
        fields["groups"] = tuple(
            tuple(Source(*numbers) for numbers in group) for group in fields["groups"]
        )
        fields["producers"] = {
            number: LastOfProducer(offset, epoch) for number, offset, epoch in fields["producers"]
        }
        fields["aborted"] = tuple(AbortedTransaction(*entry) for entry in fields["aborted"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Made:
    """A new segment, still called `.cleaned`."""

    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    replaces: tuple[int, ...]
    """Base offsets of the segments it was made from."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a compaction made; segments that would have stayed the same are not among it."""

    made: tuple[Made, ...]
    cleaned_offset: int
    """Where the next compaction begins; below the plan's end if there were too many keys, or damage."""
    keys: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int
    damaged: tuple[str, ...] = ()
    """Segments that were left as they are because of damage: where, and what is wrong."""
    unreadable: tuple[str, ...] = ()
    """Intact batches whose records cannot be read, each in a sentence; they were left as they are."""
    reached_offset: int = 0
    """What lies before it was compacted, except for the damaged segments."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        fields: dict[str, Any] = json.loads(text)
        fields["made"] = tuple(
            Made(**{**made, "replaces": tuple(made["replaces"])}) for made in fields["made"]
        )
        fields |= {name: tuple(fields.get(name, ())) for name in ("damaged", "unreadable")}
        return cls(**fields)


def prepare(log: PartitionLog) -> None:
    """Read what `plan` will ask for, so that it need not wait: disk work, in any thread."""
    if log.config.compact:
        for segment in log.segments[:-1]:
            if log.config.min_compaction_lag_ms > 0:
                time_lookup.largest(segment)
            if log.config.max_compaction_lag_ms < NEVER_MS:
                time_lookup.first(segment)


def plan(
    log: PartitionLog,
    now_ms: int,
    *,
    key_bytes_max: int = KEY_BYTES_MAX,
    bytes_per_second: float | None = None,
) -> Plan | None:
    """What to compact now; None if the log is not dirty enough to be worth it."""
    config = log.config
    if not config.compact:
        return None
    first_dirty_offset = _first_dirty_offset(log)
    segments = _cleanable(log, first_dirty_offset, now_ms)
    # What had to be left out last time is no reason to do it all again, before there is something new.
    seen_offset = max(first_dirty_offset, log.compacted_offset)
    dirty = [segment for segment in segments if segment.next_offset > seen_offset]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / sum(segment.size for segment in segments)
    if ratio <= config.min_cleanable_dirty_ratio and not _is_overdue(dirty, config, now_ms):
        return None
    return Plan(
        groups=_grouped(segments, config),
        first_dirty_offset=first_dirty_offset,
        compacted_offset=log.compacted_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        index_interval_bytes=config.index_interval_bytes,
        producers=_last_of_producers(log, segments[-1].next_offset),
        aborted=tuple(log.aborted_between(segments[0].base_offset, segments[-1].next_offset)),
        key_bytes_max=key_bytes_max,
        bytes_per_second=bytes_per_second,
        segments=tuple(segments),
    )


def _first_dirty_offset(log: PartitionLog) -> int:
    """Where the last compaction ended, unless the log no longer reaches that far."""
    cleaned = log.cleaned_offset if log.cleaned_offset <= log.next_offset else 0
    return max(cleaned, log.start_offset)


def _cleanable(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> list[Segment]:
    """Sealed segments from the start of the log up to the first that must not be touched yet."""
    limit, lag_ms = log.last_stable_offset(), log.config.min_compaction_lag_ms
    found: list[Segment] = []
    for segment in log.segments[:-1]:
        if segment.next_offset <= log.start_offset:
            continue  # retention will take it
        # The commit that seals a segment still writes its indexes by their names; it is known to be
        # over once something behind the segment is durable.
        if segment.next_offset > limit or segment.next_offset >= log.durable_offset:
            break
        is_dirty = segment.next_offset > first_dirty_offset
        if is_dirty and lag_ms > 0 and time_lookup.largest(segment) > now_ms - lag_ms:
            break
        found.append(segment)
    return found


def _is_overdue(dirty: list[Segment], config: LogConfig, now_ms: int) -> bool:
    """Whether the oldest of the dirty segments has waited for longer than max.compaction.lag.ms."""
    if config.max_compaction_lag_ms >= NEVER_MS:
        return False
    first = [timestamp for segment in dirty if (timestamp := time_lookup.first(segment)) > 0]
    return bool(first) and min(first) < now_ms - max(config.max_compaction_lag_ms, 0)


def _grouped(segments: list[Segment], config: LogConfig) -> tuple[tuple[Source, ...], ...]:
    """Neighbours that fit into one segment together, however little of them is dropped."""
    entry_bytes = max(OffsetIndex.entry_bytes, TimeIndex.entry_bytes)
    interval = min(max(config.index_interval_bytes, 1), INTERVAL_BYTES_MAX)
    groups: list[list[Source]] = []
    size = 0
    for segment in segments:
        source = Source(segment.base_offset, segment.next_offset, segment.size)
        index_bytes = (size + source.size) // interval * entry_bytes
        if (
            groups
            and size + source.size <= config.segment_bytes
            and index_bytes <= config.segment_index_bytes
            and source.next_offset - 1 - groups[-1][0].base_offset <= OFFSETS_MAX
        ):
            groups[-1].append(source)
            size += source.size
        else:
            groups.append([source])
            size = source.size
    return tuple(tuple(group) for group in groups)


def _last_of_producers(log: PartitionLog, end_offset: int) -> dict[int, LastOfProducer]:
    """Only those whose last batch may be below `end_offset`; the others need no protection."""
    found: dict[int, LastOfProducer] = {}
    for number, producer in log.producers.by_id.items():
        durable = [batch for batch in producer.stored if batch.last_offset < log.durable_offset]
        if producer.packed and not durable:
            continue  # only staged ones are remembered: what the log has of it is kept
        offset = durable[-1].last_offset if durable else -1
        if offset < end_offset:
            found[number] = LastOfProducer(offset, producer.epoch)
    return found
