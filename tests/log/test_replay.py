"""Reading a log through: all of it, always to its end, and around what is damaged."""

from __future__ import annotations

from random import Random

import pytest

from headwater.log import integrity, replay
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.replay import Damage
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, NOW_MS, append, new_disk, new_log, opened

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=1)


def values(log: PartitionLog, offset: int = 0) -> tuple[list[bytes | None], list[Damage]]:
    damage: list[Damage] = []
    found = [each.value for b in replay.read(log, offset, damage.append) for each in b.records]
    return found, damage


def numbered(count: int) -> tuple[FaultyDisk, list[bytes]]:
    """A log in several segments whose values are their offsets, closed."""
    disk = new_disk()
    log, _ = opened(disk, CONFIG)
    written = [b"%04d" % number * 10 for number in range(count)]
    for value in written:
        append(log, value)
    log.close()
    return disk, written


def test_everything_is_read_from_any_offset() -> None:
    disk, written = numbered(30)
    log, _ = opened(disk.kill(), CONFIG, clean=True)
    assert len(log.segments) > 3
    for offset in range(31):
        assert values(log, offset) == (written[offset:], [])


def test_only_what_is_durable_is_read() -> None:
    log = new_log()
    append(log, b"a")
    data = records.build([Record(0, NOW_MS, b"k", b"b")])
    log.stage(data, batches.read_header(data), NOW_MS)
    assert values(log) == ([b"a"], [])


def test_what_lies_before_the_start_is_not_read() -> None:
    log = new_log()
    append(log, b"a", b"b", b"c")
    log.delete_before(2)
    assert values(log) == ([b"c"], [])


def test_a_flipped_bit_costs_its_own_batch_and_is_told_once() -> None:
    disk, written = numbered(30)
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    dice = Random(4)
    for _ in range(400):
        flipped = disk.kill()
        name = dice.choice(names)
        position = dice.randrange(disk.size(FOLDER / name))
        flipped.flip_bit(FOLDER / name, position, dice.randrange(8))
        log, _ = opened(flipped, CONFIG, recovery_point=len(written), clean=True)
        found, damage = values(log)
        if not damage:  # the leader epoch lies outside of every check, and is nobody's data
            assert found == written
            continue
        (one,) = damage
        lost = written[one.first_offset : one.next_offset]
        assert len(lost) == 1, one
        assert found == [value for value in written if value not in lost]
        assert one.file_position <= position < one.file_position + one.size
        assert f"offsets {one.first_offset} to {one.first_offset} cannot be read" in str(one)


def test_a_log_that_is_shorter_than_it_was_is_read_to_its_end() -> None:
    disk, written = numbered(9)
    name = next(name for name in reversed(disk.list(FOLDER)) if name.endswith(".log"))
    disk.open(FOLDER / name).truncate(0)
    log, report = opened(disk, CONFIG, clean=True)
    assert report.missing is not None
    found, _ = values(log)
    assert found == written[: len(found)]


def test_a_batch_whose_records_cannot_be_read_is_passed_over() -> None:
    log = new_log()
    append(log, b"a")
    data = records.build([Record(0, NOW_MS, b"k", b"b")])
    header = batches.read_header(data)
    bad = batches.pack(header._replace(record_count=7), data[61:])
    log.stage(bad, batches.read_header(bad), NOW_MS)
    log.flush()
    append(log, b"c")
    found, damage = values(log)
    assert found == [b"a", b"c"]
    assert [(one.first_offset, one.next_offset) for one in damage] == [(1, 2)]


# ---- integrity ---------------------------------------------------------------------------------------


def test_a_whole_log_has_no_problem_and_a_torn_tail_is_none() -> None:
    disk, written = numbered(20)
    assert integrity.problem(disk, FOLDER, 20) is None
    name = next(name for name in reversed(disk.list(FOLDER)) if name.endswith(".log"))
    size = disk.size(FOLDER / name)
    disk.open(FOLDER / name).write(size, [b"torn" * 30])
    assert integrity.problem(disk, FOLDER, 20) is None
    assert len(written) == 20


@pytest.mark.parametrize("witness", ["durable-offset", "checkpoint", "epochs", "snapshot"])
def test_one_witness_is_enough_to_know_that_a_log_was_longer(witness: str) -> None:
    disk, _ = numbered(3)
    log, _ = opened(disk, CONFIG, recovery_point=3)  # a new epoch, which begins at 3
    log.close()
    for name in disk.list(FOLDER):
        kept = {"durable-offset": "durable-offset", "epochs": "leader-epoch-checkpoint"}
        if name.endswith(".log") or name == kept.get(witness):
            continue
        if witness == "snapshot" and name.endswith(".snapshot"):
            continue
        disk.remove(FOLDER / name)
    path = FOLDER / f"{0:020d}.log"
    first = batches.read_header(disk.read_bytes(path) or b"")
    disk.open(path).truncate(first.size)
    found = integrity.problem(disk, FOLDER, 3 if witness == "checkpoint" else 0)
    assert found == "shorter than it was: offsets 1 to 2 are missing"


def test_a_segment_that_is_gone_is_missed_wherever_it_was() -> None:
    disk, _ = numbered(30)
    for name in [name for name in disk.list(FOLDER) if name.endswith(".log")]:
        without = disk.kill()
        if without.size(FOLDER / name):
            without.remove(FOLDER / name)
            assert "shorter than it was" in (integrity.problem(without, FOLDER, 30) or "")
