"""A compacted log to play with: short ways to fill it, compact it and read it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from headwater.log import compaction
from headwater.log.config import LogConfig
from headwater.log.files import FileSystem
from headwater.log.latest import KEY_BYTES_MAX
from headwater.log.partition import PartitionLog
from headwater.log.recovery import open_partition
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.batch import BatchHeader
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

FOLDER = Path("/topic-0")
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(
    compact=True,
    delete=False,
    segment_bytes=2000,
    index_interval_bytes=100,
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
)

Pair = tuple[bytes | None, bytes | None]


class CompactedLog:
    """A log in memory (or in a folder), its clock, and what was ever written to it."""

    def __init__(
        self, config: LogConfig = CONFIG, files: FileSystem | None = None, folder: Path = FOLDER
    ) -> None:
        self.files = files if files is not None else FaultyDisk()
        self.folder = folder
        self.config = config
        self.now_ms = NOW_MS
        self.written: dict[int, Record] = {}
        self.files.make_dir(folder)
        self.log: PartitionLog
        self.open()

    def open(self, files: FileSystem | None = None, *, recovery_point: int = 0) -> None:
        """Open the log, on another disk if one is given; the cleaner's checkpoint is lost."""
        self.files = self.files if files is None else files
        self.log, _ = open_partition(
            self.files, self.folder, self.config, self.now_ms, recovery_point=recovery_point
        )

    def append(
        self,
        pairs: Iterable[Pair],
        *,
        codec: int = 0,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
        timestamps: Sequence[int] | None = None,
    ) -> BatchHeader:
        """One durable batch; `producer` is id, epoch and first sequence."""
        found = [
            Record(n, self.now_ms if timestamps is None else timestamps[n], key, value)
            for n, (key, value) in enumerate(pairs)
        ]
        return self.store(
            records.build(
                found,
                codec=codec,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
                transactional=transactional,
            )
        )

    def store(self, data: bytes) -> BatchHeader:
        header = batches.read_header(data)
        base = self.log.stage(data, header, self.now_ms)
        self.log.flush()
        for record in records.decode(data):
            offset = base + record.offset - header.base_offset
            self.written[offset] = record._replace(offset=offset)
        return header

    def seal(self) -> None:
        """Close the active segment, and begin the next with a record of its own."""
        if self.log.active.size:
            self.log.roll(self.now_ms)
        self.append([(b"seal", b"%d" % self.log.next_offset)])

    def plan(self, key_bytes_max: int = KEY_BYTES_MAX) -> compaction.Plan:
        plan = compaction.plan(self.log, self.now_ms, key_bytes_max=key_bytes_max)
        assert plan is not None, "nothing to compact"
        return plan

    def compact(self, key_bytes_max: int = KEY_BYTES_MAX) -> compaction.Result:
        """All three steps."""
        plan = self.plan(key_bytes_max)
        result = compaction.compact(self.files, self.folder, plan)
        old = compaction.apply(self.log, plan, result)
        assert old is not None
        for segment in old:
            segment.close()
        return result

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """Everything that a reader finds, from the start."""
        found = []
        offset = self.log.start_offset
        while data := bytes(self.log.read(offset, 1 << 20) or b""):
            for position, header in batches.scan(data):
                found.append((header, data[position : position + header.size]))
                offset = header.next_offset
        return found

    def headers(self) -> list[BatchHeader]:
        """Of all batches in the files, those of which nothing is left as well."""
        segments = self.log.segments
        return [header for s in segments for _, header in s.headers(0, s.size, checked=False)]

    def records(self) -> list[Record]:
        return [record for _, data in self.batches() for record in records.decode(data)]

    def offsets(self) -> list[int]:
        return [record.offset for record in self.records()]

    def table(self) -> dict[bytes | None, bytes]:
        """What a reader who folds the log holds in the end: key → value."""
        found = {record.key: record.value for record in self.records()}
        return {key: value for key, value in found.items() if value is not None}

    def expected_table(self) -> dict[bytes | None, bytes]:
        found = {record.key: record.value for _, record in sorted(self.written.items())}
        return {key: value for key, value in found.items() if value is not None}

    def names(self) -> list[str]:
        return self.files.list(self.folder)
