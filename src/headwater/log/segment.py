"""One segment: a `.log` file of record batches with its two sparse indexes.

    00000000000000000000.log        record batches v2, byte for byte as on the wire
    00000000000000000000.index      see `index`
    00000000000000000000.timeindex  see `index`
    00000000000000000000.txnindex   see `aborted_transactions`

The file name is the segment's base offset in twenty digits. `PartitionLog` owns its segments and is
the only caller. A segment is filled in two steps: `stage` gives a batch its place (in memory, by the
log's owner), a `Commit` writes it there (in any thread). So `size` may be ahead of the file, and
readers must stay below the log's durable offset.

Bytes that this process wrote itself are served as they are. Bytes that it found on disk
(`file_position < trusted_from`) must be checked, batch by batch, each time before they are served:
damage is then an error for that reader and never data.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from headwater.log import aborted_transactions
from headwater.log.aborted_list import AbortedList
from headwater.log.checkpoints import OFFSET_MAX, SmallFiles
from headwater.log.confirmation import sync_file
from headwater.log.files import File, FileSystem
from headwater.log.index import INTERVAL_BYTES_MAX, OffsetIndex, TimeIndex
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.errors import CorruptBatch, RecordError

SCAN_BYTES = 256 * 1024
RESYNC_BYTES = 4 * 1024 * 1024
_LOADING = threading.RLock()
"""Held while a descriptor or an index is loaded, and no longer: the event loop may wait for it."""
_REBUILDING = threading.RLock()
"""Held while indexes are made anew, for which all of a segment is read."""
_DIGITS = 20
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_named(name: str, suffix: str) -> int | None:
    """The offset that a file is named by, if `file_name` could have made this name for a log."""
    digits = name.removesuffix(suffix)
    if len(digits) == _DIGITS and digits.isascii() and digits.isdigit() and name == digits + suffix:
        return offset if (offset := int(digits)) <= OFFSET_MAX else None
    return None


class CorruptSegment(CorruptBatch):
    """Damage in stored data: says which file, where, and what to do."""

    def __init__(self, path: Path, file_position: int, offset: int, reason: str) -> None:
        self.path, self.file_position, self.offset = path, file_position, offset
        super().__init__(
            f"{path} is damaged at byte {file_position} (offset {offset} or later): {reason}; "
            f"these records are not served, restore the file or delete records up to the next batch"
        )


def _known(saved: bytes | None, loaded: bytearray) -> int:
    """How many bytes of an index file are right; -1 if it has others behind them."""
    return len(loaded) if saved is not None and len(saved) == len(loaded) else -1


class Segment:
    """A run of offsets in one file."""

    __slots__ = (
        "_file",
        "_index",
        "_times",
        "aborted",
        "base_offset",
        "created_ms",
        "directory",
        "files",
        "first_timestamp",
        "indexed_at",
        "is_new",
        "is_replaced",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "saved_aborted_bytes",
        "saved_at",
        "saved_index_bytes",
        "saved_times_bytes",
        "size",
        "trusted_from",
    )

    def __init__(self, files: FileSystem, directory: Path, base_offset: int, now_ms: int) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.created_ms = now_ms
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.indexed_at = 0
        self.trusted_from = 0
        self.is_new = True
        self.is_replaced = False
        """Another has its place, or soon will: nothing may be saved, opened or removed under its names."""
        self._file: File | None = None
        self._index: OffsetIndex | None = OffsetIndex(base_offset)
        self._times: TimeIndex | None = TimeIndex(base_offset)
        self.saved_index_bytes = -1
        self.saved_times_bytes = -1
        self.aborted = AbortedList()
        """Transactions whose abort marker lies in this segment."""
        self.saved_aborted_bytes = 0
        self.saved_at = 0

    @classmethod
    def found(cls, files: FileSystem, directory: Path, base_offset: int, now_ms: int) -> Segment:
        """A segment whose file exists; its indexes are read when they are first asked for."""
        segment = cls(files, directory, base_offset, now_ms)
        segment.size = segment.trusted_from = files.size(segment.path(".log"))
        segment.is_new = not segment.size  # its name may not be on disk yet
        segment._index = segment._times = None
        return segment

    @classmethod
    def created(cls, files: FileSystem, directory: Path, base_offset: int, now_ms: int) -> Segment:
        """A new one, with its file, so that no other thread has to make it. Raises OSError."""
        segment = cls(files, directory, base_offset, now_ms)
        segment._file = files.open(segment.path(".log"), create=True)
        return segment

    def path(self, suffix: str) -> Path:
        return self.directory / file_name(self.base_offset, suffix)

    # Others may release it at any time: each of these looks once.

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            with _LOADING:
                file = self._file
                if file is None:
                    file = self._file = self.files.open(self.path(".log"), create=self.is_new)
        return file

    @property
    def index(self) -> OffsetIndex:
        index = self._index
        return self._load_indexes()[0] if index is None else index

    @property
    def times(self) -> TimeIndex:
        times = self._times
        return self._load_indexes()[1] if times is None else times

    @property
    def is_loaded(self) -> bool:
        """Whether it is open and its indexes are in memory: to load them, or to make them anew, takes
        more time than an event loop has."""
        return not (self._index is None or self._times is None or self._file is None)

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        with _LOADING:
            index, times = self._index, self._times
            if index is not None and times is not None:
                return index, times
            small = SmallFiles(self.files)
            saved = small.read_bytes(self.path(".index"))
            saved_times = small.read_bytes(self.path(".timeindex"))
            if not self.size or (saved is not None and saved_times is not None):
                index = OffsetIndex.load(self.base_offset, saved or b"", self.size)
                times = TimeIndex.load(self.base_offset, saved_times or b"", self.next_offset)
                self.saved_index_bytes = _known(saved, index.data)
                self.saved_times_bytes = _known(saved_times, times.data)
                self.saved_at = self.size
                if self.saved_times_bytes == len(saved_times or b""):
                    self._index, self._times = index, times
                    return index, times
                # Some of it is not to be believed, and what would be cut may be the latest timestamp.
        return self.rebuild_indexes()

    # ---- filling -------------------------------------------------------------------------------

    def stage(self, header: BatchHeader, base_offset: int, index_interval_bytes: int) -> int:
        """Give a batch the next place; returns its file position."""
        position = self.size
        last_offset = base_offset + header.last_offset_delta
        self.note(header, last_offset)
        self._index_batch(position, last_offset, index_interval_bytes)
        self.size = position + header.size
        self.next_offset = last_offset + 1
        return position

    def note(self, header: BatchHeader, last_offset: int) -> None:
        """Remember the latest timestamp, and the first one, by which the segment's age is told."""
        timestamp = header.max_timestamp
        if not header.record_count:
            return  # compaction left nothing of it
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset

    def note_found(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """Take note of a batch that is in the file already, and index it if it is time."""
        self.note(header, header.last_offset)
        self._index_batch(position, header.last_offset, index_interval_bytes)
        self.next_offset = header.next_offset

    def _index_batch(self, position: int, last_offset: int, interval_bytes: int) -> None:
        if position - self.indexed_at > min(interval_bytes, INTERVAL_BYTES_MAX):
            self.index.add(last_offset, position)
            self.times.add(self.max_timestamp, self.max_timestamp_offset)
            self.indexed_at = position

    def save_indexes(self, *, final: bool = False) -> None:
        """Bring the index files up to date, durably; `final` when nothing will follow."""
        if final and self.max_timestamp >= 0:
            self.times.add(self.max_timestamp, self.max_timestamp_offset)
        size = self.size
        # The time index first: what it may lack then lies behind the last entry of the other.
        self.saved_times_bytes = self._save(".timeindex", self.times.data, self.saved_times_bytes)
        self.saved_index_bytes = self._save(".index", self.index.data, self.saved_index_bytes)
        self.saved_at = size

    def load_aborted(self, known: aborted_transactions.Checksum | None = None) -> None:
        """Read the list of aborted transactions. Raises CorruptBatch."""
        data = self.files.read_bytes(self.path(aborted_transactions.SUFFIX)) or b""
        if known is not None:
            aborted_transactions.check(data, known)
        self.aborted = AbortedList(aborted_transactions.unpack(data, self.base_offset))
        self.saved_aborted_bytes = len(data)

    def save_aborted(self) -> None:
        """Bring the list of aborted transactions to disk, if it has grown."""
        if self.saved_aborted_bytes != len(self.aborted) * aborted_transactions.ENTRY_BYTES:
            data = bytearray(aborted_transactions.pack(self.aborted))
            self.saved_aborted_bytes = self._save(
                aborted_transactions.SUFFIX, data, self.saved_aborted_bytes
            )

    def _save(self, suffix: str, data: bytearray, saved: int) -> int:
        """Write what the file lacks; `saved` bytes of it are known to be right (-1: none, not even
        its length)."""
        length = len(data)
        if saved == length:
            return saved
        file = self.files.open(self.path(suffix), create=True)
        try:
            file.truncate(max(saved, 0))
            if length > max(saved, 0):
                file.write(max(saved, 0), [bytes(data[max(saved, 0) : length])])
            file.sync()  # if it fails, all that is not known to be right is written again
        finally:
            file.close()
        return length

    def forget_saved_indexes(self) -> None:
        """Their files may hold anything: they are made anew when they are needed."""
        self.saved_index_bytes = self.saved_times_bytes = -1
        for suffix in (".index", ".timeindex"):
            self.files.remove(self.path(suffix))

    # ---- reading -------------------------------------------------------------------------------

    def headers(
        self, position: int, end: int, *, checked: bool, piece_bytes: int = SCAN_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the batches in [position, end); raises CorruptSegment where there is none.

        With `checked` every batch's CRC is computed too. Reads in pieces, large ones if not told.
        """
        piece, start = b"", position
        while position < end:
            if position + HEADER_BYTES > start + len(piece):
                piece, start = self.file.read(position, min(piece_bytes, end - position)), position
            try:
                header = batches.read_header(piece, position - start)
                if position + header.size > end:
                    raise CorruptBatch(f"a batch of {header.size} bytes reaches beyond the end")
                if checked:
                    if position + header.size > start + len(piece):
                        wanted = max(header.size, min(SCAN_BYTES, end - position))
                        piece, start = self.file.read(position, wanted), position
                    batches.check_crc(piece, position - start, header)
            except RecordError as error:
                raise self.corrupt(position, str(error)) from error
            yield position, header
            position += header.size

    def next_intact(
        self, position: int, *, gaps: bool, end_offset: int | None = None
    ) -> tuple[int, BatchHeader] | None:
        """The first place from `position` on where a whole and intact batch begins: after damage.

        What follows it must agree with its offsets, which lie outside its checksum. `gaps`: between
        batches offsets may be missing. `end_offset`: where the segment ends, if that is not known yet.
        """
        end_offset = self.next_offset if end_offset is None else end_offset
        while position < self.size:
            data = self.file.read(position, RESYNC_BYTES + HEADER_BYTES)
            at = data.find(b"\x02", 16) - 16  # the magic, the one byte that every header has
            while at >= 0:
                try:
                    header = batches.read_header(data, at)
                    if self.base_offset <= header.base_offset < end_offset:
                        batches.check_crc(self.file.read(position + at, header.size), 0, header)
                        if self._is_followed(position + at, header, gaps, end_offset):
                            return position + at, header
                except RecordError:
                    pass
                at = data.find(b"\x02", at + 17) - 16
            position += RESYNC_BYTES
        return None

    def _is_followed(self, position: int, header: BatchHeader, gaps: bool, end_offset: int) -> bool:
        end = position + header.size
        follows = end_offset
        if end < self.size:
            follows = batches.read_header(self.file.read(end, HEADER_BYTES)).base_offset
        return header.next_offset == follows or (gaps and header.next_offset < follows)

    def corrupt(self, position: int, reason: str) -> CorruptSegment:
        known = self._index
        offset = self.base_offset if known is None else known.floor_position(position)[0]
        return CorruptSegment(self.path(".log"), position, offset, reason)

    def rebuild_indexes(self, index_interval_bytes: int = 4096) -> tuple[OffsetIndex, TimeIndex]:
        """Make both indexes anew from the batches; passes over damage, which readers meet.

        In any thread, while the owner goes on: only what was found on disk is gone through, and nothing
        but the indexes changes, at the end. What the owner adds meanwhile to the old ones is not needed.
        """
        seen = self._index
        with _REBUILDING:
            if self._index is not None and self._index is not seen:
                return self.index, self.times  # somebody else was quicker
            end = self.size if self._index is None else self.trusted_from
            made = Segment(self.files, self.directory, self.base_offset, self.created_ms)
            made._file, made.size = self.file, end
            start: int | None = 0
            while start is not None:
                position = start
                try:
                    for position, header in made.headers(start, end, checked=False):
                        made.note_found(position, header, index_interval_bytes)
                    start = None
                except CorruptBatch:
                    found = made.next_intact(position + 1, gaps=True, end_offset=self.next_offset)
                    start = None if found is None else found[0]
            if self._index is not None and self._times is not None:
                made.index.extend(self._index, end)
                made.times.extend(self._times, made.next_offset)
            if self.max_timestamp < made.max_timestamp:
                self.max_timestamp_offset = made.max_timestamp_offset
                self.max_timestamp = made.max_timestamp
            self.saved_index_bytes = self.saved_times_bytes = -1
            self._index, self._times = made.index, made.times
            return made.index, made.times

    # ---- ending --------------------------------------------------------------------------------

    def truncate(self, file_position: int, next_offset: int) -> None:
        """Cut the file and what the indexes know beyond it, durably."""
        self.file.truncate(file_position)
        sync_file(self.file)
        self.size, self.next_offset = file_position, next_offset
        self.trusted_from = min(self.trusted_from, file_position)
        self.index.truncate(file_position)
        self.times.truncate(next_offset)
        self.saved_index_bytes = self.saved_times_bytes = -1
        self.max_timestamp, self.max_timestamp_offset = self.times.last()
        if not file_position:
            self.first_timestamp = None
        _, position = self.index.floor(next_offset)
        self.indexed_at = position
        for _, header in self.headers(position, file_position, checked=False):
            self.note(header, header.last_offset)
        try:
            self.save_indexes()
        except OSError:  # a full disk: better none than wrong ones
            self.forget_saved_indexes()

    def remove(self) -> None:
        """Delete the files. The caller syncs the folder."""
        self.close()
        for suffix in SUFFIXES:
            self.files.remove(self.path(suffix))

    def release(self) -> None:
        """Give back the descriptor and the loaded indexes of a sealed segment nobody reads."""
        self.close()
        if self.saved_at == self.size:
            self._index = self._times = None

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
