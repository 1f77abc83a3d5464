"""Segments are exchanged whole, whatever happens in between. Names only: what the files mean does not
matter here, except that the last batch of a new segment tells how far it reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log import swap
from headwater.log.files import FileSystem
from headwater.log.segment import file_name
from headwater.record import records
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

FOLDER = Path("/topic-0")
INDEXES = (".index", ".timeindex")
BASES = range(0, 60, 10)
NEW = {0: 30, 30: 50}
"""Six segments of ten offsets; the first three become one, and the next two; the last one stays."""


def contents(base: int, end: int) -> bytes:
    """A segment of one empty batch."""
    return records.build([], base_offset=base, last_offset_delta=end - base - 1)


def put(files: FileSystem, name: str, data: bytes) -> None:
    file = files.open(FOLDER / name, create=True)
    file.write(0, [data])
    file.sync()
    file.close()


def prepared(seed: int = 0) -> FaultyDisk:
    """Old segments, and new ones beside them."""
    disk = FaultyDisk(seed)
    disk.make_dir(FOLDER)
    for base in BASES:
        put(disk, file_name(base, ".log"), contents(base, base + 10))
        for suffix in INDEXES:
            put(disk, file_name(base, suffix), b"")
    put(disk, file_name(0, ".txnindex"), b"old")
    for base, end in NEW.items():
        put(disk, file_name(base, ".log.cleaned"), contents(base, end))
        for suffix in INDEXES:
            put(disk, file_name(base, suffix + ".cleaned"), b"")
    put(disk, file_name(0, ".txnindex.cleaned"), b"new")
    disk.sync_dir(FOLDER)
    return disk


def exchange(disk: FaultyDisk) -> None:
    swap.decide(disk, FOLDER, list(NEW))
    swap.finish(disk, FOLDER, NEW)


def found(disk: FaultyDisk) -> dict[str, bytes]:
    return {name: disk.read_bytes(FOLDER / name) or b"" for name in disk.list(FOLDER)}


def after(decided: int) -> dict[str, bytes]:
    """The folder when so many of the new segments count."""
    disk = FaultyDisk()
    disk.make_dir(FOLDER)
    new = dict(list(NEW.items())[:decided])
    gone = {base for base in BASES if any(low < base < high for low, high in new.items())}
    for base in set(BASES) - gone:
        put(disk, file_name(base, ".log"), contents(base, new.get(base, base + 10)))
        for suffix in INDEXES:
            put(disk, file_name(base, suffix), b"")
    put(disk, file_name(0, ".txnindex"), b"new" if 0 in new else b"old")
    return found(disk)


def test_new_segments_take_the_place_of_old_ones() -> None:
    disk = prepared()
    exchange(disk)
    assert found(disk) == after(2)


def test_a_start_forgets_what_was_not_decided() -> None:
    disk = prepared()
    put(disk, "00000000000000000000.log.deleted", b"")
    put(disk, "leader-epoch-checkpoint.tmp", b"")
    swap.tidy(disk, FOLDER)
    assert found(disk) == after(0)


def test_a_start_leaves_a_tidy_folder_alone() -> None:
    disk = prepared()
    swap.forget(disk, FOLDER)
    before = disk.steps
    swap.tidy(disk, FOLDER)
    assert disk.steps == before
    assert found(disk) == after(0)


def steps_of_an_exchange() -> range:
    disk = prepared()
    before = disk.steps
    exchange(disk)
    return range(1, disk.steps - before + 1)


@pytest.mark.parametrize("step", steps_of_an_exchange())
def test_a_power_cut_at_any_step_leaves_old_or_new(step: int) -> None:
    disk = prepared(step)
    disk.stop_after(step)
    with pytest.raises(PowerCut):
        exchange(disk)
    outcomes = [after(decided) for decided in range(3)]
    for seed in range(12):
        restarted = disk.crash(seed)
        swap.tidy(restarted, FOLDER)
        assert found(restarted) in outcomes, f"step {step}, seed {seed}"


@pytest.mark.parametrize("step", steps_of_an_exchange())
def test_the_start_after_a_power_cut_may_be_cut_short_too(step: int) -> None:
    disk = prepared(step)
    disk.stop_after(step)
    with pytest.raises(PowerCut):
        exchange(disk)
    outcomes = [after(decided) for decided in range(3)]
    for seed in range(4):
        for again in range(1, 30):
            restarted = disk.crash(seed)
            restarted.stop_after(again)
            try:
                swap.tidy(restarted, FOLDER)
                break
            except PowerCut:
                last = restarted.crash(again)
                swap.tidy(last, FOLDER)
                assert found(last) in outcomes, f"steps {step} and {again}, seed {seed}"


def test_once_decided_a_kill_changes_nothing() -> None:
    disk = prepared()
    swap.decide(disk, FOLDER, list(NEW))
    killed = disk.kill()
    swap.tidy(killed, FOLDER)
    assert found(killed) == after(2)


def test_a_swap_that_kafka_left_behind_is_finished() -> None:
    disk = prepared()
    swap.forget(disk, FOLDER)
    put(disk, file_name(10, ".log.swap"), contents(10, 40))
    swap.tidy(disk, FOLDER)
    logs = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    assert logs == [file_name(base, ".log") for base in (0, 10, 40, 50)]
    assert disk.read_bytes(FOLDER / logs[1]) == contents(10, 40)


def test_an_empty_segment_can_replace_an_empty_one() -> None:
    disk = FaultyDisk()
    disk.make_dir(FOLDER)
    for name in (".log", ".index", ".log.swap"):
        put(disk, file_name(5, name), b"")
    swap.tidy(disk, FOLDER)
    assert disk.list(FOLDER) == [file_name(5, ".index"), file_name(5, ".log")]
