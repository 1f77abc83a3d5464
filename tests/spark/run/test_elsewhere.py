"""The same pipeline files here and elsewhere: on this machine, on a cluster, by Spark Connect.

One story, as each start of Spark takes its time: `headwater run` on this machine, on no Java but ours, is
killed; a cluster of two workers goes on from its checkpoints, by a change of --master and nothing else.
The log is Apache Kafka throughout.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater.testing
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests.compat.missing import skip_or_fail
from tests.spark.run import servers
from tests.spark.run.desk import Desk
from tests.spark.run.process import RunProcess

PIPELINE = """
import headwater as hw
from helpers import placed

@hw.view("placed", key="id")
def orders_placed():
    orders = hw.stream("orders", schema="id STRING, n INT", options={"maxOffsetsPerTrigger": "100"})
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
        with apache_kafka({"num.partitions": 2}, jvm=QUICK_JVM) as server:
            yield server.bootstrap
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")


def a_log(bootstrap: str, folder: Path) -> Desk:
    desk = Desk(None, bootstrap, folder)  # type: ignore[arg-type]
    desk.log.ensure_topic("orders", {}, partitions=2)
    return desk


def send(desk: Desk, numbers: range) -> None:
    desk.send("orders", [(f"k{n % 5}", json.dumps({"id": f"k{n % 5}", "n": n})) for n in numbers])


def sums(desk: Desk) -> dict[str, int]:
    return {row["id"]: row["sum(n)"] for row in desk.rows("sums")}


def expected(count: int) -> dict[str, int]:
    return {f"k{key}": sum(range(key, count, 5)) for key in range(5)}


def without_java(folder: Path) -> dict[str, str]:
    """An environment in which every program is found but Java."""
    programs = folder / "programs"
    programs.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            link = programs / program.name
            if not program.name.startswith("java") and not link.exists():
                link.symlink_to(program)
    return {"PATH": str(programs), "JAVA_HOME": ""}


GROUP = "headwater-placed"
WORKERS = 2
CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # All executors must be there, for the test to see each at work.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


@pytest.mark.soak  # seven JVMs, of which Spark gives each ten seconds to start its Python
@pytest.mark.timeout(1800)
def test_killed_here_and_started_on_a_cluster_every_record_is_there_once(
    pipelines: str, kafka: str, tmp_path: Path
):
    desk = a_log(kafka, tmp_path)
    send(desk, range(200))
    words = [pipelines, "--bootstrap", kafka]
    here = ("--master", "local[2]")
    with RunProcess(tmp_path, *words, *here, env=without_java(tmp_path)) as run:
        run.wait_until(lambda: "sums: running" in run.output, "both views")
        run.wait_until(lambda: desk.committed(GROUP, "orders") >= 100, "a batch")
        run.kill()
    assert "jdk.incubator.vector" not in run.output  # what the machine's own Java would say

    words += [word for name, value in CLUSTER.items() for word in ("--conf", f"{name}={value}")]
    with (
        servers.standalone(tmp_path, WORKERS) as master,
        RunProcess(tmp_path, *words, "--master", master) as run,
    ):
        count, executors = 200, set[int]()
        # Which executor gets a task is up to Spark: go on until each had one.
        while len(executors) < WORKERS:
            send(desk, range(count, count + 10))
            count += 10
            run.wait_until(lambda end=count: desk.committed(GROUP, "orders") == end, "all records")
            executors = {row["process"] for row in desk.rows("placed") if row["n"] >= 200}
        run.wait_until(lambda: sums(desk) == expected(count), "the sums")
        assert run.stop() == 0, run.output
    assert sorted(row["n"] for row in desk.rows("placed")) == list(range(count))
    for number in range(WORKERS):
        assert list((tmp_path / f"worker-{number}").glob("app-*/*/stderr"))
    told = desk.rows("__headwater_progress")
    assert [row["query"] for row in told if row["event"] == "stopped"] == ["placed", "sums"]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_spark_connect_server_runs_them(pipelines: str, tmp_path: Path):
    if importlib.util.find_spec("grpc") is None:
        skip_or_fail("Spark Connect cannot run here: pip install 'headwater[connect]'")
    with headwater.testing.broker(settings={"num.partitions": 2}) as broker:
        desk = a_log(broker.bootstrap, tmp_path)
        send(desk, range(60))
        with servers.connect(tmp_path) as remote:
            words = ["--bootstrap", broker.bootstrap, "--remote", remote, "--once"]
            words += ["--checkpoints", str(tmp_path / "there")]
            with RunProcess(tmp_path, pipelines, *words) as run:
                assert run.process.wait(400) == 0, run.output
        assert sorted(row["n"] for row in desk.rows("placed")) == list(range(60))
        assert sums(desk) == expected(60)
        assert desk.committed("headwater-sums", "placed") >= 60
        told = [row for row in desk.progress("sums") if row["event"] == "progress"]
        assert told[-1]["lag_records"] == 0
        assert (tmp_path / "there" / "sums" / "headwater.json").is_dir()  # written by Spark
