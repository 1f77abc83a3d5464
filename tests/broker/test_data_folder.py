"""Whose folder it is: refusals in one sentence, and what is found there is removed or left alone."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.main import _unusable
from headwater.errors import HeadwaterError
from tests.broker.disks import HandDisk
from tests.broker.processes import broker_process
from tests.broker.serving import create, delete, serving
from tests.compat.asking import end_offset, produce, read_all
from tests.compat.batches import batch
from tests.compat.wire import ErrorCode, Wire


def refused(data: Path, *words: str) -> str:
    """`headwater broker` on that folder must fail with exit code 1 and one sentence; returns it."""
    command = [sys.executable, "-m", "headwater", "broker", "--listen", "127.0.0.1:0"]
    ran = subprocess.run(
        [*command, "--data", str(data), *words], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    (sentence,) = [line for line in ran.stderr.splitlines() if " INFO " not in line]
    assert sentence.startswith("headwater: ")
    assert "Traceback" not in sentence
    return sentence


def test_a_folder_in_use_is_refused_and_its_user_unharmed(data: Path) -> None:
    with broker_process(data) as process, process.wire() as wire:
        create(wire, "t")
        assert f"{data} is in use by another broker" in refused(data)
        assert produce(wire, "t", batch()).base_offset == 0


def test_a_folder_of_another_node_is_refused_and_named(data: Path) -> None:
    with serving(data, {"node.id": 7}) as broker:
        broker.create("t")
    sentence = refused(data)
    assert f"{data} belongs to node 7, not to node 1" in sentence
    assert "--set node.id=7" in sentence, "what to do next"
    with serving(data, {"node.id": 7}) as broker:
        assert broker.broker.catalogue.topics


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "cannot be used: Not a directory" in refused(tmp_path / "file" / "below")


def test_a_file_that_cannot_be_read_is_named_with_what_to_do(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
    (data / "t-0" / "00000000000000000009.log").mkdir()
    with serving(data) as broker:
        sentence = broker.broker.health.damage["t-0"]
    assert "t-0/00000000000000000009.log" in sentence
    assert f"headwater check {data}" in sentence


def test_a_full_disk_is_to_be_given_room() -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/t-0/x")
    assert "Make room" in str(_unusable(Path("/data"), error).hint)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_a_folder_that_may_not_be_written_is_refused(data: Path) -> None:
    data.mkdir()
    data.chmod(0o555)
    assert "cannot be used: Permission denied" in refused(data)


@pytest.mark.parametrize("operation", ["create", "write_atomic", "sync_dir"])
async def test_a_disk_that_fails_at_the_start_is_an_error_and_leaves_the_folder_free(
    data: Path, operation: str
) -> None:
    disk = HandDisk()
    with (
        disk.failing(operation, code=errno.EROFS),
        pytest.raises(OSError, match="Read-only file system"),
    ):
        await Broker(data, "127.0.0.1:0", files=disk).start()
    async with Broker(data, "127.0.0.1:0", files=disk) as broker:
        assert broker.bootstrap


async def test_a_start_that_fails_leaves_the_folder_free(data: Path) -> None:
    async with Broker(data.with_name("other"), "127.0.0.1:0") as first:
        with pytest.raises(HeadwaterError, match="cannot listen on"):
            await Broker(data, first.bootstrap).start()
    async with Broker(data, "127.0.0.1:0") as broker:
        assert broker.bootstrap


def test_the_same_cluster_id_comes_back_and_every_folder_has_its_own(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b", "a"):
        with serving(tmp_path / name) as broker:
            found.append(broker.broker.cluster_id)
    assert found[0] == found[2] != found[1]


# ---- what is found there ----------------------------------------------------------------------------


def test_what_a_deleted_topic_left_behind_is_removed_at_the_next_start(data: Path) -> None:
    """A crash after the catalogue's record and before the folders were gone."""
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "gone", 2)
        create(wire, "stays")
        for topic in ("gone", "stays"):
            produce(wire, topic, batch())
        for number in range(2):
            shutil.copytree(data / f"gone-{number}", data.with_name(f"gone-{number}"))
        delete(wire, "gone")
    shutil.copytree(data.with_name("gone-0"), data / "gone-0")
    shutil.copytree(
        data.with_name("gone-1"), data / "gone-1.0123456789abcdef0123456789abcdef-delete"
    )
    with serving(data) as broker, broker.wire() as wire:
        assert not list(data.glob("gone-*"))
        create(wire, "gone", 2)
        assert end_offset(wire, "gone") == 0
        assert len(read_all(wire, "stays")) == 1


