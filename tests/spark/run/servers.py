"""Spark's own servers from the pyspark package, each on a free loopback port and stopped by its id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from headwater.pipelines.java import java_home
from headwater.project.ports import free_port
from tests.spark.quick import QUICK_ENVIRONMENT

HOME = Path(pyspark.__file__).parent
START_DEADLINE_S = 90.0


class Started(NamedTuple):
    log: Path
    group: int
    """Of its process and of all that it starts."""


@contextmanager
def standalone(folder: Path, workers: int, *, killable: list[int] | None = None) -> Iterator[str]:
    """A master and its workers, one core each; the master's address. `killable` gets the workers' groups."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    name = "org.apache.spark.deploy"
    with ExitStack() as cleanup:
        words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        master = cleanup.enter_context(
            _spark_class(folder, "master", f"{name}.master.Master", *words)
        )
        _wait(master.log, "I have been elected leader")
        for number in range(workers):
            place = folder / f"worker-{number}"
            # Each is a machine of its own to Spark: it speculates on another one only.
            host = f"127.0.0.{number + 1}"
            words = ["--host", host, "--webui-port", "0", "-c", "1", "-m", "1g"]
            words += ["-d", str(place), address]
            started = _spark_class(folder, place.name + "-log", f"{name}.worker.Worker", *words)
            said = cleanup.enter_context(started)
            _wait(said.log, "Successfully registered with master")
            if killable is not None:
                killable.append(said.group)
        yield address


@contextmanager
def connect(folder: Path) -> Iterator[str]:
    """A Spark Connect server with a local Spark in it; its address."""
    port = free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.shuffle.partitions": "2",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    words += ["--class", main, "--name", "connect", "spark-internal"]
    submit = "org.apache.spark.deploy.SparkSubmit"
    with _spark_class(folder, "connect", submit, *words) as server:
        _wait(server.log, "Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _spark_class(folder: Path, name: str, main: str, *words: str) -> Iterator[Started]:
    log = folder / f"{name}.log"
    own = {
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **QUICK_ENVIRONMENT,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [HOME / "bin" / "spark-class", main, *words],
            cwd=folder,
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Started(log, process.pid)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(log: Path, said: str) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while said not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, (
            f"no {said!r}: {log.read_text(errors='replace')[-2000:]}"
        )
        time.sleep(0.1)  # between two looks
