"""Which files are a partition's segments, as a start would see them.

`partition` asks. A compaction that was interrupted after it was decided counts: its `.log.swap` stands for
every segment that begins within its offsets (see `log.swap`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.broker import internal_topics
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.reader import Reader
from headwater.broker.inspection.remedy import MoveAside, SetCheckpoint
from headwater.broker.inspection.scan import Whole, scan, whole
from headwater.log.checkpoints import RECOVERY_POINTS, START_OFFSETS
from headwater.log.segment import file_name, offset_named
from headwater.log.swap import SWAP
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.errors import RecordError


@dataclass(slots=True)
class SegmentFile:
    """A segment as a start would see it: one that compaction has decided on counts already."""

    base_offset: int
    path: Path
    suffix: str = ""
    """`.swap` where the files have not got their final names yet."""

    def index(self, kind: str) -> Path:
        name = file_name(self.base_offset, kind)
        swapped = self.path.with_name(name + self.suffix)
        return swapped if self.suffix and swapped.exists() else self.path.with_name(name)


def _named(names: list[str], suffix: str) -> set[int]:
    return {base for name in names if (base := offset_named(name, suffix)) is not None}


def swapped(names: list[str]) -> list[int]:
    return sorted(_named(names, f".log{SWAP}"))


def must_go_back(directory: Path, names: list[str], base: int) -> bool:
    """Whether a segment that is to replace others is damaged, while these are all there."""
    plain = _named(names, ".log")
    if base not in plain:
        return False
    file = SegmentFile(base, directory / f"{base:020d}.log{SWAP}")
    try:
        with Reader(file.path) as reader:
            if all(isinstance(seen, Whole) for seen in scan(reader, base, None, gaps=True)):
                return False
    except OSError:
        return False
    following = min((other for other in plain if other > base), default=None)
    old = SegmentFile(base, directory / f"{base:020d}.log")
    return following is None or end_by_headers(old) >= following


def found(directory: Path, names: list[str], refused: list[int]) -> Iterator[SegmentFile]:
    """As a start would see them: what a compaction has decided on replaces what it covers."""
    plain = _named(names, ".log")
    swaps = set(swapped(names)) - set(refused)
    ends = {}
    for base in swaps:
        file = SegmentFile(base, directory / f"{base:020d}.log{SWAP}", SWAP)
        ends[base] = (file, end_by_headers(file))
    covered = {b for b in plain for base, (_, end) in ends.items() if base < b < end}
    for base in sorted(swaps | plain - covered):
        if base in ends:
            yield ends[base][0]
        else:
            yield SegmentFile(base, directory / f"{base:020d}.log")


def end_by_headers(file: SegmentFile) -> int:
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


# ---- where the partition begins, by its own file and by Kafka's checkpoint -----------------------------


def start_findings(root: Path, facts: Facts, files: list[SegmentFile]) -> Iterator[Finding]:
    if facts.place.topic in internal_topics.NEVER_CUT and files:
        facts.start_offset = min(facts.start_offset, files[0].base_offset)
    if facts.told_end > facts.promise.offset:
        yield _wrong_end(root, facts)
    told, start = facts.told_start, facts.start_offset
    if told > start:
        yield _finding(
            root,
            facts,
            ("start-disagrees", Severity.NUISANCE),
            f"{START_OFFSETS} lets it begin at offset {told}, and its own file at {start}",
            "its own file, which has a checksum, is believed; Kafka's tools see the other",
            start,
        )
    if (end := _nonsense(facts, files)) is not None:
        promise, facts.start_offset = facts.promise, files[0].base_offset
        yield _finding(
            root,
            facts,
            ("start-beyond-end", Severity.DAMAGE),
            f"{START_OFFSETS} lets it begin at offset {start}, but it ends at {end}",
            "the next start does not believe it"
            if promise.is_clean or (promise.is_known and promise.offset == end)
            else "the next start would drop every record of this partition",
            files[0].base_offset,
        )


def _wrong_end(root: Path, facts: Facts) -> Finding:
    end, place = facts.promise.offset, facts.place
    return Finding(
        "end-disagrees",
        Severity.NUISANCE,
        place.where(""),
        f"{RECOVERY_POINTS} has it on disk up to offset {facts.told_end}, and it ended at {end}",
        "what has a checksum is believed, and the next start rewrites the other",
        place.topic,
        place.number,
        remedy=SetCheckpoint(f"write {end}", root / RECOVERY_POINTS, place.key, end),
    )


def _nonsense(facts: Facts, files: list[SegmentFile]) -> int | None:
    """A start offset beyond everything makes the next start drop all records: the end that it is beyond."""
    if not files or facts.start_offset <= max(facts.promise.offset, files[-1].base_offset):
        return None
    if not (facts.promise.is_known or files[-1].path.stat().st_size):
        return None  # durability=os: what was deleted may not even have reached the disk
    end = end_by_headers(files[-1])
    return end if facts.start_offset > end else None


def _finding(
    root: Path, facts: Facts, kind: tuple[str, Severity], what: str, means: str, right: int
) -> Finding:
    place = facts.place
    remedy = SetCheckpoint(
        f"let it begin at offset {right}", root / START_OFFSETS, place.key, right or None
    )
    return Finding(
        *kind, place.where(""), what, means, place.topic, place.number, None, None, remedy=remedy
    )


def foreign(facts: Facts, reader: Reader, file: SegmentFile, limit: int | None) -> Finding | None:
    """What is wrong with a segment that holds another's records; None if it does not. `limit`: where the next
    one begins. It goes aside as a whole: batch by batch, each would be a riddle of its own."""
    header = _first_elsewhere(reader, file.base_offset, limit)
    if header is None:
        return None
    facts.leave_unread(limit)
    place = facts.place
    return Finding(
        "segment-foreign",
        Severity.DAMAGE,
        place.where(file.path.name),
        f"it holds records from offset {header.base_offset} on, which are another segment's; perhaps "
        f"somebody has restored it under a wrong name",
        "readers get an error at its offsets and stop there",
        place.topic,
        place.number,
        file.base_offset,
        None if limit is None else limit - 1,
        MoveAside(
            "put it aside; restore the right one to get its records back",
            (file.path, file.index(".index"), file.index(".timeindex")),
        ),
    )


def _first_elsewhere(reader: Reader, base_offset: int, limit: int | None) -> BatchHeader | None:
    """Its first batch, if that and the next are whole, follow on each other, and neither can be here. One
    alone may have a wrong bit in its base offset, which no checksum covers."""
    try:
        first = whole(reader, 0)
        second = whole(reader, first.size)
    except RecordError:
        return None
    end = base_offset + 2**31 if limit is None else limit
    is_here = any(base_offset <= each.base_offset < end for each in (first, second))
    return None if is_here or second.base_offset < first.next_offset else first
