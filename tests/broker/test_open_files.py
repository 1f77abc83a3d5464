"""Few descriptors: the broker takes what it may have, and then goes on with that, whatever is open."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from headwater.log.descriptors import Descriptors
from headwater.log.files import Files
from tests.broker.processes import BrokerProcess, broker_process
from tests.broker.serving import create
from tests.compat.asking import fetch
from tests.compat.batches import batch, read_batches
from tests.compat.wire import ErrorCode, Wire

FEW = ("-m", "tests.broker.few_files")
PARTITIONS = 120


def put(wire: Wire, count: int, values: bytes) -> set[ErrorCode]:
    """One record to each partition."""
    codes: set[ErrorCode] = set()
    for first in range(0, count, 100):
        rows = [
            {"index": number, "records": batch([(None, values)])}
            for number in range(first, min(first + 100, count))
        ]
        asked = [{"name": "t", "partition_data": rows}]
        found = wire.ask("produce", 9, acks=-1, timeout=30_000, topic_data=asked)
        codes |= {row.error_code for row in found.responses[0].partition_responses}
    return codes


def open_count(broker: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_more_partitions_than_descriptors_are_written_and_read(data: Path, durability: str) -> None:
    few = (*FEW, "120", "120")
    with broker_process(data, f"durability={durability}", program=few) as broker:
        with broker.wire() as wire:
            create(wire, "t", PARTITIONS, internal_segment_bytes=1000)
            for number in range(4):
                assert put(wire, PARTITIONS, b"%d" % number * 400) == {ErrorCode.none}
            assert open_count(broker) < 120
            for partition in range(0, PARTITIONS, 7):
                assert len(_values(wire, partition)) == 4
            with broker.wire() as other:
                assert _values(other, 0)[0] == b"0" * 400, "and new clients come in"
        assert broker.stop() == 0
        assert "Too many open files" not in broker.said
    with broker_process(data, program=few) as broker, broker.wire() as wire:
        assert len(_values(wire, PARTITIONS - 1)) == 4


def _values(wire: Wire, partition: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while records := fetch(wire, "t", len(found), partitions=[partition]).records:
        found += [value for each in read_batches(records) for _, value in each.pairs]
    return found


def test_the_soft_limit_is_raised_to_the_hard_one(data: Path) -> None:
    with broker_process(data, program=(*FEW, "300", "700")) as broker:
        limits = Path(f"/proc/{broker.process.pid}/limits").read_text()
        row = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        assert row.split()[3:5] == ["700", "700"]


def _take_all(taken: list[int]) -> None:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))


def test_idle_files_give_their_descriptors_back_when_none_is_left(tmp_path: Path) -> None:
    """However many others have taken: that is no reason for a write to fail."""
    files = Files()
    held = [files.open(tmp_path / str(number), create=True) for number in range(50)]
    for file in held:
        file.write(0, [b"abc"])
        file.sync()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    highest = os.open("/dev/null", os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            _take_all(taken)
        files.open(tmp_path / "another", create=True).write(0, [b"x"])
        files.write_atomic(tmp_path / "state", b"new")
        files.sync_dir(tmp_path)
        assert files.list(tmp_path)
        assert [file.read(0, 3) for file in held] == [b"abc"] * 50
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in [highest, *taken]:
            os.close(number)


def test_there_are_never_more_descriptors_than_allowed(tmp_path: Path) -> None:
    files = Files(open_max=10)
    held = [files.open(tmp_path / str(number), create=True) for number in range(100)]
    for number, file in enumerate(held):
        file.write(0, [b"%d" % number])
        file.sync()
        assert files.descriptors.count <= 10
    assert [file.read(0, 9) for file in held] == [b"%d" % number for number in range(100)]
    assert files.descriptors.count <= 10
    for file in held:
        file.close()
    assert files.descriptors.count == 0


def test_a_file_with_unsynced_writes_keeps_its_descriptor_while_others_can_be_had(
    tmp_path: Path,
) -> None:
    files = Files(open_max=10)
    unsynced = files.open(tmp_path / "unsynced", create=True)
    unsynced.write(0, [b"x"])
    before = unsynced._descriptor  # type: ignore[attr-defined]
    held = [files.open(tmp_path / str(number), create=True) for number in range(50)]
    assert unsynced._descriptor is before  # type: ignore[attr-defined]
    assert len(held) == 50


def test_a_file_whose_name_means_another_one_now_is_not_opened_again(tmp_path: Path) -> None:
    files = Files(open_max=1)
    first = files.open(tmp_path / "a", create=True)
    first.write(0, [b"first"])
    first.sync()
    files.open(tmp_path / "b", create=True).write(0, [b"x"])
    (tmp_path / "a.new").write_bytes(b"other")
    (tmp_path / "a.new").rename(tmp_path / "a")
    with pytest.raises(OSError, match=r"[Ss]tale"):
        first.read(0, 5)


def test_running_out_says_what_to_do(tmp_path: Path) -> None:
    def step() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with pytest.raises(OSError, match="ulimit -n") as raised:
        Descriptors().with_room(tmp_path, step)
    assert raised.value.errno == errno.EMFILE
