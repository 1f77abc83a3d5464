"""`headwater run` as a user starts it: killed and started again, stopped in order, on no Java but ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater.testing
from tests.spark.run.desk import Desk
from tests.spark.run.process import RunProcess

PIPELINE = """
import headwater as hw
from helpers import shout

@hw.view("loud", key="id")
def loud():
    orders = hw.stream("orders", schema="id STRING, n INT", options={"maxOffsetsPerTrigger": "100"})
    return orders.select("id", "n", shout("id").alias("loud"))

@hw.view("sums", key="id")
def sums():
    return hw.stream("loud", schema="id STRING, n INT, loud STRING").groupBy("id").sum("n")
"""
HELPERS = """
from pyspark.sql.functions import udf

@udf("string")
def shout(text):
    return text.upper()
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """The log alone: Spark is in the processes under test."""
    with headwater.testing.broker(settings={"num.partitions": 2}) as broker:
        yield Desk(None, broker.bootstrap, tmp_path)  # type: ignore[arg-type]


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


def send(desk: Desk, numbers: range) -> None:
    desk.send("orders", [(f"k{n % 7}", json.dumps({"id": f"k{n % 7}", "n": n})) for n in numbers])


@pytest.mark.timeout(600)
def test_killed_and_started_again_every_record_is_there_once_and_sigterm_stops_in_order(
    desk: Desk, tmp_path: Path
):
    desk.log.ensure_topic("orders", {}, partitions=2)
    send(desk, range(200))
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "views.py").write_text(PIPELINE)
    (folder / "helpers.py").write_text(HELPERS)
    words = ("pipelines", "--bootstrap", desk.bootstrap, "--master", "local[2]")

    with RunProcess(tmp_path, *words, env=without_java(tmp_path)) as run:
        run.wait_until(lambda: "sums: running" in run.output, "both views")
        run.wait_until(lambda: desk.committed("headwater-loud", "orders") >= 100, "a batch")
        run.kill()
    assert "jdk.incubator.vector" not in run.output  # what the machine's own Java would say

    send(desk, range(200, 300))
    with RunProcess(tmp_path, *words) as run:
        run.wait_until(lambda: desk.committed("headwater-loud", "orders") == 300, "all records")
        found = desk.rows("loud")
        assert sorted(row["n"] for row in found) == list(range(300))
        assert all(row["loud"] == row["id"].upper() for row in found)
        expected = {f"k{key}": sum(range(key, 300, 7)) for key in range(7)}
        run.wait_until(
            lambda: {row["id"]: row["sum(n)"] for row in desk.rows("sums")} == expected, "the sums"
        )
        assert run.stop() == 0
    events = [row for row in desk.rows("__headwater_progress") if row["event"] == "stopped"]
    assert [row["query"] for row in events] == ["loud", "sums"]
    assert "Traceback" not in run.output
    assert "Exception" not in run.output


def test_mistakes_are_told_before_spark_is_started(desk: Desk, tmp_path: Path):
    (tmp_path / "bad.py").write_text("import headwater as hw\n\n@hw.view('x'\n")

    def said(*words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "headwater", "run", *words],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode in (1, 2)
        assert done.stderr.count("\n") == 1
        return done.stderr

    there = ("--bootstrap", desk.bootstrap)
    assert "bad.py, line 3 is not Python: '(' was never closed" in said("bad.py", *there)
    assert "there is no file or folder nowhere" in said("nowhere", *there)
    assert "no broker answers at 127.0.0.1:1" in said("bad.py", "--bootstrap", "127.0.0.1:1")
    assert "is not of the form name=value" in said("bad.py", *there, "--conf", "x")


def test_without_pyspark_the_sentence_says_what_to_install(desk: Desk, tmp_path: Path):
    (tmp_path / "a.py").write_text("")
    # An environment without the package: an import hook that does not find it.
    program = (
        "import sys; sys.modules['pyspark'] = None; from headwater.cli import main; "
        f"sys.exit(main(['run', 'a.py', '--bootstrap', '{desk.bootstrap}']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == (
        "headwater: pipelines run on PySpark, which is not installed; "
        "pip install 'headwater[spark]'\n"
    )
