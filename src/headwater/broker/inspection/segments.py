"""The segments of one partition: that they follow one another, and that every batch in them is whole.

`partition.inspect` calls `Segments.run`. Reads each file once, from front to back; what it learns on the
way goes into `Facts`, and every batch is shown to the visitor (the state that lives in internal topics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwater.broker.inspection import indexes, markers
from headwater.broker.inspection.damage import Damage
from headwater.broker.inspection.facts import Began, EpochRun, Facts, Hidden
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.reader import Reader
from headwater.broker.inspection.remedy import (
    EditSegment,
    MoveAside,
    RebuildIndexes,
    WriteAborted,
)
from headwater.broker.inspection.scan import Broken, Missing, Seen, Whole, scan
from headwater.broker.inspection.segment_files import SegmentFile, foreign
from headwater.broker.inspection.writer import is_filler
from headwater.log import aborted_transactions
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.record import control, records
from headwater.record.batch import BatchHeader
from headwater.record.errors import InvalidBatch, RecordError
from headwater.record.records import Record

EPOCH_RUNS_MAX = 100_000
MARKER_BYTES_MAX = 4096
"""A marker has about eighty."""

Visitor = Callable[[BatchHeader, "list[Record]", memoryview], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How closely to look."""

    decode: bool = True
    """Also every record inside the batches."""
    batch_bytes_max: int = 2**31
    aborted_before: int = 0
    """Aborted transactions with markers below this offset must be in their lists."""
    read: Callable[[int], None] = lambda _: None


