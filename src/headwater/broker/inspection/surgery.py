"""Carrying out remedies: the only file of this package that changes a data folder.

`repair` calls `Surgeon.carry_out`. Every step must leave a folder that a broker can start on and that an
inspection can take up again, wherever it is interrupted: what is new is written whole under another name
and synced, what is old gets a second name in `aside`, and only then one rename puts the new in its place.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from headwater.broker.inspection.aside import Aside
from headwater.broker.inspection.reader import PIECE_BYTES, Reader
from headwater.broker.inspection.remedy import (
    CutTail,
    Edit,
    EditSegment,
    FillHole,
    MoveAside,
    RebuildIndexes,
    Remedy,
    RenameFolder,
    SetCheckpoint,
    WriteAborted,
    WriteCatalogue,
    WriteEpochs,
    WriteMeta,
    WriteTopicId,
    in_order,
    target_of,
)
from headwater.broker.inspection.writer import append_records, empty_batch
from headwater.log import aborted_transactions, checkpoints, swap
from headwater.log.checkpoints import SmallFiles, TopicPartition
from headwater.log.files import Files, FileSystem
from headwater.log.segment import Segment, file_name
from headwater.log.store import CLEAN
from headwater.log.worker import alone
from headwater.record.varint import Buffer

_OFFSETS_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that the disk refused."""

    remedy: Remedy
    why: str


