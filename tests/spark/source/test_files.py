"""Reading the log's own files: the right ones, and what happens when they change under the reader."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.client.errors import ClientError
from headwater.spark.source.batch import BatchReader
from headwater.spark.source.files import folder_of
from headwater.spark.source.task import Task
from tests.compat.cluster import Cluster
from tests.spark.source.reading import numbers, options, produce, schema

BIG = 2000
"""Bytes of a record: some hundred of them fill a segment of the smallest size."""


def padded(count: int, start: int = 0) -> list[bytes]:
    return [each.ljust(BIG, b".") for each in numbers(count, start)]


def planned(bootstrap: str, topic: str, **given: str) -> tuple[BatchReader, Task]:
    found = options(bootstrap, subscribe=topic, **given)
    reader = BatchReader(found, schema(found))
    (task,) = reader.partitions()
    return reader, task


def rows(reader: BatchReader, task: Task) -> list[Any]:
    return [each for batch in reader.read(task) for each in batch.column("value").to_pylist()]


def went_over_the_network(caplog: pytest.LogCaptureFixture) -> bool:
    return any("over the network" in each.message for each in caplog.records)


@pytest.fixture(autouse=True)
def listening(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headwater.spark")


def test_many_segments_are_read_from_files_alone(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic(topic, segment_bytes="1048576")
    produce(cluster.bootstrap, topic, padded(2500))
    reader, task = planned(cluster.bootstrap, topic)
    assert task.folder == str(cluster.data)
    assert len(list((Path(task.folder) / f"{topic}-0").glob("*.log"))) > 3
    task.leader, task.address = task.leader, ("127.0.0.1", 1)  # nobody is there to be asked
    assert rows(reader, task) == padded(2500)
    assert not went_over_the_network(caplog)


def test_any_range_is_found_by_the_index(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, segment_bytes="1048576")
    produce(cluster.bootstrap, topic, padded(1500))
    reader, task = planned(cluster.bootstrap, topic)
    for start, end in ((0, 1), (499, 501), (1234, 1500), (700, 1400)):
        task.range = task.range._replace(start=start, end=end)
        assert rows(reader, task) == padded(1500)[start:end]


def test_a_folder_of_another_cluster_broker_or_topic_is_not_taken(log: Cluster, topic: str) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(3))
    reader, task = planned(log.bootstrap, topic)
    assert task.folder is not None
    right = (task.folder, task.range, task.topic_id, task.cluster_id, task.leader)
    assert folder_of(*right) is not None
    for place, wrong in ((0, "/nowhere"), (2, str(uuid.uuid4())), (3, "another"), (4, 99)):
        changed: list[Any] = list(right)
        changed[place] = wrong
        assert folder_of(*changed) is None
    task.cluster_id = "another"
    assert rows(reader, task) == numbers(3)  # over the network, then


def stopped_after_the_first_batch(reader: BatchReader, task: Task) -> tuple[list[Any], Any]:
    """A task that has handed out something and waits for Spark to take more."""
    going = iter(reader.read(task))
    return next(going).column("value").to_pylist(), going


def the_rest(going: Any) -> list[Any]:
    return [each for batch in going for each in batch.column("value").to_pylist()]


def test_a_segment_that_is_replaced_under_the_reader_is_read_over_the_network(
    log: Cluster, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As compaction and excision do it: another file under the same name."""
    from headwater.spark.source import files

    monkeypatch.setattr(files, "PIECE_BYTES", 100_000)
    log.create_topic(topic)
    produce(log.bootstrap, topic, padded(300), **{"batch.num.messages": 20})
    reader, task = planned(log.bootstrap, topic)
    found, going = stopped_after_the_first_batch(reader, task)
    (segment,) = (Path(task.folder or "") / f"{topic}-0").glob("*.log")
    copy = segment.with_suffix(".copy")
    copy.write_bytes(segment.read_bytes())
    copy.rename(segment)
    assert found + the_rest(going) == padded(300)
    assert went_over_the_network(caplog)


def test_a_swap_under_way_is_left_alone(
    log: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.create_topic(topic)
    produce(log.bootstrap, topic, numbers(10))
    reader, task = planned(log.bootstrap, topic)
    mark = Path(task.folder or "") / f"{topic}-0" / "00000000000000000000.log.swap"
    mark.touch()
    assert rows(reader, task) == numbers(10)
    assert went_over_the_network(caplog)
    mark.unlink()


def test_damage_in_a_file_is_never_handed_out(
    log: Cluster, new_name: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = log.create_topic(new_name())
    produce(log.bootstrap, topic, [b"x" * 100] * 10)
    reader, task = planned(log.bootstrap, topic)
    (segment,) = (Path(task.folder or "") / f"{topic}-0").glob("*.log")
    whole = segment.read_bytes()
    damaged = bytearray(whole)
    damaged[-20] ^= 1
    with segment.open("r+b") as file:  # the same file: only its bytes change
        file.write(damaged)
    with contextlib.suppress(ClientError):  # what the broker has in memory is whole
        assert rows(reader, task) == [b"x" * 100] * 10
    assert went_over_the_network(caplog)  # the broker has the last word
    with segment.open("r+b") as file:
        file.write(whole)
    assert rows(reader, task) == [b"x" * 100] * 10


def test_a_gap_between_segments_is_asked_for_over_the_network(
    log: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.create_topic(topic, segment_bytes="1048576")
    produce(log.bootstrap, topic, padded(1600))
    reader, task = planned(log.bootstrap, topic)
    folder = Path(task.folder or "") / f"{topic}-0"
    second = sorted(folder.glob("*.log"))[1]
    hidden = second.with_suffix(".hidden")
    second.rename(hidden)
    try:
        found = pa.array(rows(reader, task))
    finally:
        hidden.rename(second)
    assert found.to_pylist() == padded(1600)
    assert went_over_the_network(caplog)
