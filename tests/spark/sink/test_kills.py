"""kill -9 of the driver, of a Python worker and of the broker: afterwards every row is there, once.

The driver is killed once, with one query standing still at each named point of its batch; then all of
them go on from their checkpoints in another session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from headwater.client import cluster as connect
from headwater.spark.datasource import HeadwaterDataSource
from headwater.testing.apache_kafka import QUICK_JVM, apache_kafka
from tests.compat.cluster import KAFKA_ONLY, SETTINGS, Cluster, headwater_process
from tests.compat.waiting import until
from tests.spark.sink.driver import ROWS
from tests.spark.sink.sessions import committed, copied, fill, start
from tests.spark.sink.stopping import POINTS, StoppingSource

PARTITIONS, BATCHES = 2, 3
COUNT = ROWS * BATCHES


def _check(bootstrap: str, source: str, topic: str) -> None:
    """Row by row: every partition of the topic holds what the source's holds, in the same order; and no
    transaction is left open in it."""
    cluster = connect.cluster({"bootstrap.servers": bootstrap})
    places = {(topic, partition): connect.LATEST for partition in range(PARTITIONS)}
    assert cluster.list_offsets(places, connect.READ_COMMITTED) == cluster.list_offsets(places)
    wanted, found = committed(bootstrap, source), committed(bootstrap, topic)
    for partition in range(PARTITIONS):
        rows = [(each.key(), each.value()) for each in wanted[partition]]
        assert [(each.key(), each.value()) for each in found[partition]] == rows
    assert sum(len(of) for of in found.values()) == COUNT


def _finish(query: StreamingQuery, bootstrap: str, topic: str) -> None:
    """Let the query go on until all rows have arrived; stop it."""

    def is_done() -> bool:
        error = query.exception()
        if error is not None:
            raise error
        return query.lastProgress is not None and _rows(bootstrap, topic) >= COUNT

    try:
        until(is_done, f"{COUNT} rows in {topic}", timeout=120)
    finally:
        query.stop()


@pytest.mark.timeout(900)
def test_killing_the_driver_anywhere_in_a_batch_loses_and_doubles_nothing(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, new_name: Callable[[], str]
) -> None:
    points = _points(cluster.target)
    if not points:
        pytest.skip("a long run: make soak")
    source = cluster.create_topic(new_name(), PARTITIONS)
    fill(cluster.bootstrap, source, COUNT)
    topics = {point: cluster.create_topic(new_name(), PARTITIONS) for point in points}
    queries = [f"{point}={topic}" for point, topic in topics.items()]
    command = [sys.executable, "-m", "tests.spark.sink.driver", cluster.bootstrap, str(tmp_path)]
    command.append(source)
    with (tmp_path / "driver.log").open("wb") as out:
        driver = subprocess.Popen(
            [*command, *queries], stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        until(lambda: _all_stand_still(driver, tmp_path, points), "all points reached", timeout=300)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert (tmp_path / "worker-died").exists()

    for point, topic in topics.items():
        rows = copied(spark, cluster.bootstrap, source, ROWS)
        checkpoint = str(tmp_path / f"checkpoint-{point}")
        query = start(rows, cluster.bootstrap, checkpoint, topic=topic)
        _finish(query, cluster.bootstrap, topic)
    for topic in topics.values():
        _check(cluster.bootstrap, source, topic)


def _points(server: str) -> tuple[str, ...]:
    """All of them in `make soak`; otherwise those that differ most, as a query takes seconds."""
    if os.environ.get("HEADWATER_SOAK") == "1":
        return POINTS
    return () if server == "kafka" else ("before-decision", "after-some", "after-all")


def _all_stand_still(
    driver: subprocess.Popen[bytes], folder: Path, points: tuple[str, ...]
) -> bool:
    log = folder / "driver.log"
    assert driver.poll() is None, f"the driver ended by itself:\n{log.read_text()[-3000:]}"
    return all((folder / point).exists() for point in points)


def _rows(bootstrap: str, topic: str) -> int:
    return sum(len(of) for of in committed(bootstrap, topic).values())


Broker = AbstractContextManager[tuple[str, Callable[[], None]]]
"""Its address, and what kills it and starts it again on the same port with the same files."""


@contextmanager
def a_headwater(data: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    with ExitStack() as later, headwater_process(data) as (bootstrap, process):

        def kill() -> None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            port = int(bootstrap.rpartition(":")[2])
            later.enter_context(headwater_process(data, port=port))

        yield bootstrap, kill


@contextmanager
def a_kafka(data: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    with apache_kafka({**SETTINGS, **KAFKA_ONLY}, log_dir=data, jvm=QUICK_JVM) as server:
        again: list[subprocess.Popen[bytes]] = []

        def kill() -> None:
            words = Path(f"/proc/{server.pid}/cmdline").read_bytes().split(b"\0")[:-1]
            os.kill(server.pid, signal.SIGKILL)
            os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
            with data.with_suffix(".log").open("wb") as out:
                again.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT))
            until(lambda: _answers(server.bootstrap), "Kafka to answer again", timeout=60)

        try:
            yield server.bootstrap, kill
        finally:
            for process in again:
                process.terminate()
                process.wait(60)


def _answers(bootstrap: str) -> bool:
    try:
        AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2)
    except KafkaException:
        return False
    return True


@pytest.mark.timeout(900)
@pytest.mark.parametrize("broker", [a_headwater, pytest.param(a_kafka, marks=pytest.mark.soak)])
def test_killing_the_broker_in_the_middle_of_a_part_loses_and_doubles_nothing(
    broker: Callable[[Path], Broker], spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    spark.dataSource.register(StoppingSource)
    try:
        with broker(tmp_path / "data") as (bootstrap, kill):
            for topic in ("source", "rows"):
                Cluster("headwater", bootstrap).create_topic(topic, PARTITIONS)
            fill(bootstrap, "source", COUNT)
            query = start(
                copied(spark, bootstrap, "source", ROWS),
                bootstrap,
                str(tmp_path / "checkpoint"),
                topic="rows",
                point="in-part",
                folder=str(tmp_path),
            )
            until(lambda: (tmp_path / "in-part").exists(), "the middle of a part", timeout=60)
            kill()
            (tmp_path / "in-part-go").touch()
            _finish(query, bootstrap, "rows")
            _check(bootstrap, "source", "rows")
    finally:
        spark.dataSource.register(HeadwaterDataSource)
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
