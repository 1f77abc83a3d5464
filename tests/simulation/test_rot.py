"""Bits that flip in stored data: an error for who reads them, never other data, and only for those."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.recovery import open_partition
from headwater.log.segment import CorruptSegment
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.errors import RecordError
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

from .model import Batch, Model
from .plan import SOAK

FOLDER = Path("/topic-0")
CONFIG = LogConfig(segment_bytes=1800, index_interval_bytes=1)
NOW_MS = 1_700_000_000_000
FLIPS = 20_000 if SOAK else 800


def filled() -> tuple[FaultyDisk, Model]:
    """Three segments of batches, cleanly closed."""
    disk, model, dice = FaultyDisk(), Model(), Random(5)
    disk.make_dir(FOLDER)
    log, _ = open_partition(disk, FOLDER, CONFIG, NOW_MS)
    for _ in range(30):
        count = dice.choice((1, 1, 3))
        found = tuple(
            Record(i, NOW_MS + dice.randint(0, 99), b"k", dice.randbytes(60)) for i in range(count)
        )
        data = records.build(found, codec=dice.choice((0, 0, 1, 4)))
        model.staged(data, log.stage(data, batches.read_header(data), NOW_MS), found)
        log.flush()
    log.close()
    return disk, model


DISK, MODEL = filled()
LOGS = [name for name in DISK.list(FOLDER) if name.endswith(".log")]


def damaged(name: str, position: int, bit: int) -> PartitionLog:
    disk = DISK.kill()
    disk.flip_bit(FOLDER / name, position, bit)
    log, _ = open_partition(
        disk, FOLDER, CONFIG, NOW_MS, recovery_point=MODEL.next_offset, clean=True
    )
    return log


def whole(log: PartitionLog, batch: Batch) -> bool:
    """Whether the batch is served; asserts that nothing else is served in its place."""
    try:
        data = log.read(batch.base_offset, 10_000)
    except CorruptSegment:
        return False
    assert data is not None and len(data), f"offset {batch.base_offset} passed over in silence"
    assert batch.is_stored_as(bytes(data)[: len(batch.data)]), "altered data"
    for at, header in batches.scan(bytes(data)):
        other = next(b for b in MODEL.batches if b.base_offset == header.base_offset)
        assert other.is_stored_as(bytes(data)[at : at + header.size]), "altered data further on"
    return True


def test_there_is_something_to_damage() -> None:
    assert len(LOGS) >= 3
    assert all(whole(damaged(LOGS[0], 12, 0), batch) for batch in MODEL.batches[1:])


def test_a_flipped_bit_is_an_error_for_its_own_batch_only() -> None:
    dice = Random(11)
    for _ in range(FLIPS):
        name = dice.choice(LOGS)
        position, bit = dice.randrange(DISK.size(FOLDER / name)), dice.randrange(8)
        log = damaged(name, position, bit)
        missing = [batch.base_offset for batch in MODEL.batches if not whole(log, batch)]
        where = f"bit {bit} of byte {position} of {name}"
        assert len(missing) <= 1, f"{where} costs {missing}"


def test_appending_goes_on_behind_damage() -> None:
    dice = Random(12)
    for _ in range(FLIPS // 10):
        name = dice.choice(LOGS)
        log = damaged(name, dice.randrange(DISK.size(FOLDER / name)), dice.randrange(8))
        data = records.build([Record(0, NOW_MS, b"k", b"new")])
        offset = log.stage(data, batches.read_header(data), NOW_MS)
        assert offset >= MODEL.next_offset, "an offset given twice"
        log.flush()
        assert records.decode(bytes(log.read(offset, 1) or b""))[0].value == b"new"


def test_damage_in_an_index_costs_nothing_but_time() -> None:
    dice = Random(13)
    names = [n for n in DISK.list(FOLDER) if n.endswith(".index") and DISK.size(FOLDER / n)]
    for _ in range(FLIPS // 10):
        name = dice.choice(names)
        position, bit = dice.randrange(DISK.size(FOLDER / name)), dice.randrange(8)
        log = damaged(name, position, bit)
        missing = [batch.base_offset for batch in MODEL.batches if not whole(log, batch)]
        assert not missing, f"bit {bit} of byte {position} of {name} costs {missing}"


@pytest.mark.parametrize(
    "name", [n for n in DISK.list(FOLDER) if not n.endswith((".log", ".index"))]
)
def test_damage_in_any_other_file_loses_no_record(name: str) -> None:
    for position in range(DISK.size(FOLDER / name)):
        log = damaged(name, position, position % 8)
        assert all(whole(log, batch) for batch in MODEL.batches)
        try:
            log.find_time(NOW_MS + 50)
        except RecordError:
            pass


def test_a_lookup_by_time_never_answers_from_damaged_records() -> None:
    dice = Random(14)
    offsets = {record.offset: record.timestamp for record in MODEL.records()}
    for _ in range(FLIPS // 4):
        name = dice.choice(LOGS)
        log = damaged(name, dice.randrange(DISK.size(FOLDER / name)), dice.randrange(8))
        try:
            found = log.find_time(NOW_MS + dice.randint(0, 99))
        except RecordError:
            continue
        assert found is None or offsets.get(found.offset, found.timestamp) == found.timestamp
