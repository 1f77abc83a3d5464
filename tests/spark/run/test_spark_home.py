"""The Spark home in the cache: the package link by link, its Python compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from headwater.pipelines.spark_home import ARCHIVE, compiled_pyspark

PACKAGE = Path(pyspark.__file__).parent


def test_everything_is_the_packages_but_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for _ in range(2):  # made, and found
        with compiled_pyspark():
            home = Path(os.environ["SPARK_HOME"])
        assert "SPARK_HOME" not in os.environ
    assert (home / "jars").resolve() == (PACKAGE / "jars").resolve()
    (archive,) = (home / ARCHIVE).iterdir()
    assert archive.resolve() == PACKAGE.resolve()
    (py4j,) = (home / "python" / "lib").glob("py4j-*.zip")
    assert py4j.is_file()
    program = "import pyspark.worker as w; print(w.__file__, w.__cached__)"
    words = [sys.executable, "-c", program]
    found = subprocess.check_output(words, env={"PYTHONPATH": str(home / ARCHIVE)}, text=True)
    assert all(word.startswith(str(home)) for word in found.split())


def test_a_home_that_somebody_has_set_and_one_that_cannot_be_made_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SPARK_HOME", "mine")
    with compiled_pyspark():
        assert os.environ["SPARK_HOME"] == "mine"
    assert os.environ["SPARK_HOME"] == "mine"
    monkeypatch.delenv("SPARK_HOME")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with compiled_pyspark():
        assert "SPARK_HOME" not in os.environ


def test_the_archive_of_an_environment_that_is_gone_goes_with_the_next_one_that_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cache = tmp_path / "headwater"
    for name, package in (("spark-1-gone", tmp_path / "removed"), ("spark-1-there", PACKAGE)):
        (cache / name / ARCHIVE).mkdir(parents=True)
        (cache / name / ARCHIVE / "pyspark").symlink_to(package)
        (cache / f"{name}-java-17.jsa").write_bytes(b"classes")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with compiled_pyspark():
        made = Path(os.environ["SPARK_HOME"]).name
    left = {each.name for each in cache.iterdir()}
    assert left == {"spark-1-gone", "spark-1-there", "spark-1-there-java-17.jsa", made}