def test_the_folder_of_an_earlier_topic_of_that_name_is_not_taken_for_the_new_one(
    data: Path,
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch([(None, b"old")]))
        shutil.copytree(data / "t-0", data.with_name("old"))
        delete(wire, "t")
        create(wire, "t")
    shutil.rmtree(data / "t-0")
    shutil.copytree(data.with_name("old"), data / "t-0")
    with serving(data) as broker, broker.wire() as wire:
        assert end_offset(wire, "t") == 0


@pytest.mark.parametrize("operation", ["rename", "sync_dir"])
def test_a_folder_that_could_not_be_removed_never_shows_in_a_new_topic(
    data: Path, operation: str
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker:
        with broker.wire() as wire:
            create(wire, "t")
            produce(wire, "t", batch([(None, b"old")]))
            with disk.failing(operation, name="t-0" if operation == "rename" else "data"):
                wire.send("delete_topics", 6, topics=[{"name": "t"}], timeout=9000)
                _ignore_answer(wire)
        with broker.wire() as wire:
            if "t" not in broker.broker.catalogue.topics:
                create(wire, "t")
                assert end_offset(wire, "t") == 0, "the data of the deleted topic"
            else:
                assert delete(wire, "t") is ErrorCode.none
    with serving(data) as broker, broker.wire() as wire:
        if "t" in broker.broker.catalogue.topics:
            assert end_offset(wire, "t") == 0


def _ignore_answer(wire: Wire) -> None:
    try:
        wire.receive()
    except Exception:
        return


def test_what_is_not_ours_is_left_alone(data: Path) -> None:
    data.mkdir()
    (data / "lost+found").mkdir()
    (data / "notes-1").mkdir()
    (data / "notes-1" / "diary.txt").write_text("mine")
    (data / "README").write_text("also mine")
    (data / "notes-2").write_text("a file")
    (data / "my-delete").mkdir()
    for _ in range(2):
        with serving(data) as broker:
            broker.run(broker.broker.housekeeping.retain())
    assert (data / "notes-1" / "diary.txt").read_text() == "mine"
    assert (data / "README").read_text() == "also mine"
    assert (data / "lost+found").is_dir()
    assert (data / "notes-2").read_text() == "a file"
    assert (data / "my-delete").is_dir()


def test_a_partition_folder_that_a_crash_left_half_made_is_finished(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", 3)
        produce(wire, "t", batch(), partition=2)
        copy = data.with_name("crashed")
        shutil.copytree(data, copy)
    shutil.rmtree(copy / "t-0")
    for path in (copy / "t-1").iterdir():
        path.unlink()
    (copy / "t-1" / "partition.metadata.tmp").write_bytes(b"version")
    with serving(copy) as broker, broker.wire() as wire:
        for number, end in enumerate((0, 0, 1)):
            assert end_offset(wire, "t", number) == end
            assert produce(wire, "t", batch(), partition=number).base_offset == end
    with serving(copy) as broker, broker.wire() as wire:
        assert [end_offset(wire, "t", number) for number in range(3)] == [1, 1, 2]
        ids = {(copy / f"t-{number}" / "partition.metadata").read_text() for number in range(3)}
        assert len(ids) == 1


@pytest.mark.parametrize(("settings", "others"), [((), 0), (("headwater.umask=022",), 0o055)])
def test_only_the_brokers_own_user_reads_its_files(
    tmp_path: Path, settings: tuple[str, ...], others: int
) -> None:
    folder = tmp_path / "new"
    with broker_process(folder, *settings) as process, process.wire() as wire:
        create(wire, "t")
        assert produce(wire, "t", batch()).base_offset == 0
    found = [folder, *folder.rglob("*")] if not others else [folder, *folder.glob("t-0/*.log")]
    assert len(found) > 1
    for path in found:
        wanted = others if path.is_dir() else others & 0o044
        assert path.stat().st_mode & 0o077 == wanted, path
