"""Damage in segments: named exactly, mended, and everything that is not damaged is served afterwards."""

from __future__ import annotations

import errno
import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.findings import Severity
from headwater.broker.inspection.repair import repair
from headwater.log import checkpoints
from headwater.log.files import Files
from headwater.record import batch as batches
from tests.broker.inspection.world import (
    Rows,
    World,
    batches_of,
    checked,
    flip,
    mended,
    patch,
    read_folder,
    spoil,
)
from tests.broker.serving import serving
from tests.compat.asking import produce
from tests.compat.batches import batch


def without(rows: Rows, topic: str, partition: int, first: int, last: int) -> Rows:
    return {
        at: row
        for at, row in rows.items()
        if at[:2] != (topic, partition) or not first <= at[2] <= last
    }


@pytest.mark.parametrize("topic", ["orders", "keyed", "paid"])
@pytest.mark.parametrize("which", ["first", "middle", "last of the file", "very last"])
def test_a_damaged_batch_is_named_and_put_aside_and_the_rest_serves(
    world: World, topic: str, which: str
) -> None:
    segments = world.segments(topic)
    path = segments[-1] if which == "very last" else segments[len(segments) // 2]
    while len(batches_of(path)) < 3:
        path = segments[segments.index(path) - 1]
    found = [each for each in batches_of(path) if not each[1].is_control and each[1].record_count]
    position, header = {"first": found[0], "middle": found[len(found) // 2]}.get(which, found[-1])
    spoil(path, position + 70)

    (finding,) = checked(world.data).wrong
    assert (finding.kind, finding.severity) == ("batch-damaged", Severity.DAMAGE)
    assert (finding.topic, finding.partition) == (topic, 0)
    assert finding.first_offset is not None
    assert finding.last_offset is not None
    assert finding.first_offset <= header.base_offset
    assert finding.last_offset >= header.last_offset
    if topic != "keyed":  # compaction leaves gaps, which then are part of the hole
        assert (finding.first_offset, finding.last_offset) == (
            header.base_offset,
            header.last_offset,
        )

    damaged = path.read_bytes()
    outcome = mended(world.data)
    assert outcome.aside is not None
    assert (outcome.aside / path.relative_to(world.data)).read_bytes() == damaged
    expected = without(world.uncommitted, topic, 0, header.base_offset, header.last_offset)
    assert read_folder(world.data) == expected


@pytest.mark.parametrize("byte", [0, 5, 7, 8, 11, 16])
def test_a_damaged_frame_is_mended_without_loss(world: World, byte: int) -> None:
    """Base offset, length and magic lie outside the checksum: what they must be can be told."""
    path = world.segments("orders")[1]
    position, header = batches_of(path)[1]
    flip(path, position + byte, 3)
    (finding,) = checked(world.data).wrong
    assert finding.kind in ("batch-damaged", "batch-misplaced")
    assert finding.first_offset == header.base_offset
    assert "no record is lost" in (finding.remedy.says if finding.remedy else "")
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_an_impossible_leader_epoch_is_mended(world: World) -> None:
    path = world.segments("orders")[1]
    position, _ = batches_of(path)[1]
    patch(path, position + 12, (77).to_bytes(4, "big"))
    (finding,) = checked(world.data).wrong
    assert finding.kind == "epoch-impossible"
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_records_that_cannot_be_read_under_a_right_checksum_are_put_aside(world: World) -> None:
    path = world.segments("orders")[0]
    data = path.read_bytes()
    position, header = next(each for each in batches.scan(data) if not each[1].codec)
    broken = bytearray(data[position + batches.HEADER_BYTES : position + header.size])
    broken[0] ^= 0x40  # the first record's length
    patch(path, position, batches.pack(header, bytes(broken)))
    (finding,) = checked(world.data).wrong
    assert finding.kind == "records-unreadable"
    assert (finding.first_offset, finding.last_offset) == (header.base_offset, header.last_offset)
    mended(world.data)
    expected = without(world.uncommitted, "orders", 0, header.base_offset, header.last_offset)
    assert read_folder(world.data) == expected


def test_a_torn_tail_is_a_note_and_repair_cuts_it_and_keeps_the_bytes(world: World) -> None:
    path = world.segments("orders")[-1]
    torn = path.read_bytes()[:100]
    with path.open("ab") as file:
        file.write(torn)
    (world.data / ".kafka_cleanshutdown").unlink()
    report = checked(world.data)
    assert report.wrong == []
    (note,) = [each for each in report.findings if each.kind == "torn-tail"]
    assert "nothing is lost" in note.means
    outcome = mended(world.data)
    assert outcome.aside is not None
    (saved,) = outcome.aside.rglob("*.from-byte-*")
    assert saved.read_bytes() == torn
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("left", [0, 30])
def test_a_torn_tail_is_cut_where_it_begins_although_the_segment_grows_before_it(
    world: World, left: int
) -> None:
    """An empty batch takes the place of what was lost, which had fewer bytes, or none."""
    path = next(each for each in reversed(world.segments("orders")) if len(batches_of(each)) > 2)
    for later in world.segments("orders"):
        assert later <= path, "the last one has some batches"
    data = path.read_bytes()
    position, lost = batches_of(path)[0]
    path.write_bytes(data[:position] + b"." * left + data[position + lost.size :] + data[:100])
    (world.data / ".kafka_cleanshutdown").unlink()

    outcome = mended(world.data)
    assert outcome.aside is not None
    (saved,) = outcome.aside.rglob("*.from-byte-*")
    assert saved.read_bytes() == data[:100]
    expected = without(world.uncommitted, "orders", 0, lost.base_offset, lost.last_offset)
    assert read_folder(world.data) == expected


def _cut(path: Path) -> None:
    position, _ = batches_of(path)[-1]
    os.truncate(path, position)


def _tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


@pytest.mark.parametrize("harm", [_cut, _tear, Path.unlink])
@pytest.mark.parametrize("number", [1, -1])
def test_acknowledged_records_that_are_missing_are_named(
    world: World, number: int, harm: Callable[[Path], None]
) -> None:
    path = world.segments("orders")[number]
    last = batches_of(path)[-1][1]
    first = batches_of(path)[0][1].base_offset if harm is Path.unlink else last.base_offset
    harm(path)
    if harm is Path.unlink:
        for suffix in (".index", ".timeindex"):
            path.with_suffix(suffix).unlink()
    wrong = checked(world.data).wrong  # an index may point behind the cut, too
    (finding,) = [each for each in wrong if each.severity is not Severity.NUISANCE]
    assert finding.severity is (Severity.DAMAGE if harm is _tear else Severity.LOSS)
    assert (finding.first_offset, finding.last_offset) == (first, last.last_offset)
    mended(world.data)
    expected = without(world.uncommitted, "orders", 0, first, last.last_offset)
    assert read_folder(world.data) == expected


def test_the_first_segment_missing_moves_the_start(world: World) -> None:
    first, second, *_ = world.segments("orders")
    begins = batches_of(second)[0][1].base_offset
    first.unlink()
    (finding,) = checked(world.data).wrong
    assert (finding.kind, finding.first_offset, finding.last_offset) == (
        "records-missing",
        0,
        begins - 1,
    )
    mended(world.data)
    assert read_folder(world.data) == without(world.uncommitted, "orders", 0, 0, begins - 1)


def test_a_batch_missing_in_the_middle_is_a_loss(world: World) -> None:
    path = world.segments("orders")[1]
    position, header = batches_of(path)[2]
    data = path.read_bytes()
    path.write_bytes(data[:position] + data[position + header.size :])
    wrong = checked(world.data).wrong
    (loss,) = [each for each in wrong if each.severity is Severity.LOSS]
    assert (loss.first_offset, loss.last_offset) == (header.base_offset, header.last_offset)
    mended(world.data)
    expected = without(world.uncommitted, "orders", 0, header.base_offset, header.last_offset)
    assert read_folder(world.data) == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_that_lies_is_named_and_made_anew(world: World, suffix: str) -> None:
    topic = "paid"
    path = next(p for p in sorted(world.folder(topic).glob(f"*{suffix}")) if p.stat().st_size)
    flip(path, path.stat().st_size - 10, 5)
    (finding,) = checked(world.data).wrong
    assert finding.where == str(path.relative_to(world.data))
    mended(world.data)
    assert read_folder(world.data, committed=True) == world.committed


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_only_a_note(world: World, suffix: str) -> None:
    path = world.segments("orders")[0].with_suffix(suffix)
    path.unlink()
    report = checked(world.data)
    assert report.wrong == []
    assert [each.kind for each in report.findings if "index" in each.kind] == ["index-missing"]
    mended(world.data)
    assert path.exists()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_start_offset_beyond_the_end_is_put_right(world: World, is_empty: bool) -> None:
    """Whether or not the last segment has just been begun; of a version that kept nothing beside the log."""
    path = world.data / checkpoints.START_OFFSETS
    (world.folder("orders") / checkpoints.START_OFFSET).unlink()
    if is_empty:
        (world.folder("orders") / "00000000000000000120.log").touch()
    offsets = checkpoints.read_offsets(Files(), path)
    checkpoints.write_offsets(Files(), path, {**offsets, ("orders", 0): 5000})
    (finding,) = checked(world.data).wrong
    assert finding.kind == "start-beyond-end"
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("orders-0/durable-offset", "durable-offset-damaged"),
        ("orders-0/leader-epoch-checkpoint", "epochs-wrong"),
        ("recovery-point-offset-checkpoint", "checkpoint-damaged"),
        ("log-start-offset-checkpoint", "checkpoint-damaged"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_put_aside(world: World, name: str, kind: str) -> None:
    (world.data / name).write_bytes(b"nonsense")
    assert [each.kind for each in checked(world.data).wrong] == [kind]
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_last_batch_is_not_taken_for_torn_though_nothing_but_a_snapshot_tells_of_it(
    world: World,
) -> None:
    """As with durability=os, after a clean stop: the records are whole, only their frame is not."""
    (world.data / checkpoints.RECOVERY_POINTS).write_bytes(b"nonsense")
    (world.folder("orders") / checkpoints.DURABLE_OFFSET).unlink()
    path = world.segments("orders")[-1]
    flip(path, batches_of(path)[-1][0] + 11)
    (finding, _) = checked(world.data).wrong
    assert finding.kind == "batch-damaged"
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("bit", [7, 40])
@pytest.mark.parametrize("topic", ["orders", "keyed", "__headwater_catalogue"])
def test_a_last_batch_that_claims_offsets_beyond_the_end_gets_its_own_back(
    world: World, topic: str, bit: int
) -> None:
    """Compaction leaves gaps, but none that reaches beyond what was acknowledged."""
    path = [each for each in world.segments(topic) if each.stat().st_size][-1]
    flip(path, batches_of(path)[-1][0] + 7 - bit // 8, bit % 8)
    assert "batch-misplaced" in [each.kind for each in checked(world.data).wrong]
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


@pytest.mark.parametrize("is_clean", [True, False])
def test_segments_behind_a_torn_one_are_kept_where_nobody_knows_what_was_acknowledged(
    world: World, is_clean: bool
) -> None:
    (world.data / checkpoints.RECOVERY_POINTS).unlink()
    (world.folder("orders") / checkpoints.DURABLE_OFFSET).unlink()
    if not is_clean:
        (world.data / ".kafka_cleanshutdown").unlink()
    path = world.segments("orders")[0]
    position, last = batches_of(path)[-1]
    os.truncate(path, position + 100)
    mended(world.data)
    lost = {("orders", 0, offset) for offset in range(last.base_offset, last.next_offset)}
    served = {at: row for at, row in world.uncommitted.items() if at not in lost}
    assert read_folder(world.data) == served


def test_a_damaged_snapshot_of_producers_is_put_aside(world: World) -> None:
    path = max(world.folder("paid").glob("*.snapshot"))
    flip(path, 8)
    (finding,) = checked(world.data).wrong
    assert finding.kind == "snapshot-damaged"
    mended(world.data)
    assert read_folder(world.data, committed=True) == world.committed


def test_what_cannot_be_read_is_named_and_the_rest_is_looked_at(world: World) -> None:
    path = world.segments("orders")[0]
    path.unlink()
    path.mkdir()  # the one thing that not even root can read
    flip(world.segments("paid")[0], 70)
    kinds = [each.kind for each in inspect(world.data).wrong]
    assert kinds == ["unreadable", "batch-damaged"]


@pytest.mark.parametrize("seed", range(6))
def test_any_bit_flipped_in_a_segment_is_found(world: World, seed: int) -> None:
    """Every byte of a batch matters, and none of them is overlooked."""
    dice = random.Random(seed)
    path = dice.choice(world.segments("orders", 1))
    flip(path, dice.randrange(path.stat().st_size), dice.randrange(8))
    assert checked(world.data).wrong, f"seed {seed}"
    mended(world.data)


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_what_lies_behind_a_place_that_the_disk_does_not_give_is_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    path = max(world.segments("orders"), key=lambda each: each.stat().st_size)
    size = path.stat().st_size
    bad = {"first": 0, "middle": size // 2, "last": size - 1}[which] // 4096 * 4096
    records = checked(world.data).records
    real = os.pread

    def pread(descriptor: int, wanted: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == path.resolve():
            if position < bad + 4096 and position + wanted > bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(descriptor, wanted, position)

    monkeypatch.setattr(os, "pread", pread)
    report = checked(world.data)
    assert {each.kind for each in report.wrong} == {"unreadable"}
    assert all(each.remedy is None for each in report.wrong)
    data = path.read_bytes()
    hit = [  # a batch of which only zeros are gone (the first bytes of its offset) is whole
        header
        for at, header in batches_of(path)
        if any(data[max(at, bad) : min(at + header.size, bad + 4096)])
    ]
    assert report.records == records - sum(header.record_count for header in hit)


def test_a_file_that_may_not_be_read_is_named_and_the_rest_is_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.segments("orders")[0]
    inside = sum(header.record_count for _, header in batches_of(path))
    records = checked(world.data).records
    real = os.open

    def refuse(name: Path, *given: int) -> int:  # root may read everything
        if name == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(name, *given)

    monkeypatch.setattr(os, "open", refuse)
    report = checked(world.data)
    (finding,) = report.wrong
    assert (finding.kind, finding.remedy) == ("unreadable", None)
    assert "Permission denied" in finding.what
    assert report.records == records - inside


def test_a_long_torn_end_is_put_aside_in_little_memory(world: World) -> None:
    path = world.segments("orders")[-1]
    whole = path.stat().st_size
    os.truncate(path, whole + 64 * 1024 * 1024)
    tracemalloc.start()
    try:
        repair(world.data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * 1024 * 1024
    assert path.stat().st_size == whole
    (kept,) = (world.data / "set-aside").rglob(f"{path.name}.from-byte-{whole}")
    assert kept.stat().st_size == 64 * 1024 * 1024


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_directory_in_the_place_of_a_segment_is_damage_and_is_put_aside(
    world: World, is_torn: bool
) -> None:
    (world.data / ".kafka_cleanshutdown").unlink()
    last = world.segments("orders")[-1]
    end = batches_of(last)[-1][1].next_offset if batches_of(last) else int(last.stem)
    if is_torn:
        with last.open("ab") as file:
            file.write(b"torn")
    (world.folder("orders") / f"{end:020d}.log" / "inside").mkdir(parents=True)
    (finding,) = [each for each in checked(world.data).findings if "directory" in each.what]
    assert (finding.kind, finding.severity) == ("unreadable", Severity.DAMAGE)
    assert "does not start" in finding.means
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted


def test_a_checkpoint_that_contradicts_the_log_about_its_start_is_named_and_put_right(
    data: Path,
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        for _ in range(200):
            produce(wire, "t", batch([(b"k", b"v")]))
        places = [{"partition_index": 0, "offset": 130}]
        asked = [{"name": "t", "partitions": places}]
        wire.ask("delete_records", 2, topics=asked, timeout=9000)
    path = data / "log-start-offset-checkpoint"
    path.write_text(path.read_text().replace("t 0 130", "t 0 190"))
    (finding,) = checked(data).wrong
    assert finding.kind == "start-disagrees"
    mended(data)
    assert "t 0 130" in path.read_text()
    with serving(data) as broker:
        assert broker.log("t").start_offset == 130


@pytest.mark.parametrize("topic", ["orders", "keyed", "paid"])
@pytest.mark.parametrize("to", [1, -1])
def test_a_segment_with_the_records_of_another_is_put_aside_whole(
    world: World, topic: str, to: int
) -> None:
    """Restored under the wrong name, and with a wrong bit besides: one repair is enough."""
    segments = world.segments(topic)
    held = [path for path in segments if len(batches_of(path)) > 2]
    source, target = (held[-1], held[to]) if to > 0 else (held[0], segments[to])
    if not target.stat().st_size or source == target:
        target = held[to - 1] if to < 0 else held[0]
    assert source != target
    data = bytearray(source.read_bytes())
    data[-1] ^= 4
    target.write_bytes(data)

    kinds = {each.kind for each in checked(world.data).wrong}
    assert "segment-foreign" in kinds
    mended(world.data)
    first = int(target.stem)
    behind = [int(path.stem) for path in segments if int(path.stem) > first]
    last = behind[0] - 1 if behind else 2**63
    found = read_folder(world.data)
    left = without(world.uncommitted, topic, 0, first, last)
    assert found == left


@pytest.mark.parametrize(
    ("topic", "count", "torn_bytes"), [("orders", 1, 27), ("keyed", 2, 0), ("paid", 3, 27)]
)
def test_copies_of_old_batches_behind_a_segment_take_no_other_record_along(
    world: World, topic: str, count: int, torn_bytes: int
) -> None:
    """They were counted as if they had offsets: what was acknowledged behind them was called torn, or what
    lies between called missing."""
    path = world.segments(topic)[-2]
    data = path.read_bytes()
    assert len(batches_of(path)) > count
    end = batches_of(path)[count][0]
    path.write_bytes(data + data[: end + torn_bytes])

    found = checked(world.data).wrong
    assert {each.kind for each in found} == {"garbage"}
    mended(world.data)
    assert path.read_bytes() == data
    assert read_folder(world.data) == world.uncommitted
    assert read_folder(world.data, committed=True) == world.committed
