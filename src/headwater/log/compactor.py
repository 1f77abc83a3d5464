"""Doing a compaction: reads the segments of a plan, writes what is left of them beside them.

`compaction.main` runs `compact` in a process of its own, tests run it in theirs. Two passes: the
dirty part fills the map of newest records (`latest`), then every segment from the start is written
anew, batch by batch (`survivors`). The originals must stay untouched: the outcome are `.cleaned`
files, synced, which nobody looks at until `compaction.apply` has decided that they count (`swap`).

Every batch is checked before anything follows from it. A segment with damage in it is left as it is,
byte for byte, and the others are compacted without it: what would have been dropped because of its records
stays, and so do all tombstones and markers, which may speak of records in it. It may be whole again the
next time (restored from a copy, or misread once), so the cleaned offset must not pass it, and while
anything is left out no tombstone may get a horizon.
A batch with the right checksum whose records cannot be read is another matter: a producer sent it so
(earlier versions stored such), and it will never be any better. It alone stays as it is and the result
names it; where not even its keys can be read, they take nobody's place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.log import aborted_transactions, lookup, swap
from headwater.log.cleaned_segment import CannotCompact, CleanedSegment
from headwater.log.compaction_plan import Made, Plan, Result, Source
from headwater.log.files import FileSystem
from headwater.log.latest import Latest
from headwater.log.segment import CorruptSegment, Segment
from headwater.log.sources import Between, batches_of, damage
from headwater.log.survivors import Survivors
from headwater.record import batch as batches
from headwater.record.batch import BatchHeader, Buffer
from headwater.record.errors import RecordError

UNREADABLE_MAX = 100
"""So many batches are named at most; one would be reason enough to look."""


def compact(
    files: FileSystem,
    directory: Path,
    plan: Plan,
    *,
    between: Between | None = None,
) -> Result:
    """Carry out the plan; returns what was made. Raises CannotCompact, OSError."""
    if swap.is_decided(files, directory):
        raise CannotCompact("an earlier compaction was interrupted; open the log again first")
    damaged: dict[int, str] = {}
    while True:
        swap.forget(files, directory)
        work = _Compaction(files, directory, plan, between or (lambda _: None), damaged)
        try:
            return work.run()
        except CorruptSegment as error:
            swap.forget(files, directory)
            base_offset = int(error.path.stem)
            if base_offset in damaged:
                raise
            damaged[base_offset] = str(error)
        except Exception:
            swap.forget(files, directory)
            raise


class _Compaction:
    """One run of `compact`."""

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        plan: Plan,
        between: Between,
        damaged: Mapping[int, str],
    ) -> None:
        self._files = files
        self._directory = directory
        self._plan = plan
        self._aborted = aborted_transactions.among(plan.aborted)
        self._markers = sorted(each.last_offset for each in plan.aborted)
        self._between = between
        self._damaged = damaged
        """Segments to be left as they are, by base offset, and why."""
        self._records_read = self._records_kept = self._bytes_read = self._bytes_kept = 0
        self._unreadable: dict[int, str] = {}

    def run(self) -> Result:
        plan = self._plan
        first_offset = plan.first_dirty_offset
        if self._damaged:  # the others have been through the map of an earlier compaction
            first_offset = max(first_offset, plan.compacted_offset)
        latest, reached_offset = self._find_latest(first_offset)
        survivors = Survivors(
            latest,
            first_dirty_offset=first_offset,
            end_offset=reached_offset,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            producers=plan.producers,
            aborted=self._aborted,
            nothing_expires=bool(self._damaged),
        )
        made = []
        for run in (run for group in plan.groups for run in self._intact(group)):
            reached = [source for source in run if source.base_offset < reached_offset]
            written = self._rewrite(reached, survivors) if reached else None
            if written is not None:
                made.append(written)
        if made:
            self._files.sync_dir(self._directory)
        return Result(
            tuple(made),
            self._cleaned_offset(reached_offset),
            len(latest),
            self._records_read,
            self._records_kept,
            self._bytes_read,
            self._bytes_kept,
            tuple(self._damaged.values()),
            tuple(self._unreadable.values())[:UNREADABLE_MAX],
            reached_offset,
        )

    def _cleaned_offset(self, reached_offset: int) -> int:
        """Everything before it was read, now or by an earlier compaction. It may lie before that one's:
        then a segment that was clean could not be read now. Not 0: there may be gaps."""
        if not self._damaged:
            return reached_offset
        cleaned = min(reached_offset, *self._damaged)
        if self._plan.compacted_offset > self._plan.first_dirty_offset:
            cleaned = min(cleaned, self._plan.first_dirty_offset)
        return max(cleaned, 1)

    def _intact(self, group: Sequence[Source]) -> list[list[Source]]:
        """The group without its damaged segments: what lies on either side is not put together. Nor is what
        lies on either side of a hole with a marker in it: a reader would wait for that."""
        runs: list[list[Source]] = [[]]
        for source in group:
            if source.base_offset in self._damaged:
                runs.append([])
            else:
                runs[-1].append(source)
                if source is not group[-1] and self._has_lost_marker(source):
                    runs.append([])
        return [run for run in runs if run]

    def _has_lost_marker(self, source: Source) -> bool:
        """Whether one of a segment that was lost behind this one is still known (`lost_segments`)."""
        markers = self._markers
        number = bisect_left(markers, source.next_offset) - 1
        if number < 0 or markers[number] < source.base_offset:
            return False
        segment = Segment.found(self._files, self._directory, source.base_offset, 0)
        segment.next_offset = source.next_offset
        try:
            return markers[number] >= lookup.end_of_data(segment)
        finally:
            segment.close()

    # ---- first pass ----------------------------------------------------------------------------

    def _find_latest(self, dirty: int) -> tuple[Latest, int]:
        """The newest records from this offset on, or of as many as fit; and where that ends."""
        latest, reached = Latest(self._plan.key_bytes_max), dirty
        for source in self._plan.sources:
            if source.next_offset <= dirty:
                continue
            if source.base_offset in self._damaged:
                reached = source.next_offset
                continue
            for position, header, batch in batches_of(
                self._files, self._directory, source, self._between
            ):
                if header.last_offset < dirty:
                    continue
                if latest.is_full:
                    latest.seal()
                    return latest, reached
                if not (header.is_control or (header.is_transactional and self._aborted(header))):
                    try:
                        latest.add(header, batch)
                    except RecordError as error:
                        self._name(source, position, header, error)
                reached = header.next_offset
            reached = source.next_offset
        latest.seal()
        return latest, reached

    def _name(self, source: Source, position: int, header: BatchHeader, error: RecordError) -> None:
        sentence = str(damage(self._directory, source, position, header, error))
        self._unreadable.setdefault(header.base_offset, sentence)

    # ---- second pass ---------------------------------------------------------------------------

    def _rewrite(self, sources: Sequence[Source], survivors: Survivors) -> Made | None:
        """One new segment from these; None if it would be the same as the one it came from."""
        plan = self._plan
        output = CleanedSegment(
            self._files, self._directory, sources, plan.index_interval_bytes, plan.aborted
        )
        try:
            changed = self._fill(output, sources, survivors)
            self._bytes_kept += output.size
            if changed or len(sources) > 1:
                return output.finish()
        finally:
            output.close()
        output.discard()
        return None

    def _fill(
        self, output: CleanedSegment, sources: Sequence[Source], survivors: Survivors
    ) -> bool:
        """Write what survives; whether anything was left out or changed."""
        changed = False
        filled = [source for source in sources if source.size]
        for source in filled:
            for position, header, batch in batches_of(
                self._files, self._directory, source, self._between
            ):
                is_last = source is filled[-1] and position + header.size == source.size
                kept: Buffer | None = batch
                try:
                    if header.base_offset in self._unreadable:
                        survivors.untouched(header)
                    else:
                        kept = survivors.of(header, batch, is_last=is_last)
                except RecordError as error:
                    self._name(source, position, header, error)
                self._records_read += header.record_count
                self._bytes_read += header.size
                if kept is not batch:
                    changed = True
                    if kept is None:
                        continue
                    header = batches.read_header(kept)
                self._records_kept += header.record_count
                output.add(header, kept)
        return changed
