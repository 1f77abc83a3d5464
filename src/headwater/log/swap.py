"""Replacing segment files so that a crash leaves either the old or the new ones.

Compaction calls `decide` and `finish` one after the other; recovery calls `tidy` before it looks at
anything else. The suffixes are Kafka's, and Kafka would finish or forget such a folder the same way:

    ….log.cleaned   written and synced, does not count yet; a start forgets it
    ….log.swap      counts: it replaces every segment that begins within its offsets; a start finishes
    ….log.deleted   on its way out; a start removes it

Each suffix applies to `.index`, `.timeindex` and `.txnindex` alike. What a crash does to names that
are not synced is anyone's guess, so each step must be synced before the next one relies on it:

    1  indexes  .cleaned → .swap             nothing is decided: the .log is still .cleaned
    2  .log     .cleaned → .swap             decides; segment after segment in the order of offsets
    3  old segments behind the new base go   the .log.swap still tells which ones
       indexes  .swap → final name           over the old ones; the .log.swap still tells of them
    4  .log     .swap → final name

The order in step 2 matters: a tombstone must not go before the older values that it deletes.
A new segment must have a `.txnindex` if one of the old ones had it, even an empty one, because
step 3 only replaces. And it must end with the last batch of what it replaces (without records, if
need be): that is how a start knows the offsets that it covers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.log.confirmation import sync_folder
from headwater.log.files import FileSystem
from headwater.log.index import OffsetIndex
from headwater.log.segment import SUFFIXES, file_name, offset_named
from headwater.record import batch as batches
from headwater.record.errors import RecordError

logger = logging.getLogger("headwater.log")

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
_LOG = ".log"
_INDEXES = tuple(suffix for suffix in SUFFIXES if suffix != _LOG)


def tidy(files: FileSystem, directory: Path) -> None:
    """Undo or finish what a crash interrupted. May itself be interrupted and repeated."""
    names = files.list(directory)
    if not any(name.endswith((CLEANED, SWAP, DELETED, ".tmp")) for name in names):
        return
    decided = sorted(int(name[:20]) for name in names if _is_segment_file(name, _LOG + SWAP))
    finish(files, directory, {base: _end_of_swap(files, directory, base) for base in decided})
    for name in files.list(directory):
        if name.endswith((CLEANED, SWAP, DELETED, ".tmp")):
            files.remove(directory / name)


def cleaned_path(directory: Path, base_offset: int, suffix: str) -> Path:
    return directory / file_name(base_offset, suffix + CLEANED)


def is_decided(files: FileSystem, directory: Path) -> bool:
    """Whether a swap has begun and not ended: then only `tidy` may go on."""
    return any(_is_segment_file(name, _LOG + SWAP) for name in files.list(directory))


def forget(files: FileSystem, directory: Path) -> None:
    """Remove `.cleaned` files that are not wanted (any more)."""
    for name in files.list(directory):
        if name.endswith(CLEANED):
            files.remove(directory / name)


def decide(files: FileSystem, directory: Path, bases: Sequence[int]) -> None:
    """Make the durable `.cleaned` files of these segments the ones that count."""
    if not bases:
        return
    names = set(files.list(directory))
    for base in bases:
        for suffix in _INDEXES:
            if file_name(base, suffix + CLEANED) in names:
                _rename(files, directory, base, suffix + CLEANED, suffix + SWAP)
    sync_folder(files, directory)
    for base in sorted(bases):
        _rename(files, directory, base, _LOG + CLEANED, _LOG + SWAP)
        sync_folder(files, directory)


def finish(files: FileSystem, directory: Path, ends: Mapping[int, int]) -> None:
    """Put what was decided in place. `ends`: base offset → the offset at which its coverage ends."""
    if not ends:
        return
    for name in files.list(directory):
        if _is_segment_file(name, *SUFFIXES) and _is_covered(int(name[:20]), ends):
            files.remove(directory / name)
    names = set(files.list(directory))
    for base in ends:
        for suffix in _INDEXES:
            if file_name(base, suffix + SWAP) in names:
                _rename(files, directory, base, suffix + SWAP, suffix)
    sync_folder(files, directory)
    for base in ends:
        _rename(files, directory, base, _LOG + SWAP, _LOG)
    sync_folder(files, directory)


def _is_segment_file(name: str, *suffixes: str) -> bool:
    return any(offset_named(name, suffix) is not None for suffix in suffixes)


def _is_covered(offset: int, ends: Mapping[int, int]) -> bool:
    return any(base < offset < end for base, end in ends.items())


def _rename(files: FileSystem, directory: Path, base: int, old: str, new: str) -> None:
    files.rename(directory / file_name(base, old), directory / file_name(base, new))


def _end_of_swap(files: FileSystem, directory: Path, base: int) -> int:
    """The offset after the last batch of a `.log.swap`, looked for from its last index entry on."""
    path = directory / file_name(base, _LOG + SWAP)
    size = files.size(path)
    data = files.read_bytes(directory / file_name(base, ".index" + SWAP))
    if data is None:  # step 3 has been here
        data = files.read_bytes(directory / file_name(base, ".index")) or b""
    index = OffsetIndex.load(base, data, size)
    end, position = index.entry(len(index) - 1) if len(index) else (base, 0)
    file = files.open(path)
    try:
        while position < size:
            header = batches.read_header(file.read(position, batches.HEADER_BYTES))
            end, position = header.next_offset, position + header.size
    except RecordError as error:
        logger.error("%s is damaged at byte %d: %s", path, position, error)
    finally:
        file.close()
    return end
