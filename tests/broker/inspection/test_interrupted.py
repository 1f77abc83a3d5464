"""A repair that is killed between any two steps leaves a folder that the next one takes up."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from headwater.broker.catalogue import LOG_NAME
from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.repair import repair
from headwater.log import checkpoints
from headwater.log.worker import alone
from tests.broker.disks import HandDisk
from tests.broker.inspection.world import (
    TOPICS,
    Rows,
    World,
    batches_of,
    flip,
    mended,
    read_folder,
    spoil,
)
from tests.broker.serving import serving

OPERATIONS = ("create", "write", "write_atomic", "rename", "remove", "sync_dir")
SHARES = 4
"""The steps are shared out among so many tests, which run beside one another."""
SOAK = os.environ.get("HEADWATER_SOAK") == "1"


class Killed(BaseException):
    """The process ends here."""


def harmed(world: World) -> Rows:
    """Damage of many kinds; returns what must still be served."""
    path = world.segments("orders")[1]
    position, header = batches_of(path)[1]
    spoil(path, position + 70)
    gone = range(header.base_offset, header.next_offset)
    lost = world.segments("orders", 1)[1]
    missing = [n for _, each in batches_of(lost) for n in range(each.base_offset, each.next_offset)]
    lost.unlink()
    catalogue = world.segments("__headwater_catalogue")[-1]
    flip(catalogue, batches_of(catalogue)[1][0] + 80)
    (world.folder("paid") / checkpoints.PARTITION_METADATA).unlink()
    flip(max(world.folder("keyed").glob("*.timeindex")), 2)
    (world.data / checkpoints.START_OFFSETS).write_bytes(b"nonsense")
    return {
        at: row
        for at, row in world.uncommitted.items()
        if not (at[:2] == ("orders", 0) and at[2] in gone)
        and not (at[:2] == ("orders", 1) and at[2] in missing)
    }


def counting(steps: int | None = None) -> tuple[HandDisk, list[Path]]:
    """A disk that counts what is done to it, and kills the process before step number `steps`."""
    disk, done = HandDisk(), list[Path]()

    def step(path: Path) -> None:
        if steps is not None and len(done) >= steps:
            raise Killed
        done.append(path)

    for operation in OPERATIONS:
        disk.on(operation, step)
    return disk, done


@pytest.mark.parametrize("share", range(SHARES))
def test_a_repair_that_was_killed_is_taken_up_again(
    healthy: World, tmp_path: Path, share: int
) -> None:
    world = healthy.copy(tmp_path / "whole")
    harmed(world)
    disk, done = counting()
    assert not repair(world.data, files=disk).after.wrong
    assert len(done) > 50
    for steps in range(share, len(done), SHARES if SOAK else 5 * SHARES):
        world = healthy.copy(tmp_path / f"killed-{steps}")
        expected = harmed(world)
        disk, _ = counting(steps)
        with pytest.raises(Killed):
            repair(world.data, files=disk)
        mended(world.data)
        assert read_folder(world.data) == expected, f"killed before step {steps}"
        shutil.rmtree(world.data)


def test_a_catalogue_that_was_being_made_anew_has_every_topic_in_the_end(
    world: World, tmp_path: Path
) -> None:
    """Also one without records, whose folders look like those of a topic that was never made."""
    with serving(world.data) as broker:
        broker.create("bare", 2)
    shutil.rmtree(world.folder(LOG_NAME))
    disk, done = counting()
    repair(world.copy(tmp_path / "whole").data, files=disk)
    steps = [number for number, path in enumerate(done) if f"{LOG_NAME}-0" in path.parts]
    assert steps
    for step in steps:
        killed = world.copy(tmp_path / f"killed-{step}")
        disk, _ = counting(step)
        with pytest.raises(Killed):
            repair(killed.data, files=disk)
        mended(killed.data)
        with serving(killed.data) as broker:
            assert {"bare", *TOPICS} <= set(broker.broker.catalogue.topics), f"before step {step}"
        shutil.rmtree(killed.data)


def test_a_disk_that_refuses_a_step_is_told_and_the_others_go_on(world: World) -> None:
    harmed(world)
    disk = HandDisk()
    with disk.failing("rename", code=errno.ENOSPC, name="*.log.cleaned"):
        outcome = repair(world.data, files=disk)
    assert {each.why for each in outcome.failed} == {"No space left on device"}
    assert outcome.done
    assert "batch-damaged" in {each.kind for each in outcome.after.wrong}
    mended(world.data)
    assert not inspect(world.data).wrong


def test_a_repair_keeps_out_of_the_way_of_a_compaction_that_has_outlived_its_broker(
    world: World,
) -> None:
    """Both write a segment anew under one name, and so into one file, which the repair had put in place."""
    path = world.segments("orders")[1]
    spoil(path, batches_of(path)[1][0] + 70)
    before = path.read_bytes()
    with alone(world.folder("orders")):
        outcome = repair(world.data)
        assert {each.why for each in outcome.failed} == {
            "another compaction or excision is at work here; try again when it has ended"
        }
        assert path.read_bytes() == before
    mended(world.data)
