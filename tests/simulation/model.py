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
    cleaned_end: int = 0
    """Compaction may have been up to here: of each key only the newest record must be there."""
    unused_end: int = 0
    """Offsets below this that no batch has were given up, and stay unused."""

    first_producer_id: int = 0
    """Producers whose past is lost give up, and others take their place."""

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
            if may_lose:
                self.batches.clear()
                self.first_producer_id += 100
        else:
            assert start <= max(self.start, self.durable_start), "records vanished in front"
            assert end <= self.taken_end, "records that were never handed to the disk"
        assert self.next_offset == end, f"the log ends at {end}, in the middle of a batch"
        self.taken_end = self.durable_end = end
        self.start = start

    def visible(self, offset: int, upper: int) -> list[Batch]:
        """The batches that a reader at `offset` must get, up to `upper`."""
        return [b for b in self.batches if b.next_offset > offset and b.base_offset < upper]

    def records(self) -> list[Record]:
        """Every record that a reader may see."""
        visible = self.visible(self.start, self.durable_end)
        return [record for batch in visible for record in batch.records]

    def check_compacted(self, found: list[Record]) -> None:
        """Compaction may leave out what is not the newest of its key, and nothing else."""
        stored = {record.offset: record for record in self.records()}
        for record in found:
            assert record == stored.get(record.offset), f"{record} was never stored"
        there = {record.offset for record in found}
        newest = {r.key: r for r in stored.values() if r.offset >= self.start}
        for record in stored.values():
            if record.offset in there or record.offset < self.start:
                continue
            assert record.offset < self.cleaned_end, f"{record} vanished without compaction"
            last = newest[record.key]
            assert record is not last or record.value is None, f"the newest of its key: {record}"
            if last.offset not in there:  # a tombstone that has gone must have taken all before it
                left = [r for r in found if r.key == last.key and r.offset >= self.start]
                assert not left, f"a deleted key came back: {left[0]}"

    def last_of_producer(self, producer_id: int) -> Batch | None:
        found = [b for b in self.batches if b.header.producer_id == producer_id]
        return found[-1] if found else None
