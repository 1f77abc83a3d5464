"""The files that a compaction writes: one segment with its indexes, all called `.cleaned`.

`compactor.compact` fills one of these for each group of segments. The indexes are made by `Segment`,
so that they follow the same rules as those of a segment that was filled by appending.

An entry of the `.txnindex` (see `aborted_transactions`) must go when its marker goes: a reader that is told
of an abort leaves records out until it meets the marker. It must stay as long as the marker does, so the
entries come from the log's owner and not from the old files, which a full disk may have left behind. And it
must stay if its marker was lost with a segment behind the last of the sources (`lost_segments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.log import aborted_transactions
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.compaction_plan import Made, Source
from headwater.log.files import FileSystem
from headwater.log.segment import Segment, file_name
from headwater.log.swap import cleaned_path
from headwater.record.batch import BatchHeader, Buffer

WRITE_BYTES = 1024 * 1024
FILE_BYTES_MAX = 2**31 - 1
"""File positions in the index are int32."""


class CannotCompact(Exception):
    """The plan cannot be carried out, and no damage is the reason; says why."""


class CleanedSegment:
    """Filled batch after batch, then finished or discarded."""

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        sources: Sequence[Source],
        index_interval_bytes: int,
        transactions: Sequence[AbortedTransaction] = (),
    ) -> None:
        """`transactions`: at least those aborted ones whose markers lie in the sources, or in a hole behind
        the last of them; behind another there must be none."""
        self.size = 0
        self._files = files
        self._directory = directory
        self._sources = sources
        self._base_offset = sources[0].base_offset
        self._index_interval_bytes = index_interval_bytes
        self._transactions = transactions
        self._indexed = Segment(files, directory, self._base_offset, 0)
        self._markers: set[int] = set()
        self._unwritten: list[Buffer] = []
        self._written = self._unwritten_bytes = 0
        self._file = files.open(self._path(".log"), create=True)

    def _path(self, suffix: str) -> Path:
        return cleaned_path(self._directory, self._base_offset, suffix)

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """The next batch, whose header this is."""
        if header.is_control and header.record_count:
            self._markers.add(header.last_offset)
        self._indexed.note_found(self.size, header, self._index_interval_bytes)
        self.size += header.size
        if self.size > FILE_BYTES_MAX:
            raise CannotCompact(f"{self._path('.log')} would exceed {FILE_BYTES_MAX} bytes")
        self._unwritten.append(batch)
        self._unwritten_bytes += header.size
        if self._unwritten_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self._file.write(self._written, self._unwritten)
        self._written += self._unwritten_bytes
        self._unwritten, self._unwritten_bytes = [], 0

    def finish(self) -> Made:
        """Everything is on disk afterwards, except the files' names: for those, sync the folder."""
        self._write()
        self._file.sync()
        latest = (self._indexed.max_timestamp, self._indexed.max_timestamp_offset)
        self._indexed.times.add(*latest)
        self._save(".index", bytes(self._indexed.index.data))
        self._save(".timeindex", bytes(self._indexed.times.data))
        hole = range(self._indexed.next_offset, self._sources[-1].next_offset)
        kept = [
            each
            for each in self._transactions
            if each.last_offset in self._markers or each.last_offset in hole
        ]
        if kept or self._had_transactions():
            self._save(aborted_transactions.SUFFIX, aborted_transactions.pack(kept))
        return Made(
            self._base_offset,
            self._sources[-1].next_offset,
            self.size,
            *latest,
            tuple(source.base_offset for source in self._sources),
        )

    def _save(self, suffix: str, data: bytes) -> None:
        file = self._files.open(self._path(suffix), create=True)
        try:
            if data:
                file.write(0, [data])
            file.sync()
        finally:
            file.close()

    def _had_transactions(self) -> bool:
        """Then there must be a file again, even an empty one: see `swap`."""
        names = (
            file_name(source.base_offset, aborted_transactions.SUFFIX) for source in self._sources
        )
        return any(self._files.read_bytes(self._directory / name) is not None for name in names)

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        """Nothing of it is wanted."""
        self._files.remove(self._path(".log"))
