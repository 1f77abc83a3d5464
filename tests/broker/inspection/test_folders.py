"""The catalogue and the folders: each thing that can be wrong between them is named, and put right."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from pathlib import Path

import pytest

from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.repair import repair
from headwater.log import checkpoints
from headwater.log.files import Files
from tests.broker.disks import HandDisk
from tests.broker.inspection.world import (
    World,
    batches_of,
    checked,
    flip,
    mended,
    read_folder,
    spoil,
)
from tests.broker.serving import serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.transacting import Transactor
from tests.compat.wire import ErrorCode

CATALOGUE = "__headwater_catalogue-0"


def the(kind: str, found: list[Finding]) -> Finding:
    (finding,) = [each for each in found if each.kind == kind]
    return finding


def catalogue_log(world: World) -> Path:
    return world.segments("__headwater_catalogue")[-1]


def test_a_missing_catalogue_is_made_anew_and_no_topic_is_lost(world: World) -> None:
    shutil.rmtree(world.data / CATALOGUE)
    wrong = checked(world.data).wrong
    finding = the("catalogue-missing", wrong)
    assert finding.remedy is not None
    assert "configs" in finding.remedy.says
    assert wrong[0] is finding, "what explains the others comes first"
    others = [each for each in wrong if each.kind == "folder-unknown"]
    assert others
    assert all("does not start" in each.means for each in others)
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted
    assert read_folder(world.data, committed=True) == world.committed


def test_a_topic_made_anew_loses_nothing_to_retention(world: World) -> None:
    shutil.rmtree(world.data / CATALOGUE)
    mended(world.data)
    with serving(world.data) as broker:
        assert broker.log("orders").config.retention_ms == -1
        assert broker.log("__consumer_offsets").config.compact


def test_producer_ids_are_never_given_twice_after_the_catalogue_was_lost(world: World) -> None:
    shutil.rmtree(world.data / CATALOGUE)
    mended(world.data)
    with serving(world.data) as broker:
        given = broker.run(broker.broker.catalogue.producer_ids.next())
        used = [
            producer_id
            for key in broker.broker.topics.partitions
            for producer_id in broker.log(*key).producers.by_id
        ]
        assert given > max(used)


def test_an_id_that_only_a_transactional_id_has_is_not_given_again(data: Path) -> None:
    """Its producer has not written yet, so that no partition knows it."""
    for _ in range(3):  # each start begins a new block of ids
        with serving(data) as broker:
            broker.run(broker.broker.catalogue.producer_ids.next())
    with serving(data) as broker, broker.wire() as wire:
        held = Transactor(wire, "later").init().id
    assert held >= 3000
    shutil.rmtree(data / CATALOGUE)
    mended(data)
    with serving(data) as broker:
        assert broker.broker.transactions.transactions["later"].producer_id == held
        assert broker.run(broker.broker.catalogue.producer_ids.next()) > held + 100_000


def test_a_broker_gives_no_id_that_a_transactional_id_has_whatever_its_catalogue_says(
    data: Path,
) -> None:
    for number in range(3):
        with serving(data) as broker, broker.wire() as wire:
            held = Transactor(wire, f"id-{number}").init().id
    with serving(data) as broker:
        broker.run(broker.broker.catalogue._write("producer-ids", {"next": 1}))
    assert the("producer-ids-behind", checked(data).wrong)
    with serving(data) as broker:
        given = [broker.run(broker.broker.catalogue.producer_ids.next()) for _ in range(3)]
        assert given == [held + 1, held + 2, held + 3]


def test_an_id_that_a_client_has_made_up_is_no_proof_that_the_catalogue_is_behind(
    data: Path,
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        made_up = batch([(None, b"v")], producer=(10**9, 0, 0))
        assert produce(wire, "t", made_up).error_code is ErrorCode.none
    assert not checked(data).wrong


def test_a_made_up_id_takes_no_ids_away_where_the_catalogue_is_mended(data: Path) -> None:
    """The next ones are given beyond all that may have been: not beyond whatever a client says."""
    made_up = 10**18
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        stranger = batch([(None, b"v")], producer=(made_up, 0, 0))
        assert produce(wire, "t", stranger).error_code is ErrorCode.none
        held = Transactor(wire, "one").init().id
        broker.run(broker.broker.catalogue._write("producer-ids", {"next": 0}))
    assert mended(data)
    with serving(data) as broker:
        assert held < broker.run(broker.broker.catalogue.producer_ids.next()) < made_up


def test_an_id_that_wrote_in_a_transaction_is_proof_though_no_value_names_it(data: Path) -> None:
    for number in range(3):
        with serving(data) as broker, broker.wire() as wire:
            if not number:
                broker.create("t")
            one = Transactor(wire, f"id-{number}").init()
            one.write("t", b"v")
            one.end()
    with serving(data) as broker:
        broker.run(broker.broker.catalogue._write("producer-ids", {"next": 1}))
    for folder in data.glob("__transaction_state-*"):
        shutil.rmtree(folder)
    found = the("producer-ids-behind", checked(data).wrong)
    assert f"producer {one.id} " in found.what


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_damaged_record_of_the_catalogue_costs_no_topic(world: World, number: int) -> None:
    path = catalogue_log(world)
    position, header = batches_of(path)[number]
    flip(path, position + header.size - 3)
    finding = the("batch-damaged", checked(world.data).wrong)
    assert (finding.topic, finding.first_offset) == ("__headwater_catalogue", number)
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("kept", [0, 2])
def test_a_catalogue_that_was_cut_costs_no_topic(world: World, kept: int) -> None:
    path = catalogue_log(world)
    position, header = batches_of(path)[kept]
    path.write_bytes(path.read_bytes()[:position])
    finding = the("records-missing", checked(world.data).wrong)
    assert (finding.severity, finding.first_offset) == (Severity.LOSS, header.base_offset)
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_missing_folder_is_a_loss_and_its_offsets_are_not_given_again(world: World) -> None:
    end = checkpoints.read_durable_offset(Files(), world.folder("orders", 1))
    shutil.rmtree(world.folder("orders", 1))
    (finding,) = checked(world.data).wrong
    assert (finding.kind, finding.severity) == ("folder-missing", Severity.LOSS)
    assert (finding.first_offset, finding.last_offset) == (0, end - 1)
    mended(world.data)
    rest = {at: row for at, row in world.uncommitted.items() if at[:2] != ("orders", 1)}
    assert read_folder(world.data) == rest
    with serving(world.data) as broker:
        assert broker.log("orders", 1).next_offset == end


def test_a_folder_of_an_unknown_topic_is_taken_into_the_catalogue(world: World) -> None:
    strange = world.data / "found-0"
    shutil.copytree(world.folder("orders"), strange)
    topic_id = uuid.uuid4()
    checkpoints.write_topic_id(Files(), strange, topic_id)
    (finding,) = checked(world.data).wrong
    assert (finding.kind, finding.topic) == ("folder-unknown", "found")
    mended(world.data)
    with serving(world.data) as broker:
        assert broker.broker.catalogue.topics["found"].id == topic_id
        assert broker.log("found").next_offset == broker.log("orders").next_offset


def test_a_kill_while_a_topic_is_made_is_a_note_and_no_topic_is_made_of_it(tmp_path: Path) -> None:
    data, killed = tmp_path / "data", tmp_path / "killed"
    disk = HandDisk()
    with serving(data, files=disk) as broker:
        broker.create("a")
        with disk.held("write", "__headwater_catalogue-0/*.log") as held, broker.wire() as wire:
            row = {"name": "b", "num_partitions": 2, "replication_factor": 1}
            wire.send("create_topics", 7, topics=[row], timeout=30_000)
            held.until_reached()
            shutil.copytree(data, killed)
    assert (killed / "b-1").is_dir()
    report = checked(killed)
    assert report.wrong == []
    assert "folder-of-unborn-topic" in {each.kind for each in report.findings}
    assert repair(killed).done == []
    with serving(killed) as broker:
        assert {"a"} == {each for each in broker.broker.catalogue.topics if "_" not in each}
    assert not (killed / "b-1").exists()


def test_a_second_folder_of_a_topic_is_set_aside(world: World) -> None:
    shutil.copytree(world.folder("orders"), world.data / "copy-0")
    (finding,) = checked(world.data).wrong
    assert finding.kind == "two-folders-of-one-topic"
    mended(world.data)
    assert list(world.data.glob("copy-0.*-stray"))
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("text", [b"", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", None])
def test_a_folder_that_does_not_know_its_topic_is_told(world: World, text: bytes | None) -> None:
    path = world.folder("orders") / checkpoints.PARTITION_METADATA
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text)
    (finding,) = checked(world.data).wrong
    assert finding.kind == "topic-id-wrong"
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_folder_that_was_set_aside_gets_its_name_back(world: World) -> None:
    world.folder("orders").rename(world.data / f"orders-0.{uuid.uuid4().hex}-stray")
    (finding,) = checked(world.data).wrong
    assert finding.kind == "folder-set-aside"
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("made_again", [False, True])
def test_what_a_deleted_topic_has_left_is_told_and_removed_as_told(
    world: World, made_again: bool
) -> None:
    with serving(world.data) as broker, broker.wire() as wire:
        kept = shutil.copytree(world.folder("excised"), world.data.parent / "kept")
        answer = wire.ask("delete_topics", 6, topics=[{"name": "excised"}], timeout=9000)
        assert not answer.responses[0].error_code.value
        if made_again:
            broker.create("excised")
    if made_again:
        shutil.rmtree(world.folder("excised"))
    shutil.copytree(kept, world.folder("excised"))
    report = checked(world.data)
    if not made_again:
        assert [each.kind for each in report.wrong] in ([], ["commit-without-topic"])
    kind = "folder-of-another-topic" if made_again else "folder-of-deleted-topic"
    finding = the(kind, report.findings)
    assert finding.topic == "excised"
    assert "the next start removes it" in finding.means
    with serving(world.data):
        assert world.folder("excised").exists() is made_again
    assert not list(world.data.glob("excised-*-stray"))


def test_leftovers_and_unknown_files_are_notes(world: World) -> None:
    (world.data / f"{uuid.uuid4().hex}-delete").mkdir()
    (world.data / "notes.txt").write_text("mine")
    (world.folder("orders") / "more.txt").write_text("mine")
    (world.folder("orders") / f"{0:020d}.log.cleaned").write_bytes(b"half")
    (world.folder("orders") / f"{0:020d}.log.deleted").write_bytes(b"old")
    report = checked(world.data)
    assert report.wrong == []
    kinds = sorted(each.kind for each in report.findings)
    assert kinds == ["folder-doomed", "leftover", "leftover", "unknown-file", "unknown-file"]


def test_a_directory_in_a_leftovers_place_is_put_aside(world: World) -> None:
    """No start could remove it as a file."""
    path = world.folder("orders") / f"{0:020d}.log.cleaned"
    (path / "inside").mkdir(parents=True)
    assert the("leftover-directory", checked(world.data).wrong).remedy is not None
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_an_unreadable_durable_offset_of_the_catalogue_is_put_aside(world: World) -> None:
    path = world.data / CATALOGUE / checkpoints.DURABLE_OFFSET
    path.unlink()
    (path / "inside").mkdir(parents=True)
    assert the("unreadable", checked(world.data).wrong).remedy is not None
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_catalogue_whose_beginning_is_gone_begins_at_0_again(world: World) -> None:
    """A start refuses any other."""
    path = catalogue_log(world)
    position, header = batches_of(path)[2]
    later = path.with_name(f"{header.base_offset:020d}.log")
    later.write_bytes(path.read_bytes()[position:])
    path.unlink()
    wrong = checked(world.data).wrong
    assert the("records-missing", wrong).last_offset == header.base_offset - 1
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_catalogue_without_all_that_tells_its_length_costs_no_topic(world: World) -> None:
    path = catalogue_log(world)
    position, _ = batches_of(path)[2]
    path.write_bytes(path.read_bytes()[:position])
    (path.parent / checkpoints.DURABLE_OFFSET).unlink()
    (world.data / checkpoints.RECOVERY_POINTS).unlink()
    assert "records-missing" in {each.kind for each in checked(world.data).wrong}
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize(
    "kept", ["", "node.id=1\n", "cluster.id=abc\n", "cluster.id=abc\nnode.id=?\n"]
)
def test_a_damaged_meta_file_is_written_again_with_what_can_be_read(
    world: World, kept: str
) -> None:
    path = world.data / "meta.properties"
    path.write_text(kept)
    (finding,) = checked(world.data).wrong
    assert finding.where == "meta.properties"
    assert "cluster id" in finding.means
    assert finding.remedy is not None
    assert ("a new cluster id" in finding.remedy.says) == ("cluster" not in kept)
    mended(world.data)
    written = path.read_text()
    assert "node.id=1\n" in written
    assert ("cluster.id=abc\n" in written) == ("cluster" in kept)
    assert read_folder(world.data) == world.uncommitted
    body = written.partition("headwater.checksum=")[0]
    assert path.read_text().startswith(body), "the broker keeps it"


def test_a_folder_that_gets_its_name_back_is_not_taken_for_the_empty_one_in_its_way(
    world: World,
) -> None:
    """The recovery point still speaks of the records that were set aside."""
    path = world.folder("orders")
    path.rename(path.with_name(f"{path.name}.{uuid.uuid4().hex}-stray"))
    path.mkdir()
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def set_aside(world: World, topic: str) -> None:
    """As a start does, which then makes an empty one."""
    path = world.folder(topic)
    path.rename(path.with_name(f"{path.name}.{uuid.uuid4().hex}-stray"))
    path.mkdir()


def test_a_folder_that_was_set_aside_gets_its_name_back_though_the_catalogue_is_damaged_too(
    world: World,
) -> None:
    """Until that is mended nobody knows whose it is; and the empty one is not to be filled meanwhile."""
    set_aside(world, "orders")
    spoil(catalogue_log(world), batches_of(catalogue_log(world))[-1][0] + 70)
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_folder_that_gets_its_name_back_begins_where_it_did_and_not_where_the_empty_one_does(
    world: World,
) -> None:
    """A start has made that, behind the offsets that are taken. Older versions kept one file for all."""
    (world.folder("orders") / checkpoints.START_OFFSET).unlink()
    set_aside(world, "orders")
    with serving(world.data):
        pass
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_folder_that_was_set_aside_comes_back_to_a_catalogue_that_has_never_heard_of_it(
    world: World,
) -> None:
    """Such a one is left by a repair that was killed while it made the catalogue anew."""
    set_aside(world, "paid")
    shutil.rmtree(world.data / CATALOGUE)
    (world.data / CATALOGUE).mkdir()
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.START_OFFSETS):
        known = checkpoints.read_offsets(Files(), world.data / name)
        known.pop(("__headwater_catalogue", 0), None)
        checkpoints.write_offsets(Files(), world.data / name, known)
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_catalogue_that_cannot_be_read_is_nothing_to_mend_folders_by(
    world: World, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says of them is there, and may be had again: from a copy, or by another user."""
    path = catalogue_log(world)
    real = os.pread

    def pread(descriptor: int, wanted: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == path.resolve():
            raise OSError(code, os.strerror(code), str(path))
        return real(descriptor, wanted, position)

    monkeypatch.setattr(os, "pread", pread)
    report = checked(world.data)
    assert the("unreadable", report.wrong).topic == "__headwater_catalogue"
    assert [each.what for each in report.findings if each.remedy is not None] == []


@pytest.mark.parametrize("name", [checkpoints.START_OFFSET, checkpoints.CLEANED_OFFSET])
def test_a_directory_in_a_small_files_place_is_looked_at_and_left_there(
    world: World, name: str
) -> None:
    """An inspection set it aside, as a start does."""
    path = world.folder("keyed") / name
    path.unlink()
    path.mkdir()
    checked(world.data)
    assert path.is_dir()


@pytest.mark.parametrize("name", [checkpoints.RECOVERY_POINTS, checkpoints.START_OFFSETS])
def test_what_was_known_of_a_deleted_topic_is_no_promise_of_one_that_was_being_made(
    world: World, name: str
) -> None:
    """Deleted, made again, and killed in between: checkpoints go by names, and the folder has no id yet."""
    path = world.data / name
    known = {**checkpoints.read_offsets(Files(), path), ("again", 0): 28}
    checkpoints.write_offsets(Files(), path, known)
    (world.data / "again-0").mkdir()
    report = checked(world.data)
    assert not report.wrong
    assert "folder-of-unborn-topic" in {each.kind for each in report.findings}


def test_a_folder_that_somebody_has_emptied_is_a_loss(world: World) -> None:
    shutil.rmtree(world.folder("orders"))
    world.folder("orders").mkdir()
    assert the("records-missing", checked(world.data).wrong).topic == "orders"
