"""What must be true of one partition, kept as simply as possible: a list of batches and four numbers.

`world` tells the model what it did to the log and asks it what the log must show.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.record import batch as batches
from headwater.record.batch import BatchHeader
from headwater.record.records import Record


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it was handed to the log, with the offset that it was given."""

    base_offset: int
    data: bytes
    records: tuple[Record, ...]
    header: BatchHeader

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.records)

    def is_stored_as(self, found: bytes) -> bool:
        """The log may alter the base offset, as told, and the leader epoch; nothing else."""
        length = self.data[8:12]
        return found[:12] == self.base_offset.to_bytes(8, "big") + length and (
            found[16:] == self.data[16:]
        )


@dataclass(slots=True)
class Model:
    """One partition as it should be."""

    batches: list[Batch] = field(default_factory=list)
    """Everything staged and not lost since, also what lies before the start."""
    taken_end: int = 0
    """What was handed to a commit ends here: nothing beyond can have reached the disk."""
    durable_end: int = 0
    """What was acknowledged, or seen by a reader, ends here: it must never be lost."""
    start: int = 0
    durable_start: int = 0
    """The start offset that was last written down for good."""
    unused_end: int = 0
    """Offsets below this that no batch has were given up, and stay unused."""

    @property
    def next_offset(self) -> int:
        return max(self.unused_end, self.batches[-1].next_offset if self.batches else 0)

    def staged(self, data: bytes, base_offset: int, records: tuple[Record, ...]) -> None:
        moved = tuple(r._replace(offset=base_offset + i) for i, r in enumerate(records))
        self.batches.append(Batch(base_offset, data, moved, batches.read_header(data)))

    def reopened(self, start: int, end: int, *, may_lose: bool) -> None:
        """The log goes from `start` to `end` after a crash: is that possible? Then so it is."""
        if not may_lose:
            assert end >= self.durable_end, (
                f"acknowledged records lost: {self.durable_end - end} "
                f"(the log ends at {end}, {self.durable_end} was durable)"
            )
        assert end <= self.next_offset, f"the log ends at {end}, {self.next_offset} was never given"
        assert start >= min(self.durable_start, end), "deleted records are back"
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        nothing_durable = may_lose or self.durable_end <= max(self.start, self.durable_start)
        if start == end and nothing_durable:
            # All that is left is a name, or a checkpoint, that says where to go on.
            self.unused_end = end
        else:
            assert start <= max(self.start, self.durable_start), "records vanished in front"
            assert end <= self.taken_end, "records that were never handed to the disk"
        assert self.next_offset == end, f"the log ends at {end}, in the middle of a batch"
        self.taken_end = self.durable_end = end
        self.start = start

    def visible(self, offset: int, upper: int) -> list[Batch]:
        """The batches that a reader at `offset` must get, up to `upper`."""
        return [b for b in self.batches if b.next_offset > offset and b.base_offset < upper]

    def find_time(self, timestamp: int) -> tuple[int, int] | None:
        for batch in self.visible(self.start, self.durable_end):
            for record in batch.records:
                if record.offset >= self.start and record.timestamp >= timestamp:
                    return record.timestamp, record.offset
        return None

    def last_of_producer(self, producer_id: int) -> Batch | None:
        found = [b for b in self.batches if b.header.producer_id == producer_id]
        return found[-1] if found else None
