"""`headwater run` as a user starts it who has made a mistake: told so at once, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater.testing
from tests.spark.run.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """The log alone: Spark is in the processes under test."""
    with headwater.testing.broker(settings={"num.partitions": 2}) as broker:
        yield Desk(None, broker.bootstrap, tmp_path)  # type: ignore[arg-type]


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
