"""Transactions that were aborted: each segment has a list of those whose marker lies in it.

`PartitionLog` adds an entry when it stages an abort marker, Fetch with `read_committed` asks which of
them its data touches, compaction and excision are told of them to know whose records to drop and
which entries to keep. Memory has all of them; the file of the active segment may be behind.

NNNNNNNNNNNNNNNNNNNN.txnindex, Kafka's format, big-endian, entries of 34 bytes in the order of markers:

    version int16 = 0 | producer_id int64 | first_offset int64 | last_offset int64 (the marker's)
    | last_stable_offset int64 (as the marker left it)

A segment without entries has no file. The entries of markers below a snapshot of the producers must be
on disk before that snapshot is: the others are found again by reading the log from there on.

Kafka's format has no checksum, and a file that somebody has removed looks like one that was never
needed: aborted records would come back to life. So `txnindex-checksums`, our own, in the form of Kafka's
checkpoints, says of each segment `base_offset entries crc32c`, and must be on disk before the snapshot,
too. What does not agree with it is looked for in the log; a folder without it is believed.

The `.txnindex` files of a log, and `txnindex-checksums`, by which they are known to be whole.

A commit calls `save` before a snapshot of the producers counts, recovery when it has read a log. Whoever
exchanges segments calls `forget` before it begins and `note` when it has ended.

A row of the checksums must never speak of another list than its segment's: else a crash looks like a
loss. So the rows of segments that are replaced must be gone, durably, before their files are; and a
segment that is replaced must not be saved any more, by whoever still has it in hand. A list without a row
is believed.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from headwater.log.files import FileSystem
from headwater.record.batch import BatchHeader
from headwater.record.errors import CorruptBatch

if TYPE_CHECKING:
    from headwater.log.segment import Segment

SUFFIX = ".txnindex"
CHECKSUMS = "txnindex-checksums"
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


class Checksum(NamedTuple):
    """Of the first entries of a segment's file."""

    entries: int
    crc: int


def checksum(data: bytes) -> Checksum:
    return Checksum(len(data) // ENTRY_BYTES, crc32c(data))


def check(data: bytes | None, known: Checksum) -> None:
    """Raise CorruptBatch unless the file has these entries; more may follow."""
    first = (data or b"")[: known.entries * ENTRY_BYTES]
    if checksum(first) != known:
        raise CorruptBatch(
            f"the {known.entries} aborted transactions that were listed are not there"
        )


def pack_checksums(sums: Mapping[int, Checksum]) -> bytes:
    rows = [f"{base} {each.entries} {each.crc}" for base, each in sorted(sums.items())]
    return "\n".join(["0", str(len(rows)), *rows, ""]).encode()


def unpack_checksums(data: bytes) -> dict[int, Checksum]:
    """What the file says; nothing if it is damaged."""
    lines = data.decode("utf-8", "replace").splitlines()
    rows = [line.split(" ") for line in lines[2:]]
    whole = len(lines) > 1 and lines[:2] == ["0", str(len(rows))]
    if not whole or not all(len(row) == 3 and all(map(_is_number, row)) for row in rows):
        return {}
    return {int(base): Checksum(int(entries), int(crc)) for base, entries, crc in rows}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


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


def among(entries: Iterable[AbortedTransaction]) -> Callable[[BatchHeader], bool]:
    """For compaction and share groups: was the transaction of this batch one of these? Asked of every batch,
    and one producer may have aborted as often as there are batches."""
    by_producer: dict[int, list[tuple[int, int]]] = {}
    for entry in entries:
        spans = by_producer.setdefault(entry.producer_id, [])
        spans.append((entry.first_offset, entry.last_offset))
    firsts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for producer_id, spans in by_producer.items():
        spans.sort()
        firsts[producer_id] = [first for first, _ in spans]
        ends[producer_id] = list(accumulate((last for _, last in spans), max))

    def is_aborted(header: BatchHeader) -> bool:
        begun = bisect_right(firsts.get(header.producer_id, ()), header.base_offset)
        return begun > 0 and header.base_offset < ends[header.producer_id][begun - 1]

    return is_aborted


class TxnIndexes:
    """Of one log's folder. Called from several threads: a commit and an exchange may meet."""

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self._path = directory / CHECKSUMS
        self._changing = threading.Lock()
        self._known: dict[int, tuple[Segment, Checksum]] = {}
        """By base offset: what is written of a segment."""

    def save(self, segments: Sequence[Segment]) -> None:
        """Bring these lists to disk, then what they are checked by; rows of others go."""
        with self._changing:
            replaced, sums = set[int](), self._read()
            for segment in segments:
                if segment.is_replaced:
                    replaced.add(segment.base_offset)
                else:
                    segment.save_aborted()
            kept = {base: each for base, each in sums.items() if base in replaced}
            self._known = {base: each for base, each in self._known.items() if base in sums}
            self._write({**kept, **self._sums(segments)})

    def forget(self, bases: Iterable[int]) -> None:
        """The segments that begin there are about to be replaced."""
        with self._changing:
            sums = self._read()
            for base in bases:
                sums.pop(base, None)
                self._known.pop(base, None)
            self._write(sums)

    def note(self, segments: Iterable[Segment]) -> None:
        """These are in place now."""
        with self._changing:
            self._write({**self._read(), **self._sums(segments)})

    def _read(self) -> dict[int, Checksum]:
        return unpack_checksums(self._files.read_bytes(self._path) or b"")

    def _write(self, sums: Mapping[int, Checksum]) -> None:
        found = self._files.read_bytes(self._path)
        data = pack_checksums(sums)
        if found != data and (sums or found is not None):
            self._files.write_atomic(self._path, data)

    def _sums(self, segments: Iterable[Segment]) -> dict[int, Checksum]:
        """Of what is saved. Lists only grow: one that is as long as it was is not read through again."""
        sums: dict[int, Checksum] = {}
        for segment in segments:
            saved, base = segment.saved_aborted_bytes // ENTRY_BYTES, segment.base_offset
            if saved > 0 and not segment.is_replaced:
                of, known = self._known.get(base, (None, None))
                if of is not segment or known is None or known.entries != saved:
                    known = checksum(pack(segment.aborted[:saved]))  # others may follow meanwhile
                    self._known[base] = (segment, known)
                sums[base] = known
        return sums
