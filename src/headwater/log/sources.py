"""Reading sealed segments from front to back, every batch checked, in order to write them anew.

Compaction (`compactor`) and excision (`excision`) begin here. Knows files only, no `Segment`: it runs in
processes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from headwater.log.compaction_plan import Source
from headwater.log.files import File, FileSystem
from headwater.log.segment import CorruptSegment, file_name
from headwater.record import batch as batches
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.errors import CorruptBatch, RecordError

READ_BYTES = 1024 * 1024

Between = Callable[[int], None]
"""Called before each piece of work with its bytes; may wait, or raise to give up."""


def batches_of(
    files: FileSystem, directory: Path, source: Source, between: Between
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """File position, header and bytes of each batch, checked. Raises CorruptSegment."""
    file = files.open(directory / file_name(source.base_offset, ".log"))
    try:
        pieces = _Pieces(file, source.size, between)
        position, next_offset = 0, source.base_offset
        while position < source.size:
            header: BatchHeader | None = None
            try:
                header = batches.read_header(pieces.get(position, HEADER_BYTES))
                if position + header.size > source.size:
                    raise CorruptBatch("it reaches beyond the end")
                batch = pieces.get(position, header.size)
                batches.check_crc(batch, 0, header)
                if header.base_offset < next_offset or header.next_offset > source.next_offset:
                    raise CorruptBatch(f"offset {header.base_offset} is out of order")
            except RecordError as error:
                raise damage(directory, source, position, header, error) from error
            yield position, header, batch
            position += header.size
            next_offset = header.next_offset
    finally:
        file.close()


def damage(
    directory: Path,
    source: Source,
    position: int,
    header: BatchHeader | None,
    error: RecordError,
) -> CorruptSegment:
    """Which file, where, and what is wrong with it."""
    path = directory / file_name(source.base_offset, ".log")
    offset = source.base_offset if header is None else header.base_offset
    return CorruptSegment(path, position, offset, str(error))


class _Pieces:
    """A file read from front to back, a large piece at a time."""

    def __init__(self, file: File, size: int, between: Between) -> None:
        self._file = file
        self._size = size
        self._between = between
        self._piece, self._start = memoryview(b""), 0

    def get(self, position: int, size: int) -> memoryview:
        """These bytes; fewer only where the file ends."""
        if position + size > self._start + len(self._piece):
            wanted = min(max(READ_BYTES, size), self._size - position)
            self._between(wanted)
            self._piece, self._start = memoryview(self._file.read(position, wanted)), position
        at = position - self._start
        return self._piece[at : at + size]
