"""One partition's folder: which files it has, how far it promised to be, then its segments.

`check` calls `inspect` for every partition. The small files beside the segments are judged here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headwater.broker import internal_topics
from headwater.broker.inspection import epochs
from headwater.broker.inspection.damage import Damage
from headwater.broker.inspection.facts import Facts, Place, Promise
from headwater.broker.inspection.finding import Finding, Severity
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.reader import Reader
from headwater.broker.inspection.remedy import FillHole, MoveAside, Remedy, SetCheckpoint
from headwater.broker.inspection.segments import (
    Options,
    SegmentFile,
    Segments,
    Visitor,
    unreadable,
)
from headwater.log import checkpoints
from headwater.log.files import Files
from headwater.log.producers import Producers
from headwater.log.segment import SUFFIXES, file_name
from headwater.log.swap import CLEANED, DELETED, SWAP
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES
from headwater.record.errors import RecordError

SNAPSHOT = ".snapshot"
_KNOWN = (checkpoints.LEADER_EPOCHS, checkpoints.PARTITION_METADATA, checkpoints.DURABLE_OFFSET)


def facts_of(folder: Folder, place: Place, *, gaps: bool) -> Facts:
    """What the checkpoints say of a partition, before its segments are looked at."""
    recovery = folder.offsets.get(checkpoints.RECOVERY_POINTS, {})
    durable, is_valid = _durable_offset(place.directory)
    if place.topic == internal_topics.CATALOGUE and not is_valid:
        durable = _told_otherwise(place.directory)
    promise = Promise(
        max(recovery.get(place.key, 0), durable),
        is_valid or (folder.is_clean and place.key in recovery),
        folder.is_clean,
    )
    facts = Facts(place, promise, folder.offset(checkpoints.START_OFFSETS, place.key))
    facts.gaps = gaps or folder.offset(checkpoints.CLEANED_OFFSETS, place.key) > 0
    try:
        facts.topic_id = checkpoints.read_topic_id(Files(), place.directory)
    except OSError:
        facts.was_read = False
    return facts


def _durable_offset(directory: Path) -> tuple[int, bool]:
    try:
        data = (directory / checkpoints.DURABLE_OFFSET).read_bytes()
    except OSError:
        return 0, False
    offset = checkpoints.read_durable_offset(Files(), directory)
    return offset, data == checkpoints.pack_durable_offset(offset)


def _told_otherwise(directory: Path) -> int:
    """How far the catalogue was by the other files beside it; a start believes these, too."""
    try:
        known = checkpoints.read_epochs(Files(), directory)
        names = [path.name for path in directory.iterdir() if path.name.endswith(SNAPSHOT)]
    except OSError:
        return 0
    offsets = [int(name[:20]) for name in names if name[:20].isdigit()]
    return max(known[-1][1] if known else 0, *offsets, 0)


class PartitionCheck:
    """Everything in one partition's folder."""

    def __init__(
        self, folder: Folder, facts: Facts, options: Options, visit: Visitor | None
    ) -> None:
        self._folder = folder
        self._facts = facts
        self._options = options
        self._visit = visit
        self._place = facts.place

    def run(self) -> Iterator[Finding]:
        facts, directory = self._facts, self._place.directory
        try:
            names = sorted(path.name for path in directory.iterdir())
        except OSError as error:
            facts.was_read = False
            yield unreadable(facts, directory, error)
            return
        yield from self._small_files(names)
        snapshots = [*self._snapshots(names)]
        yield from (each for each in snapshots if isinstance(each, Finding))
        offsets = [each for each in snapshots if isinstance(each, int)]
        files = [*_segments(directory, names)]
        yield from self._start_nonsense(files)
        while len(files) > 1 and files[1].base_offset <= facts.start_offset:
            files.pop(0)  # removed by retention, or about to be
        options = replace(self._options, aborted_before=self._aborted_before(offsets))
        yield from Segments(facts, options, self._visit).run(files)
        yield from self._ends(files)
        yield from self._snapshots_beyond(offsets)
        yield from self._leader_epochs()
        yield from self._remarks()

    # ---- the files -----------------------------------------------------------------------------

    def _small_files(self, names: list[str]) -> Iterator[Finding]:
        directory = self._place.directory
        for name in names:
            path = directory / name
            digits, suffix = name[:20], name[20:]
            if digits.isdigit() and suffix in (*SUFFIXES, SNAPSHOT):
                if not os.access(path, os.R_OK):
                    yield unreadable(self._facts, path, PermissionError(13, "Permission denied"))
                elif suffix in SUFFIXES[1:] and not self._has_segment(names, digits):
                    yield self._finding(
                        name,
                        "orphan-index",
                        Severity.NOTE,
                        "an index without its segment",
                        "nobody notices; the next start removes it",
                        remedy=MoveAside("put it aside", (path,)),
                    )
            elif name.endswith((CLEANED, SWAP, DELETED, ".tmp")):
                yield self._leftover(name)
            elif name == checkpoints.DURABLE_OFFSET:
                yield from self._durable_file(path)
            elif name.endswith(".damaged") and digits[:1].isdigit():
                yield self._finding(
                    name,
                    "damaged-copy",
                    Severity.NOTE,
                    "a copy of damaged bytes that the broker has put aside",
                    "nobody reads it; it may be deleted once the records are no longer wanted",
                )
            elif name not in _KNOWN:
                yield self._finding(
                    name,
                    "unknown-file",
                    Severity.NOTE,
                    "no file of a partition has this name",
                    "nobody reads it",
                )

    @staticmethod
    def _has_segment(names: list[str], digits: str) -> bool:
        return f"{digits}.log" in names or f"{digits}.log{SWAP}" in names

    def _leftover(self, name: str) -> Finding:
        means = {
            SWAP: "a compaction was interrupted after it was decided; the next start finishes it",
            CLEANED: "a compaction was interrupted before it counted; the next start forgets it",
        }.get(name[name.rfind(".") :], "it was on its way out; the next start removes it")
        return self._finding(name, "leftover", Severity.NOTE, "left over from a crash", means)

    def _durable_file(self, path: Path) -> Iterator[Finding]:
        try:
            data = path.read_bytes()
        except OSError as error:
            yield unreadable(self._facts, path, error)
            return
        if data and not _durable_offset(self._place.directory)[1]:
            yield self._finding(
                path.name,
                "durable-offset-damaged",
                Severity.NUISANCE,
                "it does not have the checksum that it must have",
                "after a crash a start cannot tell how much was acknowledged; what the log itself "
                "shows counts",
                remedy=MoveAside("put it aside; it is written again", (path,)),
            )

    def _snapshots(self, names: list[str]) -> Iterator[Finding | int]:
        """Offsets of the producers' snapshots that count; findings about the others."""
        for name in names:
            if not name.endswith(SNAPSHOT):
                continue
            path = self._place.directory / name
            try:
                found = Producers.from_bytes(path.read_bytes())
            except OSError as error:
                yield unreadable(self._facts, path, error)
                continue
            if found is None or not name[:20].isdigit():
                yield self._finding(
                    name,
                    "snapshot-damaged",
                    Severity.NUISANCE,
                    "this snapshot of the producers cannot be read",
                    "the next start reads more of the log instead",
                    remedy=MoveAside("put it aside", (path,)),
                )
                continue
            self._facts.producer_id_max = max(self._facts.producer_id_max, *found.by_id, -1)
            yield int(name[:20])

    def _snapshots_beyond(self, snapshots: list[int]) -> Iterator[Finding]:
        """A snapshot of a time that the log has not come to."""
        facts = self._facts
        for offset in snapshots:
            if facts.was_read and offset > facts.end_offset:
                name = file_name(offset, SNAPSHOT)
                yield self._finding(
                    name,
                    "snapshot-beyond-end",
                    Severity.NUISANCE,
                    f"a snapshot of the producers at offset {offset}; the log ends at {facts.end_offset}",
                    "the next start removes it, and reads more of the log instead",
                    remedy=MoveAside("put it aside", (self._place.directory / name,)),
                )

    def _aborted_before(self, snapshots: list[int]) -> int:
        """Markers below the snapshot that a start takes are not looked for again."""
        usable = sorted(snapshots, reverse=True)
        if not usable:
            return 0
        return usable[0] if self._folder.is_clean or len(usable) == 1 else usable[1]

    # ---- how far it is -------------------------------------------------------------------------

    def _start_nonsense(self, files: list[SegmentFile]) -> Iterator[Finding]:
        """A start offset beyond everything makes the next start drop all records."""
        facts = self._facts
        if not files or facts.start_offset <= facts.promise.offset:
            return
        if facts.start_offset <= files[-1].base_offset or not files[-1].path.stat().st_size:
            return
        end = _end_by_headers(files[-1])
        if facts.start_offset <= end:
            return
        right = files[0].base_offset
        yield self._finding(
            "",
            "start-beyond-end",
            Severity.DAMAGE,
            f"{checkpoints.START_OFFSETS} lets it begin at offset {facts.start_offset}, but it ends "
            f"at {end}",
            "the next start would drop every record of this partition",
            remedy=SetCheckpoint(
                f"let it begin at offset {right}",
                self._folder.root / checkpoints.START_OFFSETS,
                self._place.key,
                right or None,
            ),
        )
        facts.start_offset = right

    def _ends(self, files: list[SegmentFile]) -> Iterator[Finding]:
        facts = self._facts
        if not files:
            facts.first_offset = facts.end_offset = facts.start_offset
        promised = max(facts.promise.offset, facts.start_offset)
        if facts.was_read and facts.end_offset < promised:
            epoch = facts.epoch_runs[-1].epoch if facts.epoch_runs else 0
            yield Damage(facts).gap(facts.end_offset, promised, epoch)
            facts.end_offset = promised
        if (
            facts.was_read
            and facts.start_offset < facts.first_offset
            and not self._folder.is_kafkas
        ):
            # Retention writes down where a partition begins before it removes anything.
            is_told = checkpoints.START_OFFSETS in self._folder.offsets
            gone = (
                "these records are gone unless there is a copy elsewhere; readers begin behind them"
            )
            yield self._finding(
                "",
                "records-missing",
                Severity.LOSS if is_told else Severity.DAMAGE,
                f"no segment has the offsets {facts.start_offset} to {facts.first_offset - 1}, "
                f"with which the partition should begin",
                gone
                if is_told
                else f"either {gone}; or retention had removed them, and the file that says so, "
                f"{checkpoints.START_OFFSETS}, is gone",
                first_offset=facts.start_offset,
                last_offset=facts.first_offset - 1,
                remedy=self._begin_later(),
            )

    def _begin_later(self) -> Remedy:
        facts, place = self._facts, self._place
        if place.topic == internal_topics.CATALOGUE:  # which must begin at 0
            return FillHole(
                "let an empty batch take these offsets",
                place.directory,
                facts.start_offset,
                facts.first_offset,
                0,
            )
        return SetCheckpoint(
            f"let the partition begin at offset {facts.first_offset}",
            self._folder.root / checkpoints.START_OFFSETS,
            place.key,
            facts.first_offset,
        )

    def _leader_epochs(self) -> Iterator[Finding]:
        try:
            yield from epochs.inspect(self._facts)
        except OSError as error:
            path = self._place.directory / checkpoints.LEADER_EPOCHS
            yield unreadable(self._facts, path, error)

    def _remarks(self) -> Iterator[Finding]:
        facts = self._facts
        if facts.oversize:
            yield self._finding(
                "",
                "oversize",
                Severity.NOTE,
                f"{facts.oversize:,} batches are larger than max.message.bytes is now",
                "they are served all the same; a consumer takes any batch that comes first",
            )

    def _finding(
        self,
        name: str,
        kind: str,
        severity: Severity,
        what: str,
        means: str,
        *,
        first_offset: int | None = None,
        last_offset: int | None = None,
        remedy: Remedy | None = None,
    ) -> Finding:
        place = self._place
        return Finding(
            kind,
            severity,
            place.where(name),
            what,
            means,
            place.topic,
            place.number,
            first_offset,
            last_offset,
            remedy,
        )


def _segments(directory: Path, names: list[str]) -> Iterator[SegmentFile]:
    """As a start would see them: what a compaction has decided on replaces what it covers."""
    plain = {int(name[:20]) for name in names if name[:20].isdigit() and name[20:] == ".log"}
    swaps = {int(name[:20]) for name in names if name[:20].isdigit() and name[20:] == f".log{SWAP}"}
    ends = {}
    for base in swaps:
        file = SegmentFile(base, directory / f"{base:020d}.log{SWAP}", SWAP)
        ends[base] = (file, _end_by_headers(file))
    covered = {b for b in plain for base, (_, end) in ends.items() if base < b < end}
    for base in sorted(swaps | plain - covered):
        if base in ends:
            yield ends[base][0]
        else:
            yield SegmentFile(base, directory / f"{base:020d}.log")


def _end_by_headers(file: SegmentFile) -> int:
    """The offset behind the last batch, found by headers alone."""
    end, position = file.base_offset, 0
    try:
        with Reader(file.path) as reader:
            while position < reader.size:
                header = batches.read_header(reader.get(position, HEADER_BYTES))
                end, position = header.next_offset, position + header.size
    except (OSError, RecordError):
        pass
    return end
