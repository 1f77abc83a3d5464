"""kill -9 of the driver, of a Python worker and of the broker: afterwards every row is there, once.

The driver is killed once, with one query standing still at each named point of its batch; then all of
them go on from their checkpoints in another session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.spark.datasource import HeadwaterDataSource
from tests.compat.cluster import Cluster, headwater_process
from tests.compat.waiting import until
from tests.spark.sink.driver import ROWS
from tests.spark.sink.sessions import committed, numbers, run_batches, start
from tests.spark.sink.stopping import POINTS, StoppingSource

LAST = 3


def _check(bootstrap: str, topic: str, batches: int) -> None:
    """Every number once, and within a partition and task in the order of the source."""
    found = committed(bootstrap, topic)
    values = [int(each.value()) for of in found.values() for each in of]
    assert len(values) == len(set(values)), f"{len(values) - len(set(values))} rows are there twice"
    assert sorted(values) == list(range(len(values))), "rows are missing"
    assert len(values) >= ROWS * batches
    for messages in found.values():
        for residue in range(4):  # a task has a quarter or a half of the numbers, by remainder
            of = [int(each.value()) for each in messages if int(each.value()) % 4 == residue]
            assert of == sorted(of)


@pytest.mark.timeout(300)
def test_killing_the_driver_anywhere_in_a_batch_loses_and_doubles_nothing(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, new_name: Callable[[], str]
) -> None:
    topics = {point: cluster.create_topic(new_name(), 3) for point in (*POINTS, "worker")}
    queries = [f"{point}={topic}" for point, topic in topics.items()]
    command = [sys.executable, "-m", "tests.spark.sink.driver", cluster.bootstrap, str(tmp_path)]
    with (tmp_path / "driver.log").open("wb") as out:
        driver = subprocess.Popen(
            [*command, *queries], stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        until(lambda: _all_stand_still(driver, tmp_path), "all points reached", timeout=200)
        until(lambda: _rows(cluster, topics["worker"]) >= ROWS * 3, "the task's retry", timeout=60)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()

    running = {
        point: start(
            numbers(spark, ROWS),
            cluster.bootstrap,
            str(tmp_path / f"checkpoint-{point}"),
            topic=topic,
        )
        for point, topic in topics.items()
    }
    for query in running.values():
        run_batches(query, LAST, timeout_s=120)
    for topic in topics.values():
        _check(cluster.bootstrap, topic, LAST + 1)


def _all_stand_still(driver: subprocess.Popen[bytes], folder: Path) -> bool:
    log = folder / "driver.log"
    assert driver.poll() is None, f"the driver ended by itself:\n{log.read_text()[-3000:]}"
    return all((folder / point).exists() for point in POINTS)


def _rows(cluster: Cluster, topic: str) -> int:
    return sum(len(of) for of in committed(cluster.bootstrap, topic).values())


@pytest.mark.timeout(200)
def test_killing_the_broker_in_the_middle_of_a_part_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    spark.dataSource.register(StoppingSource)
    try:
        with headwater_process(data) as (bootstrap, process):
            Cluster("headwater", bootstrap).create_topic("rows", 3)
            query = start(
                numbers(spark, ROWS),
                bootstrap,
                str(tmp_path / "checkpoint"),
                topic="rows",
                point="in-part",
                folder=str(tmp_path),
            )
            until(lambda: (tmp_path / "in-part").exists(), "the middle of a part", timeout=60)
            process.send_signal(signal.SIGKILL)
            process.wait()
        with headwater_process(data, port=int(bootstrap.rpartition(":")[2])):
            (tmp_path / "in-part-go").touch()
            run_batches(query, LAST, timeout_s=90)
            _check(bootstrap, "rows", LAST + 1)
    finally:
        spark.dataSource.register(HeadwaterDataSource)
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
