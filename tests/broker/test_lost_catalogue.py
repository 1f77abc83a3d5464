"""A catalogue that is gone, cut or damaged stops the start; what it does not know is set aside."""

from __future__ import annotations

import atexit
import errno
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.broker.broker import Broker
from headwater.broker.catalogue import LOG_NAME
from headwater.broker.inspection.check import inspect
from headwater.errors import HeadwaterError
from headwater.log import checkpoints
from headwater.log.files import Files
from headwater.record import batch as batches
from tests import fork_server
from tests.broker.disks import HandDisk
from tests.broker.processes import broker_process
from tests.broker.serving import create, delete, serving
from tests.broker.test_data_folder import refused
from tests.compat.asking import produce, read_all
from tests.compat.batches import batch

FOLDER = f"{LOG_NAME}-0"
LOG = f"{FOLDER}/{0:020d}.log"


def filled(data: Path, *, clean: bool = True) -> Path:
    """A folder with three topics and a record in each: a copy of one that a broker has left.

    Under another name it is another broker's.
    """
    return Path(shutil.copytree(_model(data.name, clean), data, dirs_exist_ok=True))


@functools.cache
def _model(name: str, clean: bool) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="headwater-catalogue-"))
    atexit.register(shutil.rmtree, folder)
    data = folder / name
    with broker_process(data) as process, process.wire() as wire:
        for topic in ("a", "b", "c"):
            create(wire, topic)
            assert produce(wire, topic, batch()).base_offset == 0
        if not clean:
            process.kill()
    return data


def ends(data: Path) -> list[int]:
    """The file positions at which batches of the catalogue end."""
    content = (data / LOG).read_bytes()
    return [position + header.size for position, header in batches.scan(content)]


def cut(data: Path) -> None:
    """At a batch boundary."""
    content = (data / LOG).read_bytes()
    (data / LOG).write_bytes(content[: ends(data)[0]])


def cut_within_a_batch(data: Path) -> None:
    content = (data / LOG).read_bytes()
    (data / LOG).write_bytes(content[: ends(data)[0] - 3])


def cut_without_durable_offset(data: Path) -> None:
    cut(data)
    (data / FOLDER / "durable-offset").unlink()


def emptied(data: Path) -> None:
    for path in (data / FOLDER).iterdir():
        path.unlink()
    (data / LOG).touch()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (data / name).unlink(missing_ok=True)


def flipped(data: Path) -> None:
    content = bytearray((data / LOG).read_bytes())
    content[ends(data)[0] - 5] ^= 4
    (data / LOG).write_bytes(content)


def lost(data: Path) -> None:
    shutil.rmtree(data / FOLDER)


def lost_with_checkpoints_and_meta(data: Path) -> None:
    lost(data)
    for path in data.iterdir():
        if path.is_file():
            path.unlink()


def lost_log_file(data: Path) -> None:
    (data / LOG).unlink()


HARM: dict[Callable[[Path], None], str] = {
    lost: "missing, though this folder has been used",
    lost_with_checkpoints_and_meta: "missing, though this folder has been used",
    lost_log_file: "missing, though this folder has been used",
    emptied: "empty, though there are partitions with records",
    cut: "shorter than it was: offsets 1 to",
    cut_within_a_batch: "damaged at byte 0",
    cut_without_durable_offset: "shorter than it was: offsets 1 to",
    flipped: "damaged at byte 0",
}


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
def test_a_catalogue_that_is_not_what_it_was_stops_the_start_and_nothing_is_touched(
    data: Path, harm: Callable[[Path], None]
) -> None:
    filled(data)
    shutil.copytree(data / FOLDER, data.with_name("copy"))
    harm(data)
    before = {path: path.read_bytes() for path in data.rglob("*.log")}
    for _ in range(2):
        sentence = refused(data)
        assert HARM[harm] in sentence
        assert f"{data / FOLDER}" in sentence
        assert f"headwater repair {data} --yes" in sentence, "what to do next"
        assert {path: path.read_bytes() for path in data.rglob("*.log")} == before
    shutil.rmtree(data / FOLDER, ignore_errors=True)
    shutil.copytree(data.with_name("copy"), data / FOLDER)
    with serving(data) as broker, broker.wire() as wire:
        for topic in ("a", "b", "c"):
            assert len(read_all(wire, topic)) == 1, "restored, everything is back"


@pytest.mark.parametrize("harm", [lost, cut], ids=lambda harm: harm.__name__)
def test_the_same_after_kill_9(data: Path, harm: Callable[[Path], None]) -> None:
    filled(data, clean=False)
    harm(data)
    assert HARM[harm] in refused(data)


def test_a_catalogue_without_topics_is_missed_as_well(data: Path) -> None:
    """It has the users and their rights; nothing else in the folder would tell."""
    with serving(data):
        pass
    shutil.rmtree(data / FOLDER)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (data / name).unlink(missing_ok=True)
    assert HARM[lost] in refused(data)


def test_a_record_of_the_catalogue_that_is_no_json_stops_the_start(data: Path) -> None:
    with serving(data) as broker:
        partition = broker.broker._catalogue_partition

        async def write() -> None:
            content = batch([(b"topic/t", b"{")])
            offset = partition.append(content, batches.read_header(content), 0)
            await partition.durable(offset + 1)

        broker.run(write())
    assert "its record 0 cannot be read" in refused(data)


