"""The faulty disk is a disk first: it must do what the real one does, and lose only what it may."""

from __future__ import annotations

import errno
from math import inf
from pathlib import Path
from random import Random

import pytest

from headwater.log.files import Files, FileSystem
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

HERE = Path("/here")


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk(seed=1)
    disk.make_dir(HERE)
    return disk


def crashes(disk: FaultyDisk, count: int = 200) -> list[FaultyDisk]:
    return [disk.crash(seed) for seed in range(count)]


def write(disk: FileSystem, name: str, data: bytes, *, sync: bool = False) -> None:
    file = disk.open(HERE / name, create=True)
    file.write(file.size(), [data])
    if sync:
        file.sync()
    file.close()


# ---- as the real disk ------------------------------------------------------------------------


def any_use(files: FileSystem, root: Path, seed: int) -> list[object]:
    """Random but legal calls; what they answer."""
    dice, seen = Random(seed), list[object]()
    for _ in range(60):
        path = root / dice.choice("abc")
        there = path.name in files.list(root)
        match dice.choice(("write", "read", "truncate", "atomic", "whole", "rename", "remove")):
            case "write":
                file = files.open(path, create=True)
                pieces = [dice.randbytes(dice.randint(0, 9)) for _ in range(3)]
                file.write(dice.randint(0, 30), pieces)
                file.sync()
                seen.append(file.size())
                file.close()
            case "read" if there:
                file = files.open(path)
                place = dice.randint(0, 40), dice.randint(1, 40)
                seen += [file.read(*place), file.read_cached(*place), files.size(path)]
                file.close()
            case "truncate" if there:
                file = files.open(path)
                file.truncate(dice.randint(0, 30))
                file.close()
            case "atomic":
                files.write_atomic(path, dice.randbytes(5))
            case "whole":
                files.write(path, dice.randbytes(dice.randint(0, 5)))
            case "rename" if there:
                files.rename(path, root / dice.choice("abcd"))
            case "remove":
                files.remove(path)
        files.sync_dir(root)
        seen += [files.list(root), files.read_bytes(path), files.list(root / "nowhere")]
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_it_answers_as_the_real_file_system_does(seed: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.make_dir(tmp_path)
    assert any_use(disk, tmp_path, seed) == any_use(Files(), tmp_path, seed)


def test_it_refuses_what_the_real_file_system_refuses(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.make_dir(tmp_path)
    for files in (Files(), disk):
        with pytest.raises(FileNotFoundError):
            files.open(tmp_path / "missing")
        with pytest.raises(FileNotFoundError):
            files.open(tmp_path / "nowhere" / "file", create=True)
        with pytest.raises(FileNotFoundError):
            files.size(tmp_path / "missing")
        with pytest.raises(FileNotFoundError):
            files.rename(tmp_path / "missing", tmp_path / "other")
        files.make_dir(tmp_path / "deep" / "deeper")
        files.write(tmp_path / "deep" / "deeper" / "file", b"x")
        files.remove_tree(tmp_path / "deep")
        files.remove_tree(tmp_path / "deep")
        assert files.list(tmp_path) == []


def test_a_lock_is_held_once_and_ends_with_the_process(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.make_dir(tmp_path)
    for files in (Files(), disk):
        release = files.lock(tmp_path / "lock")
        with pytest.raises(BlockingIOError):
            files.lock(tmp_path / "lock")
        release()
        files.lock(tmp_path / "lock")()
    disk.kill().lock(tmp_path / "lock")


# ---- power cuts ------------------------------------------------------------------------------


def test_what_was_synced_survives_every_crash(disk: FaultyDisk) -> None:
    write(disk, "log", b"durable", sync=True)
    disk.sync_dir(HERE)
    assert disk.is_durable(HERE / "log")
    write(disk, "log", b"maybe")
    assert not disk.is_durable(HERE / "log")
    for after in crashes(disk):
        assert (after.read_bytes(HERE / "log") or b"").startswith(b"durable")
        assert after.is_durable(HERE / "log")


def test_an_unsynced_write_comes_out_in_every_possible_way(disk: FaultyDisk) -> None:
    write(disk, "log", b"AAAA", sync=True)
    disk.sync_dir(HERE)
    write(disk, "log", b"BBBB")
    write(disk, "log", b"CCCC")
    found = {(after.read_bytes(HERE / "log") or b"")[4:] for after in crashes(disk, 6000)}
    assert b"" in found, "nothing of it"
    assert b"BBBBCCCC" in found, "all of it"
    assert b"BBBB" in found, "in order"
    assert bytes(4) + b"CCCC" in found, "the second without the first"
    assert {b"B", b"BB", b"BBB", b"BBBBC"} <= found, "torn at any byte"
    assert bytes(8) in found, "grown, but never written"
    assert b"AAAACCCC" in found, "older bytes of the file"
    assert any(set(rest) - set(b"ABC\0") for rest in found), "garbage"


def test_with_sectors_writes_are_torn_only_between_them() -> None:
    disk = FaultyDisk(sector_bytes=4)
    disk.make_dir(HERE)
    write(disk, "log", bytes(16), sync=True)
    disk.sync_dir(HERE)
    disk.open(HERE / "log").write(2, [b"x" * 12])
    for after in crashes(disk, 500):
        data = after.read_bytes(HERE / "log") or b""
        for start in range(0, 16, 4):
            assert len(set(data[start : start + 4]) - {0}) <= 1
            assert data[4:12].count(b"x"[0]) % 4 == 0


def test_names_may_come_and_go_until_the_directory_is_synced(disk: FaultyDisk) -> None:
    write(disk, "old", b"1", sync=True)
    disk.sync_dir(HERE)
    write(disk, "new", b"2", sync=True)
    disk.rename(HERE / "old", HERE / "moved")
    found = {tuple(after.list(HERE)) for after in crashes(disk)}
    assert found == {("old",), ("new", "old"), ("moved",), ("moved", "new")}
    disk = disk.kill()
    disk.sync_dir(HERE)
    assert {tuple(after.list(HERE)) for after in crashes(disk)} == {("moved", "new")}


def test_a_rename_without_a_sync_of_the_file_may_leave_an_empty_file(disk: FaultyDisk) -> None:
    write(disk, "checkpoint", b"before", sync=True)
    disk.sync_dir(HERE)
    write(disk, "checkpoint.tmp", b"after")
    disk.rename(HERE / "checkpoint.tmp", HERE / "checkpoint")
    disk.sync_dir(HERE)
    assert b"" in {after.read_bytes(HERE / "checkpoint") for after in crashes(disk)}


def test_an_atomic_write_leaves_the_old_or_the_new_whenever_the_power_goes(
    disk: FaultyDisk,
) -> None:
    disk.write_atomic(HERE / "checkpoint", b"before")
    outcomes = set()
    for steps in range(1, 8):
        trial = disk.kill()
        trial.stop_after(steps)
        try:
            trial.write_atomic(HERE / "checkpoint", b"after")
            outcomes.add("finished")
        except PowerCut:
            outcomes |= {after.read_bytes(HERE / "checkpoint") for after in crashes(trial, 50)}
    assert outcomes == {b"before", b"after", "finished"}


def test_a_kill_keeps_what_was_written_but_makes_nothing_durable(disk: FaultyDisk) -> None:
    write(disk, "log", b"written")
    after = disk.kill()
    assert after.read_bytes(HERE / "log") == b"written"
    assert not after.is_durable(HERE / "log")
    assert any(later.read_bytes(HERE / "log") != b"written" for later in crashes(after))


# ---- faults on demand ------------------------------------------------------------------------


def test_after_a_power_cut_nothing_works_any_more(disk: FaultyDisk) -> None:
    file = disk.open(HERE / "log", create=True)
    disk.stop_after(2)
    file.write(0, [b"one"])
    with pytest.raises(PowerCut):
        file.sync()
    for action in (file.sync, lambda: file.write(0, [b"x"]), lambda: file.read(0, 1)):
        with pytest.raises(PowerCut):
            action()


def test_the_same_seed_gives_the_same_crash(disk: FaultyDisk) -> None:
    for n in range(5):
        write(disk, f"file{n}", b"x" * 100)
    first, second = disk.crash(7), disk.crash(7)
    names = first.list(HERE)
    assert names == second.list(HERE)
    assert [first.read_bytes(HERE / n) for n in names] == [
        second.read_bytes(HERE / n) for n in names
    ]


def test_a_full_disk_writes_the_beginning_and_then_refuses(disk: FaultyDisk) -> None:
    disk.fail("write", errno.ENOSPC, after=1, times=inf, name="*.log")
    write(disk, "a.log", b"first")
    write(disk, "other", b"not a log")
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            write(disk, "a.log", b"second")
    assert (disk.read_bytes(HERE / "a.log") or b"").startswith(b"first")
    disk.heal()
    write(disk, "a.log", b"third")


def test_after_a_failed_sync_the_bytes_read_well_but_are_lost(disk: FaultyDisk) -> None:
    write(disk, "log", b"", sync=True)
    disk.sync_dir(HERE)
    disk.fail("sync")
    with pytest.raises(OSError, match="Input/output error"):
        write(disk, "log", b"lost", sync=True)
    write(disk, "log", b"", sync=True)
    assert disk.read_bytes(HERE / "log") == b"lost"
    assert all(after.read_bytes(HERE / "log") == b"" for after in crashes(disk))


def test_a_flipped_bit_stays_flipped(disk: FaultyDisk) -> None:
    write(disk, "log", b"\0\0\0\0", sync=True)
    disk.sync_dir(HERE)
    assert disk.flip_bit(HERE / "log", 2, 7) == 2
    assert disk.read_bytes(HERE / "log") == b"\0\0\x80\0"
    assert disk.crash().read_bytes(HERE / "log") == b"\0\0\x80\0"


def test_it_counts_what_it_is_asked_to_do(disk: FaultyDisk) -> None:
    steps = disk.steps
    write(disk, "log", b"12345", sync=True)
    disk.read_bytes(HERE / "log")
    assert disk.steps - steps == 3, "create, write, sync"
    assert (disk.counts["sync"], disk.bytes_written, disk.bytes_read) == (1, 5, 5)


def test_a_cold_disk_answers_nothing_from_its_cache(disk: FaultyDisk) -> None:
    write(disk, "log", b"12345")
    file = disk.open(HERE / "log")
    assert file.read_cached(0, 5) == b"12345"
    disk.cold = True
    assert file.read_cached(0, 5) is None
    assert file.read(0, 5) == b"12345"


# ---- what somebody does to it ----------------------------------------------------------------

FILE = HERE / "file"


def test_a_file_that_was_closed_is_not_to_be_used() -> None:
    """The real one would be opened again; whoever relies on that is found out here."""
    disk = disk_with(b"abc")
    file = disk.open(FILE)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)


def disk_with(data: bytes) -> FaultyDisk:
    disk = FaultyDisk(seed=1)
    disk.make_dir(HERE)
    write(disk, FILE.name, data, sync=True)
    disk.sync_dir(HERE)
    return disk


def test_a_descriptor_may_be_refused_to_whoever_opens_reads_lists_or_syncs() -> None:
    disk = disk_with(b"abc")
    for ask in (disk.open, disk.read_bytes, lambda path: disk.list(path.parent)):
        disk.fail("open", errno.EMFILE)
        with pytest.raises(OSError, match="Too many open files"):
            ask(FILE)
    assert disk.read_bytes(FILE) == b"abc"


def test_a_full_disk_takes_what_fits_and_has_room_again_when_something_is_removed() -> None:
    disk = disk_with(b"12345")
    disk.capacity_bytes = 8
    other = disk.open(FILE.with_name("other"), create=True)
    with pytest.raises(OSError, match="No space left"):
        other.write(0, [b"abcdef"])
    assert other.read(0, 10) == b"abc"
    disk.remove(FILE)
    other.write(3, [b"def"])
    assert disk.used_bytes == 6


def test_what_somebody_removes_or_cuts_is_gone_for_good() -> None:
    disk = disk_with(b"12345")
    before = disk.copy()
    disk.cut_short(FILE, 2)
    assert disk.crash().read_bytes(FILE) == b"12"
    disk.lose(FILE)
    assert disk.crash().read_bytes(FILE) is None
    assert FILE not in disk.all_files()
    disk.put_back(before, FILE)
    assert disk.crash().read_bytes(FILE) == b"12345"


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_may_be_told_what_to_do(seed: int) -> None:
    disk = disk_with(b"12345")
    disk.open(FILE).write(5, [b"67890"])
    assert disk.copy().crash(seed, "lost").read_bytes(FILE) == b"12345"
    corrupt = disk.copy().crash(seed, "corrupt").read_bytes(FILE)
    assert corrupt is not None and len(corrupt) == 10 and corrupt[:5] == b"12345"
