"""Many segments in one commit: by the timestamps that they stamp, clients have a log roll at each batch."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from headwater.log import checkpoints
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.partition import PartitionLog
from headwater.log.segment import file_name
from headwater.record import batch as batches
from headwater.record import control
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

from .plain import FOLDER, NOW_MS, append, batch_of, new_disk, new_log, opened, read_on

DAYS_8_MS = 8 * 24 * 3_600_000
"""More than segment.ms: the next batch is for a segment of its own."""
SILENT, BUSY, ABORTED, OPEN = 6, 7, 8, 9
ROLLS = 24


def rolling() -> list[bytes]:
    """A batch of BUSY for each of so many segments; a transaction is aborted among them, another begun."""
    found: list[bytes] = []
    for n in range(1, ROLLS + 1):
        at = NOW_MS + n * DAYS_8_MS
        found.append(produced(BUSY, n, at))
        if n in (6, 9):
            found.append(produced(ABORTED if n == 6 else OPEN, 0, at, is_transactional=True))
        if n == 14:
            found.append(control.marker(control.ABORT, ABORTED, 0, 0, at, 0))
    return found


def produced(who: int, sequence: int, at: int, *, is_transactional: bool = False) -> bytes:
    return batch_of(
        b"%d of %d" % (sequence, who),
        timestamp=at,
        producer_id=who,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=is_transactional,
    )


def stage_all(log: PartitionLog, data: Sequence[bytes]) -> None:
    for each in data:
        log.stage(each, batches.read_header(each), NOW_MS)


def begun(disk: FaultyDisk) -> PartitionLog:
    log = new_log(disk)
    for who in (SILENT, BUSY):
        stage_all(log, [produced(who, 0, NOW_MS)])
        log.flush()
    return log


def known(log: PartitionLog) -> tuple[list[tuple[int, ...]], list[AbortedTransaction], int]:
    """What it has of its producers, but for when they were seen; and of transactions."""
    rows = struct.iter_unpack(">qhiqiqiq", log.producers.to_bytes()[10:])
    found = sorted((*row[:5], *row[6:]) for row in rows)
    return found, log.aborted_between(0, 1000), log.last_stable_offset()


def without_snapshots(disk: FaultyDisk) -> FaultyDisk:
    for name in disk.list(FOLDER):
        if name.endswith(".snapshot"):
            disk.remove(FOLDER / name)
    return disk


def test_however_often_a_commit_rolls_it_holds_its_producers_once() -> None:
    log = new_log()
    for who in range(500):
        append(log, b"v", producer_id=1000 + who, producer_epoch=0, base_sequence=0)
    stage_all(log, rolling())
    commit = log.take()
    assert commit is not None
    assert len(commit.sealed) == ROLLS
    assert sum(len(data) for _, data in commit.snapshots) <= len(log.producers.to_bytes())


def test_the_snapshot_of_a_clean_stop_is_of_the_end_though_one_of_a_roll_waits() -> None:
    disk = new_disk()
    log = begun(disk)
    stage_all(log, rolling())
    log.close()
    names = [name for name in disk.list(FOLDER) if name.endswith(".snapshot")]
    assert names[-1] == file_name(log.next_offset, ".snapshot")
    clean, _ = opened(disk.kill(), log.config, recovery_point=log.next_offset, clean=True)
    assert known(clean) == known(log)


@pytest.mark.parametrize("how", ["close", "kill", "crash"])
@pytest.mark.parametrize("commits", [1, 2, 5])
def test_segments_without_a_snapshot_are_read_for_their_producers(how: str, commits: int) -> None:
    disk, data = new_disk(), rolling()
    log, size = begun(disk), -(-len(data) // commits)
    for commit in range(commits):
        stage_all(log, data[commit * size : (commit + 1) * size])
        log.flush()
    expected, values = known(log), read_on(log)
    if how == "close":
        log.close()
    again, _ = opened(disk.crash() if how == "crash" else disk.kill(), log.config)
    assert known(again)[:2] == expected[:2]
    assert read_on(again)[: len(values)] == values


def test_a_power_cut_at_any_step_of_such_a_commit_loses_no_producer() -> None:
    """What a start believes of the snapshots that are there is what all of the log says."""
    step, cut = 0, True
    while cut:
        step += 1
        disk = new_disk()
        log = begun(disk)
        stage_all(log, rolling())
        disk.stop_after(step)
        try:
            log.flush()
            cut = False
        except PowerCut:
            pass
        for seed in range(3):
            restarted = disk.crash(seed)
            whole, _ = opened(without_snapshots(restarted.copy()), log.config)
            again, _ = opened(restarted, log.config)
            assert known(again) == known(whole), f"step {step}, seed {seed}"
            assert {row[0] for row in known(again)[0]} >= {SILENT, BUSY}
    assert step > ROLLS


def test_a_producer_is_known_after_a_kill_though_all_but_the_last_segment_are_removed() -> None:
    """Whose batches lay in front of them: its retry must not be stored again."""
    disk = new_disk()
    log = begun(disk)
    stage_all(log, rolling())
    log.flush()
    removed = log.drop_front(len(log.segments) - 1)
    checkpoints.write_start_offset(disk, FOLDER, log.start_offset)
    for segment in removed:
        segment.remove()
    again, _ = opened(disk.kill(), log.config, recovery_point=log.durable_offset)
    retry = produced(SILENT, 0, NOW_MS)
    assert again.check_producer(batches.read_header(retry)) is not None
    assert known(again) == known(log)