def test_the_folder_of_apache_kafka_is_refused_and_kept(data: Path) -> None:
    folder = data / "orders-0"
    folder.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ\n")
    (folder / f"{0:020d}.log").write_bytes(batch())
    assert HARM[lost] in refused(data)
    assert (folder / f"{0:020d}.log").read_bytes() == batch()


class FailingLater(HandDisk):
    """Takes so many steps, and then no more."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps
        for operation in ("create", "write_atomic", "sync_dir", "write"):
            self.on(operation, self._step)

    def _step(self, path: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


async def test_a_first_start_that_was_cut_short_is_not_taken_for_a_loss(data: Path) -> None:
    """The disk fails at each of the first start's steps in turn; then it is well again."""
    for steps in range(100):
        disk = FailingLater(steps)
        try:
            broker = Broker(data / str(steps), "127.0.0.1:0", files=disk)
            await broker.start()
        except OSError:
            async with Broker(data / str(steps), "127.0.0.1:0", files=HandDisk()) as again:
                await again.topics.create("t", 1, {})
        else:
            disk.left = 10_000
            await broker.stop()
            break
    assert 5 < steps < 99


# ---- what the catalogue does not know ----------------------------------------------------------------


def test_an_unknown_partition_is_set_aside_and_named_and_never_deleted(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = filled(data.with_name("other"))
    filled(data)
    shutil.copytree(other / "a-0", data / "stranger-3")
    content = (data / "stranger-3" / f"{0:020d}.log").read_bytes()
    for _ in range(2):
        with serving(data) as broker, broker.wire() as wire:
            assert len(read_all(wire, "a")) == 1
            (stray,) = data.glob("stranger-3.*-stray")
            assert (stray / f"{0:020d}.log").read_bytes() == content
            create(wire, "stranger", 4)
            delete(wire, "stranger")
    assert stray.is_dir()
    assert (
        f"stranger-3 is of a topic that the catalogue does not know; it is kept as {stray.name}"
        in (caplog.text)
    )


def test_what_was_set_aside_is_told(data: Path) -> None:
    other = filled(data.with_name("other"))
    filled(data)
    shutil.copytree(other / "a-0", data / "stranger-3")
    with serving(data) as broker:
        (stray,) = broker.broker.store.set_aside
        assert stray.is_dir()
        assert f"set-aside/{stray.name}" in broker.call(broker.broker.health.subjects)


def test_a_folder_of_another_topic_id_under_a_known_name_is_set_aside(data: Path) -> None:
    other = filled(data.with_name("other"))
    filled(data)
    shutil.rmtree(data / "a-0")
    shutil.copytree(other / "a-0", data / "a-0")
    with serving(data) as broker, broker.wire() as wire:
        assert read_all(wire, "a") == []
        assert len(list(data.glob("a-0.*-stray"))) == 1
        assert produce(wire, "a", batch()).base_offset == 1, "offset 0 was given out before"


@pytest.mark.parametrize("content", [None, b"", b"version: 0\ntopic_id: ?"])
def test_a_partition_that_has_lost_its_topic_id_is_still_the_catalogues(
    data: Path, content: bytes | None
) -> None:
    filled(data)
    path = data / "a-0" / "partition.metadata"
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with serving(data) as broker, broker.wire() as wire:
        assert len(read_all(wire, "a")) == 1
        assert not broker.broker.store.set_aside
    assert path.read_bytes() == before


async def test_a_start_that_the_catalogue_stops_leaves_the_folder_free(data: Path) -> None:
    filled(data)
    cut(data)
    for _ in range(2):
        with pytest.raises(HeadwaterError, match="shorter than it was"):
            await Broker(data, "127.0.0.1:0").start()


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
def test_the_remedy_that_the_sentence_names_brings_everything_back(
    data: Path, harm: Callable[[Path], None]
) -> None:
    filled(data)
    harm(data)
    ran = fork_server.headwater("repair", str(data), "--yes")
    assert ran.stderr == ""
    assert ran.returncode == 0
    with serving(data) as broker, broker.wire() as wire:
        for topic in ("a", "b", "c"):
            assert len(read_all(wire, topic)) == 1
        assert not broker.broker.store.set_aside


@pytest.mark.parametrize("clean", [True, False])
def test_another_log_s_start_lets_neither_the_catalogue_nor_the_commits_begin_later(
    tmp_path: Path, clean: bool
) -> None:
    """Two files swapped, each with the right checksum: all topics were set aside, and commits forgotten."""
    data = tmp_path / "data"
    with broker_process(data, "offsets.topic.num.partitions=1") as process:
        with process.wire() as wire:
            for topic in ("a", "b", "c"):
                create(wire, topic)
                produce(wire, topic, batch())
        commits = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "g"})
        for topic in ("a", "b", "c"):
            commits.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        commits.close()
        if not clean:
            process.kill()
    for folder, start in ((FOLDER, 3), ("__consumer_offsets-0", 2)):
        checkpoints.write_start_offset(Files(), data / folder, start)
    report = inspect(data)
    assert not report.wrong
    with serving(data) as broker:
        assert not broker.broker.store.set_aside
        assert {"a", "b", "c"} <= set(broker.broker.catalogue.topics)
        known = broker.call(lambda: broker.broker.groups.offsets_of("g").topics)
        assert set(known) == {"a", "b", "c"}
        assert [broker.log(name).start_offset for name in ("__consumer_offsets",)] == [0]
