"""The same pipeline files elsewhere: on a cluster with Apache Kafka as the log, and by Spark Connect."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater.testing
from headwater.testing.apache_kafka import MissingServer, apache_kafka
from tests.compat.missing import skip_or_fail
from tests.spark.run import servers
from tests.spark.run.desk import Desk
from tests.spark.run.process import RunProcess

PIPELINE = """
import headwater as hw
from helpers import placed

@hw.view("placed", key="id")
def orders_placed():
    orders = hw.stream("orders", schema="id STRING, n INT")
    return orders.select("id", "n", placed("id").alias("process"))

@hw.view("sums", key="id")
def sums():
    return hw.stream("placed", schema="id STRING, n INT, process INT").groupBy("id").sum("n")
"""
HELPERS = """
import os
from pyspark.sql.functions import udf

@udf("int")
def placed(text):
    return os.getppid()  # the daemon of the executor that the worker belongs to
"""
EXPECTED = {f"k{key}": sum(range(key, 60, 5)) for key in range(5)}


@pytest.fixture
def pipelines(tmp_path: Path) -> str:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "views.py").write_text(PIPELINE)
    (folder / "helpers.py").write_text(HELPERS)
    return str(folder)


@pytest.fixture
def kafka() -> Iterator[str]:
    try:
        with apache_kafka({"num.partitions": 2}) as server:
            yield server.bootstrap
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")


def a_log(bootstrap: str, folder: Path) -> Desk:
    desk = Desk(None, bootstrap, folder)  # type: ignore[arg-type]
    desk.log.ensure_topic("orders", {}, partitions=2)
    desk.send("orders", [(f"k{n % 5}", json.dumps({"id": f"k{n % 5}", "n": n})) for n in range(60)])
    return desk


def check(desk: Desk) -> list[dict[str, int]]:
    rows = desk.rows("placed")
    assert sorted(row["n"] for row in rows) == list(range(60))
    assert {row["id"]: row["sum(n)"] for row in desk.rows("sums")} == EXPECTED
    assert desk.committed("headwater-placed", "orders") == 60
    assert desk.committed("headwater-sums", "placed") >= 60
    told = [row for row in desk.progress("sums") if row["event"] == "progress"]
    assert told[-1]["lag_records"] == 0
    return rows


@pytest.mark.timeout(600)
def test_a_cluster_of_two_workers_runs_them_from_apache_kafka_into_apache_kafka(
    pipelines: str, kafka: str, tmp_path: Path
):
    desk = a_log(kafka, tmp_path)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        # Both executors must be there, for the test to see both at work.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with servers.standalone(tmp_path, workers=2) as master:
        words += ["--bootstrap", kafka, "--master", master, "--once"]
        with RunProcess(tmp_path, pipelines, *words) as run:
            assert run.process.wait(400) == 0, run.output
    rows = check(desk)
    assert len({row["process"] for row in rows}) == 2
    for number in range(2):
        assert list((tmp_path / f"worker-{number}").glob("app-*/*/stderr"))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_spark_connect_server_runs_them(pipelines: str, tmp_path: Path):
    if importlib.util.find_spec("grpc") is None:
        skip_or_fail("Spark Connect cannot run here: pip install 'headwater[connect]'")
    with headwater.testing.broker(settings={"num.partitions": 2}) as broker:
        desk = a_log(broker.bootstrap, tmp_path)
        with servers.connect(tmp_path) as remote:
            words = ["--bootstrap", broker.bootstrap, "--remote", remote, "--once"]
            words += ["--checkpoints", str(tmp_path / "there")]
            with RunProcess(tmp_path, pipelines, *words) as run:
                assert run.process.wait(400) == 0, run.output
        check(desk)
        assert (tmp_path / "there" / "sums" / "headwater.json").is_dir()  # written by Spark