@dataclass(slots=True)
class Segments:
    """One pass over a partition's segments."""

    facts: Facts
    options: Options
    visit: Visitor | None = None
    _epoch: int = 0
    _torn: bool = False
    _base: int = 0
    _decoded: list[Record] = field(default_factory=list)

    def run(self, files: list[SegmentFile]) -> Iterator[Finding]:
        facts = self.facts
        facts.first_offset = facts.end_offset = files[0].base_offset if files else 0
        damage = Damage(facts)
        for number, file in enumerate(files):
            following = files[number + 1] if number + 1 < len(files) else None
            limit = None if following is None else following.base_offset
            behind = (each.path for each in files[number + 1 :])
            damage.is_followed = any(not path.is_file() or path.stat().st_size for path in behind)
            if self._torn:
                yield damage.directory(file) if file.path.is_dir() else damage.beyond_tear(file)
                continue
            if file.path.is_dir():
                facts.leave_unread(limit)
                yield damage.directory(file)
                continue
            try:
                with Reader(file.path, self.options.read, passes_over=True) as reader:
                    other = foreign(facts, reader, file, limit)
                    yield from [other] if other else self._segment(reader, file, limit, damage)
            except OSError as error:
                facts.leave_unread(limit)
                yield unreadable(facts, file.path, error)
                continue
            if limit is not None and facts.end_offset < limit and not self._torn:
                if self._is_unwritten(files[number + 1 :]):
                    self._torn = True  # a start drops what follows: it was never acknowledged
                else:
                    self.facts.pass_over(facts.end_offset, limit - 1)
                    gap = damage.gap(facts.end_offset, limit, self._epoch)
                    yield markers.put_back(gap, facts)[0]
                    facts.end_offset = limit

    def _is_unwritten(self, following: list[SegmentFile]) -> bool:
        """Whether the log may end here, though there are segments behind. Where nothing says how much
        was acknowledged (durability=os), it may if they are empty: a segment's file is made when its
        first batch gets an offset, and that is before the ones in front of it are written."""
        promise = self.facts.promise
        if self.facts.end_offset < promise.offset:
            return False
        return promise.is_known or not any(file.path.stat().st_size for file in following)

    def _segment(
        self, reader: Reader, file: SegmentFile, limit: int | None, damage: Damage
    ) -> Iterator[Finding]:
        facts = self.facts
        data = indexes.read(file.index(".index"))
        times_data = indexes.read(file.index(".timeindex"))
        offsets = indexes.OffsetIndexCheck(file.base_offset, data or b"")
        times = indexes.TimeIndexCheck(file.base_offset, times_data or b"", offsets.last_position)
        found: list[AbortedTransaction] = []
        places: set[int] = set()
        facts.end_offset = self._base = file.base_offset
        whole = True
        promised = facts.promise.offset
        for seen in scan(reader, file.base_offset, limit, gaps=facts.gaps, promised=promised):
            if not isinstance(seen, Whole) or self._bad_records(seen) is not None:
                finding = self._problem(seen, reader, file, limit, damage)
                failure = reader.failure(seen.position, _end_of(seen))
                if failure is not None:
                    # What is there may be well: it stays, and what lies behind it is looked at.
                    facts.was_read = whole = False
                    yield unreadable(facts, file.path, failure, finding)
                    continue
                told, lost = markers.put_back(finding, facts)
                places |= {each.last_offset for each in lost}
                yield told
                if finding.kind == "torn-tail":
                    self._torn = True
                    break
                self._hole(finding, reader)
                whole = whole and isinstance(seen, Missing)
                if not isinstance(seen, Whole):
                    continue
            header = seen.header
            offsets.see(seen.position, header)
            times.see(seen.position, header)
            self._note(seen, found, places)
        facts.bytes += reader.size
        if whole and not self._torn:
            yield from self._indexes(file, data, times_data, offsets, times, limit)
            yield from self._aborted(file, found, places, limit)

    def _hole(self, finding: Finding, reader: Reader) -> None:
        """Offsets that cannot be read, and no repair brings back: what is open may have ended there."""
        edit = finding.remedy.edit if isinstance(finding.remedy, EditSegment) else None
        if edit is None or edit.header or edit.batch or finding.first_offset is None:
            return
        producer_id = markers.ended_by(
            reader.get(edit.start, min(edit.end - edit.start, MARKER_BYTES_MAX))
        )
        self.facts.pass_over(finding.first_offset, edit.next_offset - 1, producer_id)

    def _problem(
        self, seen: Seen, reader: Reader, file: SegmentFile, limit: int | None, damage: Damage
    ) -> Finding:
        if isinstance(seen, Whole):
            return damage.bad_records(file, seen, self._bad_records(seen) or "")
        return damage.found(seen, reader, file, limit, self._epoch)

    def _bad_records(self, seen: Whole) -> str | None:
        """Why the records of a batch with the right checksum cannot be read; None if they can."""
        self._decoded = []
        header = seen.header
        if not (self.options.decode or self.visit is not None or header.is_control):
            return None
        try:
            self._decoded = records.decode(seen.data)
        except RecordError as error:
            return str(error)
        return None

    def _note(self, seen: Whole, found: list[AbortedTransaction], places: set[int]) -> None:
        """What this batch tells of the partition."""
        facts, header = self.facts, seen.header
        facts.end_offset = header.next_offset
        facts.batches += 1
        facts.records += header.record_count
        self._epoch = header.leader_epoch
        runs = facts.epoch_runs
        if runs and runs[-1].epoch == header.leader_epoch:
            runs[-1].batches += 1
        elif len(runs) < EPOCH_RUNS_MAX:
            run = EpochRun(
                header.leader_epoch, header.base_offset, self._base, seen.position, header
            )
            runs.append(run)
        if header.size > self.options.batch_bytes_max:
            facts.oversize += 1
        if header.producer_id >= 0:
            self._producer(seen, found, places)
        elif is_filler(header):
            self.facts.pass_over(header.base_offset, header.last_offset)
        if self.visit is not None:
            self.visit(header, self._decoded, seen.data)

    def _producer(self, seen: Whole, found: list[AbortedTransaction], places: set[int]) -> None:
        facts, header = self.facts, seen.header
        producer_id = header.producer_id
        facts.has_producer(producer_id, proven=header.is_transactional or header.is_control)
        if not header.is_control:
            facts.producers.update(header, header.base_offset)
            if header.is_transactional and producer_id not in facts.began:
                facts.began[producer_id] = Began.with_(header)
            elif header.is_transactional:
                (began := facts.began[producer_id]).epochs.add(header.producer_epoch)
                if began.hole is None:
                    began.last_offset = header.last_offset
                else:
                    began.has_resumed = True
            return
        if not header.record_count:
            return
        try:
            marker = control.read_marker(seen.data)
        except (InvalidBatch, RecordError):
            return  # some other control record
        places.add(header.base_offset)
        ended = facts.began.pop(producer_id, None)
        if ended is None:
            facts.idle_markers += 1
        elif ended.hole is not None and marker.kind == control.ABORT:
            facts.hidden.append(Hidden(producer_id, ended, header.max_timestamp))
        facts.producers.end(header, marker, header.base_offset, found)

    # ---- indexes -------------------------------------------------------------------------------

    def _indexes(
        self,
        file: SegmentFile,
        data: bytes | None,
        times_data: bytes | None,
        offsets: indexes.OffsetIndexCheck,
        times: indexes.TimeIndexCheck,
        limit: int | None,
    ) -> Iterator[Finding]:
        if not file.path.stat().st_size:
            return
        remedy = RebuildIndexes(
            "recreate both indexes of the segment", file.path.parent, file.base_offset
        )
        if data is None or times_data is None:
            missing = ".index" if data is None else ".timeindex"
            if limit is None and not self.facts.promise.is_clean:
                return  # saved every so often only
            yield self._finding(
                file.index(missing),
                "index-missing",
                Severity.NOTE,
                "there is no such index",
                "nobody notices: it is made when it is first needed",
                remedy,
            )
            return
        for kind, problem, means in (
            (".index", offsets.finish(), "lookups by offset take longer until it is recreated"),
            (
                ".timeindex",
                times.finish(),
                "lookups by time may miss records, and retention may judge the segment's age wrongly",
            ),
        ):
            if problem is not None:
                yield self._finding(
                    file.index(kind),
                    "index-wrong",
                    Severity.NUISANCE,
                    f"the index does not fit its segment: {problem}",
                    means,
                    remedy,
                )

    def _aborted(
        self,
        file: SegmentFile,
        expected: list[AbortedTransaction],
        places: set[int],
        end: int | None,
    ) -> Iterator[Finding]:
        path = file.index(aborted_transactions.SUFFIX)
        data = indexes.read(path)
        hole = range(self.facts.end_offset, end or self.facts.promise.offset)
        places = places | markers.within(data, file.base_offset, hole)
        problem = indexes.check_aborted(
            file.base_offset, data, expected, places, self.options.aborted_before
        )
        if problem is None:
            return
        yield self._finding(
            path,
            "aborted-wrong",
            Severity.DAMAGE,
            f"the list of aborted transactions does not fit its segment: {problem}",
            "readers with read_committed may see records of aborted transactions, or miss others",
            WriteAborted(
                "rebuild the list from the markers in the log",
                file.path.parent,
                file.base_offset,
                aborted_transactions.pack(markers.united(data, expected, places, file.base_offset)),
            ),
        )

    def _finding(
        self,
        path: Path,
        kind: str,
        severity: Severity,
        what: str,
        means: str,
        remedy: RebuildIndexes | WriteAborted | MoveAside,
    ) -> Finding:
        place = self.facts.place
        return Finding(
            kind,
            severity,
            place.where(path.name),
            what,
            means,
            place.topic,
            place.number,
            remedy=remedy,
        )


def _end_of(seen: Seen) -> int:
    if isinstance(seen, Broken):
        return seen.end
    return seen.position + (0 if isinstance(seen, Missing) else seen.header.size)


def unreadable(facts: Facts, path: Path, error: OSError, found: Finding | None = None) -> Finding:
    """`found`: what would be said of the place, had somebody damaged it; None: all of it."""
    place = facts.place
    why = error.strerror or error
    if found is not None:
        return replace(
            found,
            kind="unreadable",
            what=f"the disk does not give some of its bytes: {why}",
            means="these records cannot be read, what lies around them can; copy the folder to another "
            "disk as far as it can be read, and repair the copy",
            remedy=None,
        )
    return Finding(
        "unreadable",
        Severity.DAMAGE,
        place.where(path.name),
        f"it cannot be read: {why}",
        "what is in it was not looked at; the broker cannot read it either, unless it runs as "
        "somebody else",
        place.topic,
        place.number,
    )