class Surgeon:
    """Works on one data folder that nobody else uses."""

    def __init__(
        self, root: Path, aside: Aside, now_ms: int, files: FileSystem | None = None
    ) -> None:
        self.done: list[Remedy] = []
        self.failed: list[Failure] = []
        self._root = root
        self._aside = aside
        self._now_ms = now_ms
        self._files = files or Files()

    def carry_out(self, remedies: Iterable[Remedy]) -> None:
        """In the order of their stages; one that fails is told, and the others go on."""
        ordered = in_order(remedies)
        edits: dict[tuple[Path, int], list[EditSegment]] = {}
        catalogue = [each for each in ordered if isinstance(each, WriteCatalogue)]
        for each in ordered:
            if isinstance(each, EditSegment):
                edits.setdefault((each.directory, each.base_offset), []).append(each)
        # The next start must look at the ends of the logs, whatever the last stop was like.
        self._aside.move(self._root / CLEAN)
        for each in ordered:
            if isinstance(each, EditSegment):
                group = edits.pop((each.directory, each.base_offset), [])
                self._try(group, partial(self._edit_segment, group))
            elif not isinstance(each, WriteCatalogue):
                self._try([each], partial(self._one, each))
        if catalogue:
            self._try(catalogue, partial(self._write_catalogue, catalogue))

    def _try(self, found: Sequence[Remedy], step: Callable[[], None]) -> None:
        if not found:
            return
        for each in found:
            self._aside.note(
                {"step": type(each).__name__, "does": each.says, "to": target_of(each)}
            )
        try:
            step()
        except OSError as error:
            self.failed += [Failure(each, error.strerror or str(error)) for each in found]
            self._aside.note({"failed": str(error)})
        else:
            self.done += found

    def _one(self, remedy: Remedy) -> None:
        match remedy:
            case MoveAside():
                for path in remedy.paths:
                    self._aside.move(path)
            case RenameFolder():
                if any(remedy.new.glob("*.log")):  # a start has written down where this one begins
                    first = min((path.name[:20] for path in remedy.old.glob("*.log")), default="0")
                    path = self._root / checkpoints.START_OFFSETS
                    self._set(path, _key(remedy.new), int(first) or None)
                self._aside.move(remedy.new)
                self._files.rename(remedy.old, remedy.new)
                self._files.sync_dir(self._root)
            case WriteTopicId():
                self._aside.keep(remedy.directory / checkpoints.PARTITION_METADATA)
                self._files.make_dir(remedy.directory)
                checkpoints.write_topic_id(self._files, remedy.directory, remedy.topic_id)
            case CutTail():
                self._cut(remedy)
            case FillHole():
                self._fill(remedy)
            case RebuildIndexes():
                self._tidied(remedy.directory)
                self._rebuild_indexes(remedy.directory, remedy.base_offset)
            case WriteAborted():
                path = remedy.directory / file_name(remedy.base_offset, aborted_transactions.SUFFIX)
                self._aside.keep(path)
                self._aside.move(remedy.directory / aborted_transactions.CHECKSUMS)  # made anew
                self._files.write_atomic(path, remedy.data)
            case WriteEpochs():
                self._aside.keep(remedy.directory / checkpoints.LEADER_EPOCHS)
                checkpoints.write_epochs(self._files, remedy.directory, remedy.epochs)
            case WriteMeta():
                self._aside.keep(remedy.path)
                self._files.write_atomic(remedy.path, remedy.data)
            case SetCheckpoint():
                self._set(remedy.path, remedy.key, remedy.offset)
            case _:
                raise AssertionError(f"nobody knows how to carry out {remedy}")

    # ---- segments ------------------------------------------------------------------------------

    def _tidied(self, directory: Path) -> None:
        """Finish what a compaction has left half-way, as a start would: then names are final."""
        if swap.is_decided(self._files, directory):
            for name in self._files.list(directory):  # it removes what was replaced
                self._aside.keep(directory / name)
            swap.tidy(self._files, directory)

    def _edit_segment(self, group: list[EditSegment]) -> None:
        directory, base = group[0].directory, group[0].base_offset
        self._tidied(directory)
        path = directory / file_name(base, ".log")
        fresh = path.with_name(path.name + swap.CLEANED)
        edits = sorted((each.edit for each in group), key=lambda edit: (edit.start, edit.end))
        with alone(directory), Reader(path) as reader, fresh.open("wb") as out:
            position = 0
            for edit in edits:
                if edit.start < position:
                    continue  # two findings about the same bytes: the first has dealt with them
                _copy(reader, out, position, edit.start)
                _apply(reader, out, edit)
                position = edit.end
            _copy(reader, out, position, reader.size)
            out.flush()
            os.fsync(out.fileno())
        self._aside.keep(path)
        self._move_indexes(directory, base)
        self._files.rename(fresh, path)
        self._files.sync_dir(directory)
        self._rebuild_indexes(directory, base)
        self._let_gaps_be(directory, base)

    def _cut(self, remedy: CutTail) -> None:
        self._tidied(remedy.directory)
        path = remedy.directory / file_name(remedy.base_offset, ".log")
        with Reader(path) as reader:
            if reader.size <= remedy.file_position:
                return
            tail = _pieces(reader, remedy.file_position, reader.size)
            self._aside.save(path, f".from-byte-{remedy.file_position}", tail)
        self._move_indexes(remedy.directory, remedy.base_offset)
        with closing(self._files.open(path)) as file:
            file.truncate(remedy.file_position)
            file.sync()
        self._rebuild_indexes(remedy.directory, remedy.base_offset)

    def _fill(self, remedy: FillHole) -> None:
        self._files.make_dir(remedy.directory)
        self._tidied(remedy.directory)
        first = remedy.first_offset
        while first < remedy.next_offset:
            end = min(remedy.next_offset, first + _OFFSETS_MAX)
            path = remedy.directory / file_name(first, ".log")
            if path.exists() and path.stat().st_size:
                raise FileExistsError(errno.EEXIST, f"{path.name} is there, and is not empty")
            self._aside.move(path)
            self._move_indexes(remedy.directory, first)
            data = remedy.batch or empty_batch(first, end, remedy.leader_epoch)
            self._files.write_atomic(path, data)
            self._rebuild_indexes(remedy.directory, first)
            first = end
        self._let_gaps_be(remedy.directory, remedy.first_offset)

    def _move_indexes(self, directory: Path, base_offset: int) -> None:
        """A segment without indexes is right: they are made from it. One with others' is not."""
        for suffix in (".index", ".timeindex"):
            self._aside.move(directory / file_name(base_offset, suffix))

    def _rebuild_indexes(self, directory: Path, base_offset: int) -> None:
        self._move_indexes(directory, base_offset)
        segment = Segment.found(self._files, directory, base_offset, self._now_ms)
        segment.next_offset = base_offset + 2**31
        try:
            segment.rebuild_indexes()
            segment.save_indexes(final=True)
        finally:
            segment.close()
        self._files.sync_dir(directory)

    def _let_gaps_be(self, directory: Path, base_offset: int) -> None:
        """Clients want at least one record in an answer: where a partition has gone through the cleaner,
        the broker sees to that, and reads on behind empty batches.

        From the mended segment on the log is dirty: compaction went around the damage, so a key may be
        in there that is elsewhere, too, and a tombstone must not go before the value it deletes.
        """
        known = checkpoints.read_cleaned_offset(SmallFiles(self._files), directory) or 0
        wanted = max(min(known, base_offset), 1)
        self._aside.keep(directory / checkpoints.CLEANED_OFFSET)
        checkpoints.write_cleaned_offset(self._files, directory, wanted)
        self._set(self._root / checkpoints.CLEANED_OFFSETS, _key(directory), wanted)

    # ---- what speaks for all partitions --------------------------------------------------------

    def _set(self, path: Path, key: TopicPartition, offset: int | None) -> None:
        offsets = {**checkpoints.read_offsets(self._files, path), key: offset or 0}
        if offset is None:
            del offsets[key]
        self._aside.keep(path)
        if path.name == checkpoints.START_OFFSETS:  # which counts only without the log's own
            self._aside.move(self._root / f"{key[0]}-{key[1]}" / checkpoints.START_OFFSET)
        checkpoints.write_offsets(self._files, path, offsets)

    def _write_catalogue(self, remedies: list[WriteCatalogue]) -> None:
        directory = remedies[0].directory
        found = {key: value for each in remedies for key, value in each.records}
        if not directory.exists():
            for name in (checkpoints.RECOVERY_POINTS, checkpoints.START_OFFSETS):
                self._set(self._root / name, _key(directory), None)  # of the one that is gone
        recovery = checkpoints.read_offsets(self._files, self._root / checkpoints.RECOVERY_POINTS)
        append_records(
            self._files, directory, found, recovery.get(_key(directory), 0), self._now_ms
        )


def _key(directory: Path) -> TopicPartition:
    topic, _, number = directory.name.rpartition("-")
    return topic, int(number)


def _pieces(reader: Reader, position: int, end: int) -> Iterator[Buffer]:
    while position < end:
        data = reader.get(position, min(PIECE_BYTES, end - position))
        yield data
        position += len(data)


def _copy(reader: Reader, out: BinaryIO, position: int, end: int) -> None:
    for data in _pieces(reader, position, end):
        out.write(data)


def _apply(reader: Reader, out: BinaryIO, edit: Edit) -> None:
    if edit.header is not None:
        out.write(edit.header)
        _copy(reader, out, edit.start + len(edit.header), edit.end)
    elif edit.first_offset < edit.next_offset:
        place = (edit.first_offset, edit.next_offset, edit.leader_epoch)
        out.write(edit.batch or empty_batch(*place))
