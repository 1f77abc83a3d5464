"""A task's part without Spark: partitions and topics that turn up late, brokers that die and come back."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.client import cluster as connect
from headwater.client.errors import RequestRefused
from headwater.spark.sink import part, second_phase, settings
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.part import Part
from tests.compat.cluster import Cluster, headwater_process
from tests.spark.sink.sessions import committed

BY_COLUMN = Columns(value=0, key=-1, headers=-1, topic=1, partition=-1)
BY_OPTION = Columns(value=0, key=-1, headers=-1, topic=-1, partition=1)


def write(bootstrap: str, columns: Columns, rows: Any, **options: str) -> tuple[Any, Part]:
    read = settings.read({"kafka.bootstrap.servers": bootstrap, **options})
    cluster = connect.cluster(read.client)
    return cluster, part.write(cluster, read, columns, 0, "headwater-test-0-0", rows, lambda: None)


def values(bootstrap: str, topic: str) -> list[list[int]]:
    found = committed(bootstrap, topic)
    return [[int(each.value()) for each in found[partition]] for partition in sorted(found)]


def test_topics_and_partitions_that_turn_up_late_join_the_transaction(
    cluster: Cluster, new_name: Callable[[], str]
) -> None:
    """
    Arrow batch    0  1  2  3  4  5
    topic          a  b  c  a  b  c    and each time one partition more
    """
    topics = [cluster.create_topic(new_name(), 6) for _ in range(3)]

    def rows() -> Iterator[Any]:
        for number in range(60):
            value = pa.array([str(number)] * 100)
            topic = pa.array([topics[number % 3]] * 100)
            yield pa.record_batch([value, topic], names=["value", "topic"])

    client, made = write(cluster.bootstrap, BY_COLUMN, rows())
    assert made.rows == 6000
    assert second_phase.finish(client, [made]) == []
    for index, topic in enumerate(topics):
        found = [each for of in values(cluster.bootstrap, topic) for each in of]
        assert sorted(found) == sorted(list(range(index, 60, 3)) * 100)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A broker, and how to kill it and start it again at the same address."""
    data = tmp_path / "data"
    with contextlib.ExitStack() as running:
        bootstrap, process = running.enter_context(headwater_process(data))
        port = int(bootstrap.rpartition(":")[2])
        current = [process]

        def kill_and_restart() -> None:
            current[0].send_signal(signal.SIGKILL)
            current[0].wait()
            current[0] = running.enter_context(headwater_process(data, port=port))[1]

        yield bootstrap, kill_and_restart


def test_a_part_survives_brokers_that_are_killed_while_it_is_written(
    mortal: tuple[str, Callable[[], None]],
) -> None:
    bootstrap, kill_and_restart = mortal
    Cluster("headwater", bootstrap).create_topic("rows", 4)
    count, size = 90, 1000

    def rows() -> Iterator[Any]:
        for number in range(count):
            if number in (30, 60):
                kill_and_restart()
            numbers = range(number * size, (number + 1) * size)
            value = pa.array([str(each) for each in numbers])
            # Partition 3 turns up only after the second kill.
            partition = pa.array([each % (4 if number > 60 else 3) for each in numbers], pa.int32())
            yield pa.record_batch([value, partition], names=["value", "partition"])

    client, made = write(bootstrap, BY_OPTION, rows(), topic="rows")
    kill_and_restart()  # between the two phases
    assert values(bootstrap, "rows") == [[], [], [], []]
    assert second_phase.finish(client, [made]) == []
    found = values(bootstrap, "rows")
    assert sorted(each for of in found for each in of) == list(range(count * size))
    assert all(of == sorted(of) for of in found)


def test_a_batch_that_is_too_large_for_its_topic_is_refused_with_what_to_do(
    cluster: Cluster, new_name: Callable[[], str]
) -> None:
    topic = cluster.create_topic(new_name(), 1, max_message_bytes="1000")
    rows = [pa.record_batch([pa.array(["x" * 100] * 100)], names=["value"])]
    columns = Columns(value=0, key=-1, headers=-1, topic=-1, partition=-1)
    with pytest.raises(RequestRefused, match=r"(?s)too large.*kafka\.batch\.size"):
        write(cluster.bootstrap, columns, rows, topic=topic)
    client, made = write(
        cluster.bootstrap, columns, rows, topic=topic, **{"kafka.batch.size": "900"}
    )
    second_phase.finish(client, [made])
    assert len(committed(cluster.bootstrap, topic)[0]) == 100


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    yield
    for each in connect._shared.values():
        each.close()
