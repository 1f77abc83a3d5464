"""One partition's folder: which files it has, then its segments.

`check` calls `inspect` for every partition. The small files beside the segments are judged here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headwater.broker import internal_topics
from headwater.broker.inspection import epochs, markers, segment_files
from headwater.broker.inspection.damage import Damage
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.promises import durable_offset
from headwater.broker.inspection.remedy import FillHole, MoveAside, Remedy, SetCheckpoint
from headwater.broker.inspection.segment_files import SegmentFile
from headwater.broker.inspection.segments import (
    Options,
    Segments,
    Visitor,
    unreadable,
)
from headwater.broker.inspection.snapshots import SNAPSHOT, Snapshots
from headwater.log import aborted_transactions, checkpoints
from headwater.log.segment import SUFFIXES, offset_named
from headwater.log.swap import CLEANED, DELETED, SWAP

_KNOWN = (
    checkpoints.LEADER_EPOCHS,
    checkpoints.PARTITION_METADATA,
    checkpoints.DURABLE_OFFSET,
    checkpoints.START_OFFSET,
    checkpoints.CLEANED_OFFSET,
    aborted_transactions.CHECKSUMS,
)


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
        taken = Snapshots(facts)
        yield from taken.read(names)
        refused = [
            base
            for base in segment_files.swapped(names)
            if segment_files.must_go_back(directory, names, base)
        ]
        yield from (self._refused(base, names) for base in refused)
        files = [*segment_files.found(directory, names, refused)]
        yield from segment_files.start_findings(self._folder.root, facts, files)
        while len(files) > 1 and files[1].base_offset <= facts.start_offset:
            files.pop(0)  # removed by retention, or about to be
        options = replace(self._options, aborted_before=taken.believed(self._folder.is_clean))
        yield from Segments(facts, options, self._visit).run(files)
        yield from self._ends(files)
        yield from taken.beyond()
        yield from self._leader_epochs()
        yield from self._remarks()

    # ---- the files -----------------------------------------------------------------------------

    def _small_files(self, names: list[str]) -> Iterator[Finding]:
        directory = self._place.directory
        for name in names:
            path = directory / name
            digits, suffix = name[:20], name[20:]
            if suffix in (*SUFFIXES, SNAPSHOT) and offset_named(name, suffix) is not None:
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
        path = self._place.directory / name
        if path.is_dir():
            return self._finding(
                name,
                "leftover-directory",
                Severity.DAMAGE,
                "a directory where only a file can be left over from a crash",
                "the next start cannot remove it, and leaves the partition offline",
                remedy=MoveAside("put it aside", (path,)),
            )
        return self._finding(name, "leftover", Severity.NOTE, "left over from a crash", means)

    def _refused(self, base: int, names: list[str]) -> Finding:
        digits = f"{base:020d}"
        found = [name for name in names if name.startswith(digits) and name.endswith(SWAP)]
        return self._finding(
            f"{digits}.log{SWAP}",
            "compaction-damaged",
            Severity.DAMAGE,
            "what an interrupted compaction has written is damaged; what it was to replace is whole",
            "the next start would put the damaged one in its place",
            remedy=MoveAside(
                "put it aside; compaction comes again",
                tuple(self._place.directory / name for name in found),
            ),
        )

    def _durable_file(self, path: Path) -> Iterator[Finding]:
        try:
            data = path.read_bytes()
        except OSError as error:
            remedy = MoveAside("put it aside; it is written again", (path,))
            yield replace(unreadable(self._facts, path, error), remedy=remedy)
            return
        if data and not durable_offset(self._place.directory)[1]:
            yield self._finding(
                path.name,
                "durable-offset-damaged",
                Severity.NUISANCE,
                "it does not have the checksum that it must have",
                "after a crash a start cannot tell how much was acknowledged; what the log itself "
                "shows counts",
                remedy=MoveAside("put it aside; it is written again", (path,)),
            )

    # ---- how far it is -------------------------------------------------------------------------

    def _ends(self, files: list[SegmentFile]) -> Iterator[Finding]:
        facts = self._facts
        if not files:
            facts.first_offset = facts.end_offset = facts.start_offset
        promised = max(facts.promise.offset, facts.start_offset)
        if facts.was_read and facts.end_offset < promised:
            epoch = facts.epoch_runs[-1].epoch if facts.epoch_runs else 0
            facts.pass_over(facts.end_offset, promised - 1)
            yield markers.put_back(Damage(facts).gap(facts.end_offset, promised, epoch), facts)[0]
            facts.end_offset = promised
        if (
            facts.was_read
            and facts.start_offset < facts.first_offset
            and not self._folder.is_kafkas
        ):
            # Retention writes down where a partition begins before it removes anything.
            is_told = facts.start_offset > 0 or checkpoints.START_OFFSETS in self._folder.offsets
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
