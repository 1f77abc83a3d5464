"""The data folder: whose it is, who holds it, how it was left."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from headwater.broker.inspection.folder import CannotLook, hold
from headwater.errors import HeadwaterError
from headwater.log import checkpoints
from headwater.log.config import LogConfig
from headwater.log.files import Files
from headwater.log.store import LOCK, FolderInUse, LogStore
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk, PowerCut

from .plain import append, read_on, stage

ROOT = Path("/data")
CONFIG = LogConfig()


def opened(disk: FaultyDisk, node_id: int = 1) -> LogStore:
    store = LogStore(disk, ROOT, ManualClock().now_ms)
    store.open(node_id)
    store.begin()
    return store


def test_a_folder_keeps_its_identity() -> None:
    disk = FaultyDisk()
    first = opened(disk)
    again = opened(disk.crash())
    assert again.cluster_id == first.cluster_id
    assert again.directory_id == first.directory_id
    assert len(first.cluster_id) == 22


@pytest.mark.parametrize("lost", ["cluster.id", "directory.id"])
def test_an_id_that_was_lost_is_made_up_once(lost: str) -> None:
    disk = FaultyDisk()
    opened(disk)
    path = ROOT / "meta.properties"
    lines = (disk.read_bytes(path) or b"").decode().splitlines(keepends=True)
    disk = disk.kill()
    disk.write(path, "".join(each for each in lines if lost not in each).encode())
    first = opened(disk)
    again = opened(disk.kill())
    assert (again.cluster_id, again.directory_id) == (first.cluster_id, first.directory_id)


def test_meta_properties_are_kafkas() -> None:
    disk = FaultyDisk()
    store = opened(disk, node_id=7)
    lines = (disk.read_bytes(ROOT / "meta.properties") or b"").decode().splitlines()
    assert f"cluster.id={store.cluster_id}" in lines
    assert "node.id=7" in lines
    assert "version=1" in lines


def test_another_node_is_kept_out() -> None:
    disk = FaultyDisk()
    opened(disk, node_id=1)
    with pytest.raises(HeadwaterError, match="belongs to node 1, not to node 2"):
        opened(disk.kill(), node_id=2)


def test_a_second_broker_is_kept_out(tmp_path: Path) -> None:
    first = LogStore(Files(), tmp_path, ManualClock().now_ms)
    first.open(1)
    second = LogStore(Files(), tmp_path, ManualClock().now_ms)
    with pytest.raises(HeadwaterError, match="in use by another broker"):
        second.open(1)
    (tmp_path / LOCK).unlink()  # by somebody who takes it for a stale one
    with pytest.raises(HeadwaterError, match="in use by another broker"):
        second.open(1)
    for exclusive in (False, True):
        with pytest.raises(CannotLook, match="in use by a running broker"):
            hold(tmp_path, exclusive=exclusive)
    first.unlock()
    second.open(1)
    second.unlock()


def test_a_clean_stop_is_known_once() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    append(store.open_log("t", 0, CONFIG), b"a")
    store.close()
    again = opened(disk := disk.crash())
    assert again.clean
    assert read_on(again.open_log("t", 0, CONFIG)) == [b"a"]
    assert not opened(disk.crash()).clean


def test_a_partition_has_a_folder_with_its_topic_id() -> None:
    disk = FaultyDisk()
    opened(disk).open_log("orders", 3, CONFIG, uuid.UUID(int=5))
    assert "partition.metadata" in disk.list(ROOT / "orders-3")
    assert b"topic_id: AAAAAAAAAAAAAAAAAAAABQ" in (
        disk.read_bytes(ROOT / "orders-3" / "partition.metadata") or b""
    )


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_of_a_topic_id_costs_a_known_partition_nothing(bit: int) -> None:
    disk, topic = FaultyDisk(), uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
    store = opened(disk)
    append(store.open_log("t", 0, CONFIG, topic), b"a")
    store.close()
    path = ROOT / "t-0" / "partition.metadata"
    content = disk.read_bytes(path) or b""
    for position in range(len(content)):
        harmed = disk.kill()
        broken = bytearray(content)
        broken[position] ^= 1 << bit
        harmed.write(path, bytes(broken))
        again = opened(harmed)
        again.tidy({("t", 0): topic})
        assert read_on(again.open_log("t", 0, CONFIG, topic, is_new=False)) == [b"a"]
        assert not again.set_aside
        assert checkpoints.read_topic_id(harmed, ROOT / "t-0") == topic


@pytest.mark.parametrize("how", ["removed", "another topic's"])
def test_a_partition_whose_folder_was_replaced_never_goes_back_to_offset_zero(how: str) -> None:
    disk, topic = FaultyDisk(), uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
    store = opened(disk)
    append(store.open_log("t", 0, CONFIG, topic), b"a", b"b")
    store.close()
    disk = disk.kill()
    if how == "removed":
        disk.remove_tree(ROOT / "t-0")
    else:
        checkpoints.write_topic_id(disk, ROOT / "t-0", uuid.UUID(int=5))
    again = opened(disk)
    again.tidy({("t", 0): topic})
    log = again.open_log("t", 0, CONFIG, topic, is_new=False)
    assert append(log, b"c") == 2
    assert len(again.set_aside) == (how != "removed")


def test_a_removed_log_is_gone_and_begins_again_at_zero() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, CONFIG)
    append(log, b"a", b"b")
    log.delete_before(2)
    store.checkpoint()
    store.remove_log("t", 0)
    assert not [name for name in disk.list(ROOT) if name.startswith("t-0")]
    again = store.open_log("t", 0, CONFIG)
    assert (again.start_offset, again.next_offset) == (0, 0)
    store.remove_log("t", 0)
    store.remove_log("t", 0)


def test_a_removal_that_was_interrupted_leaves_all_or_nothing_of_the_folder() -> None:
    for steps in range(1, 12):
        disk = FaultyDisk()
        store = opened(disk)
        append(store.open_log("t", 0, CONFIG), b"a", b"b")
        disk.stop_after(steps)
        try:
            store.remove_log("t", 0)
        except PowerCut:
            pass
        for seed in range(20):
            again = opened(disk.crash(seed))
            again.tidy({})
            log = again.open_log("t", 0, CONFIG)
            assert read_on(log, log.start_offset) in ([], [b"a", b"b"]), steps


def test_folders_that_nobody_knows_are_set_aside_and_those_of_deleted_topics_removed() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    known, stranger, deleted = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=4)
    append(store.open_log("kept", 0, CONFIG, known), b"a")
    append(store.open_log("lost", 0, CONFIG, stranger), b"b")
    append(store.open_log("renewed", 0, CONFIG, stranger), b"c")
    append(store.open_log("gone", 0, CONFIG, deleted), b"d")
    store.open_log("empty", 0, CONFIG, stranger)
    disk.make_dir(ROOT / "not a partition")
    again = opened(disk := disk.kill())
    again.deleted = {deleted}
    renewed = uuid.uuid5(uuid.NAMESPACE_OID, "renewed")
    again.tidy({("kept", 0): known, ("renewed", 0): renewed})
    folders = [name for name in disk.list(ROOT) if "-0" in name]
    assert [re.sub("[0-9a-f]{32}", "HEX", name) for name in folders] == [
        "kept-0",
        "lost-0.HEX-stray",
        "renewed-0.HEX-stray",
    ]
    assert "not a partition" in disk.list(ROOT)
    assert [path.name for path in again.set_aside] == folders[1:]
    assert disk.size(again.set_aside[0] / f"{0:020d}.log") > 0


def test_a_name_of_the_longest_kind_can_be_set_aside(tmp_path: Path) -> None:
    store = LogStore(Files(), tmp_path, ManualClock().now_ms)
    store.open(1)
    append(store.open_log("x" * 249, 0, CONFIG, uuid.UUID(int=1)), b"a")
    store.close()
    again = LogStore(Files(), tmp_path, ManualClock().now_ms)
    again.open(1)
    again.tidy({})
    (stray,) = again.set_aside
    assert stray.is_dir()
    assert stray.name.startswith("x" * 200)
    again.unlock()


def test_a_folder_in_use_is_never_renamed_removed_or_opened_twice() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    append(store.open_log("t", 0, CONFIG, uuid.UUID(int=1)), b"a")
    for wrong in (None, uuid.UUID(int=1), uuid.UUID(int=2)):
        with pytest.raises(FolderInUse, match="in use"):
            store.open_log("t", 0, CONFIG, wrong)
    with pytest.raises(FolderInUse, match="in use"):
        store._remove_folder(ROOT / "t-0")
    with pytest.raises(FolderInUse, match="in use"):
        store._set_aside(ROOT / "t-0")
    store.deleted = {uuid.UUID(int=1)}
    store.tidy({})
    assert "t-0" in disk.list(ROOT)
    assert read_on(store.logs["t", 0]) == [b"a"]


def test_checkpoints_of_an_earlier_topic_of_that_name_are_never_believed() -> None:
    """Deleted, made again, filled; the power fails before each of the disk's steps."""
    disk = FaultyDisk()
    store = opened(disk)
    old, new = uuid.UUID(int=1), uuid.UUID(int=2)
    log = store.open_log("t", 0, CONFIG, old)
    append(log, *([b"old"] * 9))
    log.delete_before(9)
    log.cleaned_offset = 8
    store.checkpoint()
    moments: list[tuple[FaultyDisk, int]] = []
    count = 0
    disk.before_each_step(lambda: moments.append((disk.copy(), count)))
    store.remove_log("t", 0)
    log = store.open_log("t", 0, CONFIG, new)
    for _ in range(4):
        append(log, b"new")
        count += 1
    disk.before_each_step(None)
    moments.append((disk.copy(), 4))
    for number, (moment, acknowledged) in enumerate(moments):
        for seed in range(6):
            after = moment.kill() if seed == 0 else moment.crash(10 * number + seed)
            again = opened(after)
            again.deleted = {old}
            again.tidy({("t", 0): new})
            log = again.open_log("t", 0, CONFIG, new)
            assert (log.start_offset, log.cleaned_offset) == (0, 0), number
            assert len(read_on(log)) >= acknowledged, number


