"""What a log knows of its producers and of aborted transactions, read when it is opened; `recovery` calls it.

A snapshot beside the segments has what was known at an offset; the headers behind it tell the rest.
"""

from __future__ import annotations

import logging
from pathlib import Path

from headwater.log import aborted_transactions, lookup
from headwater.log.aborted_transactions import TxnIndexes
from headwater.log.checkpoints import SmallFiles, is_about_the_file
from headwater.log.confirmation import sync_folder
from headwater.log.files import FileSystem
from headwater.log.producers import Producers
from headwater.log.segment import Segment, offset_named
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.errors import RecordError

logger = logging.getLogger("headwater.log")


def load_producers(
    files: FileSystem,
    small: SmallFiles,
    directory: Path,
    segments: list[Segment],
    end: int,
    clean: bool,
    now_ms: int,
) -> Producers:
    """A snapshot that fits, and what the log says since. When that was written nobody knows, so it counts
    as new: a producer may stamp its records in the distant past, and be about to repeat the last.

    A snapshot has only the last batch of each producer, but a client may be about to repeat any of
    its last five. So after a crash the older of the two snapshots is taken, and the rest is read.
    """
    producers, offset = Producers(), segments[0].base_offset
    found = _fitting_snapshots(files, small, directory, end)
    usable = [snapshot for snapshot in found if snapshot[0] >= offset]  # else a part is gone
    if usable:
        offset, producers = usable[0] if clean or len(usable) == 1 else usable[1]
    if not _load_aborted(files, small, directory, segments, offset):
        producers, offset = Producers(), segments[0].base_offset
    for segment in segments:
        if segment.next_offset > offset:
            _replay_producers(segment, offset, producers, now_ms)
    TxnIndexes(files, directory).save(segments)
    return producers


def _load_aborted(
    files: FileSystem, small: SmallFiles, directory: Path, segments: list[Segment], offset: int
) -> bool:
    """Read which transactions were aborted before `offset`; the log tells what came later.

    False if that cannot be read: then all of it is to be found in the log again.
    """
    names = set(files.list(directory))
    sums = aborted_transactions.unpack_checksums(
        small.read_bytes(directory / aborted_transactions.CHECKSUMS) or b""
    )
    listed = [
        s
        for s in segments
        if s.path(aborted_transactions.SUFFIX).name in names or s.base_offset in sums
    ]
    try:
        for segment in listed:
            segment.load_aborted(before=offset, known=sums.get(segment.base_offset))
        return True
    except (RecordError, OSError) as error:
        if isinstance(error, OSError):
            if not is_about_the_file(error):
                raise
            _give_up_lists(files, small, directory, listed)
        logger.error("%s: aborted transactions are looked for again: %s", directory, error)
        for segment in listed:
            segment.aborted, segment.saved_aborted_bytes = [], -1
        return False


def _give_up_lists(
    files: FileSystem, small: SmallFiles, directory: Path, listed: list[Segment]
) -> None:
    """A list that cannot be read may be set aside. Until it is made anew no snapshot must be there: a
    start that believes one does not look for what was aborted before it."""
    for name in files.list(directory):
        if name.endswith(".snapshot"):
            files.remove(directory / name)
    sync_folder(files, directory)
    for segment in listed:
        small.read_bytes(segment.path(aborted_transactions.SUFFIX))


def _fitting_snapshots(
    files: FileSystem, small: SmallFiles, directory: Path, end: int
) -> list[tuple[int, Producers]]:
    """Newest first; those that are damaged or beyond the end are removed."""
    fitting: list[tuple[int, Producers]] = []
    for name in reversed([n for n in files.list(directory) if n.endswith(".snapshot")]):
        taken_at = offset_named(name, ".snapshot")
        found = Producers.from_bytes(small.read_bytes(directory / name) or b"")
        if found is None or taken_at is None or taken_at > end:
            files.remove(directory / name)
            sync_folder(files, directory)  # it must not come back once the log is longer than that
        else:
            fitting.append((taken_at, found))
    return fitting


def _replay_producers(segment: Segment, offset: int, producers: Producers, now_ms: int) -> None:
    """Goes around damage: a marker behind it ends what was begun before it."""
    position: int | None = lookup.floor(segment, offset)[1]
    while position is not None:
        at = position
        try:
            for at, header in segment.headers(position, segment.size, checked=False):
                if header.base_offset >= offset and header.producer_id >= 0:
                    _replay_batch(segment, at, header, producers)
                    producers.seen(header.producer_id, now_ms)
            return
        except RecordError as error:
            logger.error("%s: producers may be forgotten: %s", segment.path(".log"), error)
            beyond = segment.next_intact(at + 1, gaps=True)
            position = None if beyond is None else beyond[0]


def _replay_batch(segment: Segment, at: int, header: BatchHeader, producers: Producers) -> None:
    if not header.is_control:
        producers.update(header, header.base_offset)
    elif header.record_count:
        marker = control.read_marker(segment.file.read(at, header.size))
        producers.end(header, marker, header.base_offset, segment.aborted)
    else:  # compaction has emptied it: its transaction is gone, and it stayed for its producer's epoch
        producers.note_epoch(header)
