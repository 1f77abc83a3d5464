"""Transactions that were aborted: each segment has a list of those whose marker lies in it.

`PartitionLog` adds an entry when it stages an abort marker, Fetch with `read_committed` asks which of
them its data touches, compaction and excision are told of them to know whose records to drop and
which entries to keep. Memory has all of them; the file of the active segment may be behind.

NNNNNNNNNNNNNNNNNNNN.txnindex, Kafka's format, big-endian, entries of 34 bytes in the order of markers:

    version int16 = 0 | producer_id int64 | first_offset int64 | last_offset int64 (the marker's)
    | last_stable_offset int64 (as the marker left it)

A segment without entries has no file. The entries of markers below a snapshot of the producers must be
on disk before that snapshot is: the others are found again by reading the log from there on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headwater.record.batch import BatchHeader
from headwater.record.errors import CorruptBatch

SUFFIX = ".txnindex"
_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One producer's records in [first_offset, last_offset) do not count."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def pack(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(0, *entry) for entry in entries)


def unpack(data: bytes, base_offset: int) -> list[AbortedTransaction]:
    """The entries of a segment's file. Raises CorruptBatch if it cannot be one."""
    if len(data) % ENTRY_BYTES:
        raise CorruptBatch(f"{len(data)} bytes are no whole number of aborted transactions")
    entries: list[AbortedTransaction] = []
    previous = base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != 0 or entry.last_offset <= previous or entry.first_offset > entry.last_offset:
            raise CorruptBatch(f"an aborted transaction that cannot be: {entry}")
        entries.append(entry)
        previous = entry.last_offset
    return entries


def between(
    lists: Iterable[Sequence[AbortedTransaction]], first: int, end: int
) -> list[AbortedTransaction]:
    """Those that touch the offsets [first, end); `lists`: of the segments from `first` on."""
    found: list[AbortedTransaction] = []
    for entries in lists:
        for entry in entries:
            if entry.last_offset >= first and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found  # what ends later has begun later, too
    return found


def among(entries: Iterable[AbortedTransaction]) -> Callable[[BatchHeader], bool]:
    """For compaction: was the transaction of this batch one of these?"""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for entry in entries:
        ranges.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))

    def is_aborted(header: BatchHeader) -> bool:
        spans = ranges.get(header.producer_id, ())
        return any(first <= header.base_offset < last for first, last in spans)

    return is_aborted