def test_a_checkpoint_during_the_start_keeps_what_it_says_of_logs_that_are_not_open_yet() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    for topic in ("a", "b"):
        log = store.open_log(topic, 0, CONFIG)
        append(log, b"1", b"2", b"3")
        log.delete_before(2)
    store.checkpoint()
    again = opened(disk := disk.kill())
    append(again.open_log("a", 0, CONFIG), b"4")
    again.checkpoint()
    after = opened(disk.kill())
    assert after.open_log("b", 0, CONFIG).start_offset == 2


def test_what_an_earlier_topic_synced_is_not_taken_for_the_new_ones_recovery_point() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    lazy = LogConfig(durability="os")
    old = store.open_log("t", 0, lazy, uuid.UUID(int=1))
    append(old, b"a", b"b")
    sync = old.sync

    def removed_meanwhile() -> None:
        sync()
        store.remove_log("t", 0)
        store.open_log("t", 0, lazy, uuid.UUID(int=2))

    old.sync = removed_meanwhile  # type: ignore[method-assign]
    store.sync_lazy()
    store.checkpoint()
    again = opened(disk.kill()).open_log("t", 0, lazy, uuid.UUID(int=2))
    assert again.next_offset == 0


def test_deleted_records_stay_deleted_after_a_power_cut() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, CONFIG)
    append(log, b"a", b"b", b"c")
    log.delete_before(2)
    store.checkpoint_starts()
    for seed in range(20):
        assert opened(disk.crash(seed)).open_log("t", 0, CONFIG).start_offset == 2


