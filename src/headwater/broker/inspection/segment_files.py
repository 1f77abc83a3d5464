"""Which files are a partition's segments, as a start would see them.

`partition` asks. A compaction that was interrupted after it was decided counts: its `.log.swap` stands for
every segment that begins within its offsets (see `log.swap`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.broker.inspection.reader import Reader
from headwater.broker.inspection.scan import Whole, scan
from headwater.log.segment import file_name, offset_named
from headwater.log.swap import SWAP
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES
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
