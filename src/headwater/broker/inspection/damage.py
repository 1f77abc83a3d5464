"""What damage in a segment means, and what mends it. Called by `segments`; decides, changes nothing.

Records that were acknowledged keep their offsets for good. So where a batch is beyond help, an empty
batch with its offsets takes its place, as compaction and excision leave them, too: the broker and every
client step over it, and what lies behind stays readable. What was never acknowledged is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.broker.inspection.correction import correction
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.reader import Reader
from headwater.broker.inspection.remedy import (
    CutTail,
    Edit,
    EditSegment,
    FillHole,
    MoveAside,
    Remedy,
)
from headwater.broker.inspection.scan import Broken, Misplaced, Missing, Whole
from headwater.log.segment import SUFFIXES
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES

if TYPE_CHECKING:
    from headwater.broker.inspection.segment_files import SegmentFile

_REFUSED = (
    "readers get an error at these offsets and stop there; a compaction leaves them as they are"
)
_ASIDE = "put the damaged bytes aside; an empty batch takes their offsets, and readers pass over it"
_GONE = "these records are gone unless there is a copy elsewhere; readers go on behind them"


class Damage:
    """Findings about one partition's segments."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.is_followed = False
        """Whether there are bytes in segments behind the one that is looked at."""

    def found(
        self,
        seen: Broken | Misplaced | Missing,
        reader: Reader,
        file: SegmentFile,
        limit: int | None,
        epoch: int,
    ) -> Finding:
        """What this place in a segment is."""
        follows = seen.first_offset if isinstance(seen, Missing) else seen.follows
        if self._is_tail(seen, follows):
            return self._torn(file, seen.position, reader.size, follows)
        if isinstance(seen, Missing):
            return self._missing(file, seen, epoch)
        if isinstance(seen, Misplaced):
            return self._misplaced(file, seen, limit, epoch, reader)
        return self._broken(file, seen, reader, limit, epoch)

    def _is_tail(self, seen: Broken | Misplaced | Missing, follows: int) -> bool:
        """Never acknowledged: what a crash tears. A start cuts the log there."""
        promise = self._facts.promise
        if promise.is_known:
            return follows >= promise.offset
        # Nothing reliable says how much was acknowledged. What intact batches follow is kept.
        is_last = isinstance(seen, Broken) and seen.next_offset is None
        return is_last and not self.is_followed and follows >= promise.offset

    def _torn(self, file: SegmentFile, position: int, size: int, follows: int) -> Finding:
        return self._finding(
            file,
            "torn-tail",
            Severity.NOTE,
            f"the last {size - position} bytes, from byte {position} on, are no whole batches",
            "nothing is lost: a crash interrupted a write that nobody had been told of; "
            "the next start cuts it off",
            follows,
            None,
            CutTail("cut it off", file.path.parent, file.base_offset, position),
        )

    def beyond_tear(self, file: SegmentFile) -> Finding:
        """A whole segment behind the place where a start cuts the log."""
        suffixes = [file.index(kind) for kind in SUFFIXES if kind != ".log"]
        paths = tuple(path for path in (file.path, *suffixes) if path.exists())
        return self._finding(
            file,
            "torn-tail",
            Severity.NOTE,
            "the segment lies behind the place where a crash has torn the log",
            "nothing is lost: nobody had been told of these records; the next start removes it",
            file.base_offset,
            None,
            MoveAside("put the segment aside", paths),
        )

    def directory(self, file: SegmentFile) -> Finding:
        return self._finding(
            file,
            "unreadable",
            Severity.DAMAGE,
            "it is a directory, and a segment must be a file",
            "the broker does not start with it",
            file.base_offset,
            None,
            MoveAside("put the directory aside", (file.path,)),
        )

    def bad_records(self, file: SegmentFile, seen: Whole, why: str) -> Finding:
        header = seen.header
        edit = Edit(
            seen.position,
            seen.position + header.size,
            header.base_offset,
            header.next_offset,
            header.leader_epoch,
        )
        return self._finding(
            file,
            "records-unreadable",
            Severity.DAMAGE,
            f"the batch at byte {seen.position} has the right checksum, but its records cannot be "
            f"read: {why}",
            "clients stop at this batch; a compaction leaves it as it is",
            header.base_offset,
            header.last_offset,
            EditSegment(_ASIDE, file.path.parent, file.base_offset, edit),
        )

    def _missing(self, file: SegmentFile, seen: Missing, epoch: int) -> Finding:
        edit = Edit(seen.position, seen.position, seen.first_offset, seen.next_offset, epoch)
        return self._finding(
            file,
            "records-missing",
            Severity.LOSS,
            f"offsets {seen.first_offset} to {seen.next_offset - 1} are missing before byte "
            f"{seen.position}",
            f"{_GONE}; the broker takes what follows for damage and refuses it",
            seen.first_offset,
            seen.next_offset - 1,
            EditSegment(
                "let an empty batch take these offsets, so that readers pass over them",
                file.path.parent,
                file.base_offset,
                edit,
            ),
        )

    def _misplaced(
        self, file: SegmentFile, seen: Misplaced, limit: int | None, epoch: int, reader: Reader
    ) -> Finding:
        header, end = seen.header, seen.position + seen.header.size
        what = (
            f"the batch at byte {seen.position} says that it begins at offset {header.base_offset}"
        )
        if seen.right_offset is not None:
            head = bytearray(reader.get(seen.position, HEADER_BYTES))
            head[0:8] = seen.right_offset.to_bytes(8, "big")
            next_offset = seen.right_offset + header.last_offset_delta + 1
            edit = Edit(seen.position, end, seen.right_offset, next_offset, epoch, bytes(head))
            self._facts.end_offset = next_offset
            return self._finding(
                file,
                "batch-misplaced",
                Severity.DAMAGE,
                f"{what}; its neighbours say {seen.right_offset}",
                _REFUSED,
                seen.right_offset,
                next_offset - 1,
                EditSegment(
                    "write the right offset; no record is lost",
                    file.path.parent,
                    file.base_offset,
                    edit,
                ),
            )
        next_offset = self._begins(reader, end, seen.follows, limit)
        edit = Edit(seen.position, end, seen.follows, next_offset, epoch)
        return self._hole(file, what + ", which cannot be", edit)

    def _begins(self, reader: Reader, position: int, follows: int, limit: int | None) -> int:
        """Where what is readable goes on."""
        if position < reader.size:
            try:
                base = batches.read_header(reader.get(position, HEADER_BYTES)).base_offset
                if base >= follows and (limit is None or base < limit):
                    return base
            except batches.RecordError:
                pass
            return follows
        return self._end(follows, limit)

    def _end(self, follows: int, limit: int | None) -> int:
        return max(follows, self._facts.promise.offset if limit is None else limit)

    def _broken(
        self, file: SegmentFile, seen: Broken, reader: Reader, limit: int | None, epoch: int
    ) -> Finding:
        what = f"bytes {seen.position} to {seen.end - 1} are no whole batch: {seen.why}"
        ends = self._end(seen.follows, limit) if seen.next_offset is None else seen.next_offset
        right = correction(reader, seen, ends if limit or seen.next_offset else None)
        if right is None:
            edit = Edit(seen.position, seen.end, seen.follows, ends, epoch)
            return self._hole(file, what, edit)
        header = right.header
        offsets = header.base_offset, header.next_offset
        edit = Edit(seen.position, seen.end, *offsets, epoch, right.head, right.batch)
        self._facts.end_offset = header.next_offset
        return self._finding(
            file,
            "batch-damaged",
            Severity.DAMAGE,
            f"{what}; {right.what}",
            _REFUSED,
            header.base_offset,
            header.last_offset,
            EditSegment(right.says, file.path.parent, file.base_offset, edit),
        )

    def _hole(self, file: SegmentFile, what: str, edit: Edit) -> Finding:
        self._facts.end_offset = edit.next_offset
        if edit.first_offset >= edit.next_offset:
            return self._finding(
                file,
                "garbage",
                Severity.DAMAGE,
                f"{what}; no offset is missing",
                _REFUSED,
                edit.first_offset,
                None,
                EditSegment("put these bytes aside", file.path.parent, file.base_offset, edit),
            )
        return self._finding(
            file,
            "batch-damaged",
            Severity.DAMAGE,
            what,
            _REFUSED,
            edit.first_offset,
            edit.next_offset - 1,
            EditSegment(_ASIDE, file.path.parent, file.base_offset, edit),
        )

    def gap(self, first: int, end: int, epoch: int) -> Finding:
        """Nothing between two segments, or at the end of the last."""
        place = self._facts.place
        return Finding(
            "records-missing",
            Severity.LOSS,
            place.where(),
            f"no segment has the offsets {first} to {end - 1}, which were acknowledged",
            _GONE,
            place.topic,
            place.number,
            first,
            end - 1,
            FillHole(
                "let an empty batch take these offsets, so that they are not given again",
                place.directory,
                first,
                end,
                epoch,
            ),
        )

    def _finding(
        self,
        file: SegmentFile,
        kind: str,
        severity: Severity,
        what: str,
        means: str,
        first_offset: int | None,
        last_offset: int | None,
        remedy: Remedy,
    ) -> Finding:
        place = self._facts.place
        return Finding(
            kind,
            severity,
            place.where(file.path.name),
            what,
            means,
            place.topic,
            place.number,
            first_offset,
            last_offset,
            remedy,
        )