def test_checkpoints_are_written_only_when_something_has_changed() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    append(store.open_log("t", 0, CONFIG), b"a")
    store.checkpoint()
    steps = disk.steps
    store.checkpoint()
    assert disk.steps == steps


def test_a_checkpoint_never_runs_ahead_of_the_disk() -> None:
    for durability in ("disk", "os"):
        disk = FaultyDisk()
        store = opened(disk)
        log = store.open_log("t", 0, LogConfig(durability=durability))
        append(log, b"a")
        store.checkpoint()
        append(log, b"b")
        store.sync_lazy()
        store.checkpoint()
        append(log, b"c")
        for seed in range(30):
            again = opened(disk.crash(seed)).open_log("t", 0, log.config)
            assert read_on(again)[:2] == [b"a", b"b"]


def test_what_was_written_without_a_sync_is_synced_though_the_log_is_lazy_no_longer() -> None:
    """Nothing may ever be written to it again."""
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LogConfig(durability="os"))
    append(log, b"a")
    log.config = LogConfig(durability="disk")
    store.sync_lazy()
    store.checkpoint()
    again = opened(disk.crash(outcome="lost")).open_log("t", 0, log.config)
    assert read_on(again) == [b"a"]


def test_a_commit_that_has_yet_to_sync_what_others_wrote_keeps_the_recovery_point_back() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LogConfig(durability="os"))
    append(log, b"a")
    log.config = LogConfig(durability="disk")
    stage(log, b"b")
    commit = log.take()
    assert commit is not None
    store.sync_lazy()  # in another thread
    assert log.synced_offset == 0
    commit.run()
    log.finish(commit)
    assert log.synced_offset == 2


@pytest.mark.parametrize("rolls", [False, True])
def test_what_is_being_written_while_others_are_synced_is_synced_later(rolls: bool) -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, LogConfig(durability="os"))
    append(log, b"a")
    stage(log, b"b")
    if rolls:
        log.roll(0)
    commit = log.take()
    assert commit is not None
    store.sync_lazy()  # in another thread, between the two
    store.checkpoint()
    commit.run()
    log.finish(commit)
    store.close()
    for seed in range(50):
        again = opened(disk.crash(seed)).open_log("t", 0, log.config)
        assert read_on(again) == [b"a", b"b"]


def test_a_log_that_was_emptied_never_goes_back_to_offset_zero() -> None:
    disk = FaultyDisk()
    store = opened(disk)
    log = store.open_log("t", 0, CONFIG)
    append(log, b"a", b"b", b"c")
    log.delete_before(3)  # not yet written down
    log.roll(0)
    stage(log, b"d")
    disk.fail("write", name="*3.log")
    with pytest.raises(OSError, match="Input/output"):
        log.flush()
    moments: list[FaultyDisk] = []
    disk.before_each_step(lambda: moments.append(disk.copy()))
    store.reopen_log("t", 0)
    for number, moment in enumerate(moments):
        for seed in range(10):
            again = opened(moment.crash(10 * number + seed)).open_log("t", 0, CONFIG)
            assert again.next_offset == 3


def test_how_long_the_catalogue_was_is_known_after_any_power_cut() -> None:
    config = LogConfig(compact=True, delete=False, syncs_durable_offset=True)
    disk = FaultyDisk()
    log = opened(disk).open_log("catalogue", 0, config)
    for number in range(5):
        append(log, b"a")
        for seed in range(20):
            crashed = disk.copy().crash(seed)
            found = checkpoints.read_durable_offset(crashed, ROOT / "catalogue-0")
            assert found == number + 1
