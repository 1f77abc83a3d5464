"""Record batches from the log's own files, where the executor can see them. `task` asks before it asks
the leader.

The driver learnt from DescribeLogDirs where the leader keeps the partition. That folder is taken only if
it is that broker's (`meta.properties`: cluster id, node id) and that topic's (`partition.metadata`: topic
id); a folder of the same name on another machine, or of an older topic, is not. Kafka's layout, so it may
be headwater's folder or Apache Kafka's.

Nothing tells a reader of files that they change, so it must look:

- only offsets below the range's end are looked at, which was the high watermark (or last stable offset);
- after each piece the file must still be the one under its name, else it was deleted, compacted or
  excised meanwhile, and the piece does not count;
- from one segment to the next there must be no gap, and no swap of segments under way.

Where one of these does not hold, `FilesChanged` is raised, and the rest is read over the network. What
DeleteRecords takes away while a task reads may still be read; of Apache Kafka's folder, also what it took
before.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.client.constants import READ_COMMITTED
from headwater.client.decode import headers
from headwater.client.piece import Piece
from headwater.log.checkpoints import read_start_offset, read_topic_id
from headwater.log.files import Files
from headwater.spark.source.markers import Markers, Unresolved
from headwater.spark.source.splits import Range

PIECE_BYTES = 16 * 1024 * 1024
_SEGMENT = re.compile(r"(\d{20})\.log")
_SWAPS = (".swap", ".cleaned")


class FilesChanged(Exception):
    """The files are not what they were: ask the leader."""


class _Segment(NamedTuple):
    base_offset: int
    path: Path
    descriptor: int


def folder_of(
    log_dir: str, where: Range, topic_id: str, cluster_id: str, node_id: int
) -> Path | None:
    """The partition's folder, if it is here and is the right one."""
    root = Path(log_dir)
    try:
        lines = (root / "meta.properties").read_text().splitlines()
        said = dict(line.split("=", 1) for line in lines if "=" in line)
        folder = root / f"{where.topic}-{where.partition}"
        same_broker = said.get("cluster.id") == cluster_id and said.get("node.id") == str(node_id)
        if not same_broker or not topic_id:
            return None
        if (read_start_offset(Files(), folder) or 0) > where.start:
            return None  # what DeleteRecords took: the leader says so
        return folder if str(read_topic_id(Files(), folder)) == topic_id else None
    except (OSError, UnicodeDecodeError):
        return None


class FileReader:
    """Reads one range of one partition from its folder."""

    def __init__(self, folder: Path, where: Range, isolation: int) -> None:
        self._folder = folder
        self._end = where.end
        self._segment: _Segment | None = None
        self._at = 0
        self._expected = -1
        self._buffer = np.empty(PIECE_BYTES, np.uint8)
        self._markers = Markers(folder) if isolation == READ_COMMITTED else None

    def close(self) -> None:
        if self._segment is not None:
            os.close(self._segment.descriptor)
            self._segment = None

    def piece(self, position: int) -> Piece:
        """Batches from that offset on, not all of which reach it. Raises FilesChanged.

        The bytes are good until the next call.
        """
        try:
            if self._segment is None or self._expected != position:
                self._seek(position)
            data = self._read()
            while not len(data):
                self._next(position)
                data = self._read()
            table, used = headers.scan(data, self._end)
            if not len(table):
                raise FilesChanged(f"half a batch at byte {self._at} of {self._segment}")
            self._check()
            aborted = self._aborted(data[:used], table)
        except OSError as error:
            raise FilesChanged(str(error)) from error
        self._at += used
        self._expected = int(table[-1, headers.BASE_OFFSET] + table[-1, headers.LAST_DELTA]) + 1
        return Piece(data[:used], aborted)

    # ---- finding the place ----------------------------------------------------------------------

    def _seek(self, position: int) -> None:
        """Open the segment that has the offset, at the last indexed place before it."""
        self.close()
        base = max((each for each in self._bases() if each <= position), default=None)
        if base is None:
            raise FilesChanged(f"no segment begins at or before offset {position}")
        self._open(base)
        self._at = _floor(self._folder / f"{base:020d}.index", position - base)

    def _next(self, position: int) -> None:
        """The segment was read to its end; the next one must begin where it ended."""
        assert self._segment is not None
        if self._expected < 0:
            raise FilesChanged(f"{self._segment.path} ends before offset {position}")
        self._check()
        if self._expected not in self._bases():
            raise FilesChanged(f"no segment begins at offset {self._expected}")
        self.close()
        self._open(self._expected)
        self._at = 0

    def _bases(self) -> list[int]:
        names = [each.name for each in self._folder.iterdir()]
        if any(name.endswith(_SWAPS) for name in names):
            raise FilesChanged("segments are being replaced")
        return [int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name))]

    def _open(self, base: int) -> None:
        path = self._folder / f"{base:020d}.log"
        self._segment = _Segment(base, path, os.open(path, os.O_RDONLY))
        self._expected = -1

    def _check(self) -> None:
        """The file under the name must be the one that is open."""
        assert self._segment is not None
        ours = os.fstat(self._segment.descriptor)
        if self._segment.path.stat().st_ino != ours.st_ino:
            raise FilesChanged(f"{self._segment.path} was replaced")

    # ---- reading --------------------------------------------------------------------------------

    def _read(self) -> NDArray[np.uint8]:
        """The bytes at the current place: at least one whole batch, unless the file ends there."""
        assert self._segment is not None
        descriptor = self._segment.descriptor
        size = os.preadv(descriptor, [self._buffer.data], self._at)
        if size == len(self._buffer):
            first = int.from_bytes(self._buffer[8:12].tobytes(), "big") + 12
            if first > size:
                room = min(first, os.fstat(descriptor).st_size - self._at)
                self._buffer = np.empty(room, np.uint8)
                size = os.preadv(descriptor, [self._buffer.data], self._at)
        return self._buffer[:size]

    def _aborted(
        self, data: NDArray[np.uint8], table: NDArray[np.int64]
    ) -> list[tuple[int, int, int | None]]:
        if self._markers is None:
            return []
        assert self._segment is not None
        behind = self._segment.descriptor, self._at + len(data)
        try:
            return self._markers.aborted(data, table, *behind)
        except Unresolved as error:
            raise FilesChanged(str(error)) from error


def _floor(path: Path, relative_offset: int) -> int:
    """From an offset index (`headwater.log.index`): a place before which no batch has the offset.

    Apache Kafka keeps the last one longer than it is filled, with zeros: what does not grow is not
    an entry.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return 0
    entries = np.frombuffer(data[: len(data) // 8 * 8], ">i4").reshape(-1, 2)
    stops = np.flatnonzero(np.diff(entries[:, 0]) <= 0)
    offsets = entries[: int(stops[0]) + 1 if len(stops) else len(entries)]
    if not len(offsets) or (offsets[0, 0] <= 0 and offsets[0, 1] == 0 and len(offsets) == 1):
        return 0
    number = int(np.searchsorted(offsets[:, 0], relative_offset, side="right"))
    return int(offsets[number - 1, 1]) if number else 0
