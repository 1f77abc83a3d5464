"""The text files beside the segments have no checksum: a number in them, or in a file's name, that no log can
have stops nobody, and least of all the clients of other topics."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.repair import repair
from headwater.log.checkpoints import (
    EPOCH_MAX,
    LEADER_EPOCHS,
    RECOVERY_POINTS,
    START_OFFSET,
    START_OFFSETS,
)
from tests.broker.serving import Serving, serving
from tests.compat.batches import batch
from tests.compat.wire import ErrorCode, Wire

NUMBERS = [2**31 - 1, 2**31, 2**62 + 1, 2**63 - 1, 2**63, 10**19 - 1]
BESIDE = {
    "epoch": (LEADER_EPOCHS, "0\n1\n{} 0\n"),
    "begin": (LEADER_EPOCHS, "0\n1\n0 {}\n"),
    "segment": ("{:020d}.log", ""),
    "snapshot": ("{:020d}.snapshot", ""),
}
"""What is wrong → the file in the partition's folder, and what is in it."""
FOR_ALL = {"recovery": RECOVERY_POINTS, "start": START_OFFSETS}
TOPICS = [f"{what}-{number}" for what in [*BESIDE, *FOR_ALL] for number in range(len(NUMBERS))]


def lie(data: Path) -> None:
    for number, value in enumerate(NUMBERS):
        for what, (name, text) in BESIDE.items():
            path = data / f"{what}-{number}-0" / name.format(value)
            path.write_text(text.format(value))
        (data / f"start-{number}-0" / START_OFFSET).unlink()
    for what, name in FOR_ALL.items():
        _lie_for_all(data / name, what)


def _lie_for_all(path: Path, what: str) -> None:
    """A number beyond all logs makes all of the file worthless: those beyond this one alone stand in it."""
    rows = [f"{what}-{number} 0 {value}" for number, value in enumerate([2**40, 2**61])]
    path.write_text("\n".join(["0", str(len(rows)), *rows, ""]))


def produced(broker: Serving, *topics: str) -> Iterator[int]:
    """One record to each topic; where it went."""
    with broker.wire() as wire:
        for topic in topics:
            part = {"index": 0, "records": batch([(b"k", b"v")])}
            rows = [{"name": topic, "partition_data": [part]}]
            answer = wire.ask("produce", 9, acks=-1, timeout=9000, topic_data=rows)
            row = answer.responses[0].partition_responses[0]
            assert row.error_code is ErrorCode.none, (topic, row)
            yield row.base_offset


def end(wire: Wire, topic: str) -> int:
    parts = [{"partition_index": 0, "timestamp": -1}]
    answer = wire.ask(
        "list_offsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": parts}]
    )
    return int(answer.topics[0].partitions[0].offset)


@pytest.mark.parametrize("clean", [True, False])
def test_a_number_that_no_log_can_have_stops_nobody(tmp_path: Path, clean: bool) -> None:
    with serving(tmp_path) as broker:
        for topic in TOPICS:
            broker.create(topic)
        for offset in range(2):
            assert set(produced(broker, *TOPICS)) == {offset}
    lie(tmp_path)
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    inspect(tmp_path)
    with serving(tmp_path) as broker:
        with broker.wire() as wire:
            found = wire.ask("metadata", 12, topics=None).topics
            assert all(topic.partitions[0].leader_epoch < EPOCH_MAX for topic in found)
            assert {topic: end(wire, topic) for topic in TOPICS} == dict.fromkeys(TOPICS, 2)
        assert set(produced(broker, *TOPICS)) == {2}
    repair(tmp_path)
    with serving(tmp_path) as broker:
        assert set(produced(broker, *TOPICS)) == {3}


@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_put_back_from_an_older_copy_gives_no_offset_twice(
    tmp_path: Path, clean: bool
) -> None:
    """Groups and views that stand behind what it lacks would pass over as many new records."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(data) as broker:
        broker.create("t")
        assert list(produced(broker, "t")) == [0]
    shutil.copytree(data / "t-0", copy)
    with serving(data) as broker:
        assert list(produced(broker, "t", "t")) == [1, 2]
    shutil.rmtree(data / "t-0")
    shutil.copytree(copy, data / "t-0")
    if not clean:
        (data / ".kafka_cleanshutdown").unlink()
    with serving(data) as broker:
        assert "from offset 1 to 2 are missing" in broker.broker.health.damage["t-0"]
        assert list(produced(broker, "t")) == [3]
