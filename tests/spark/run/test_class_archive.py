"""The archive of Spark's classes: used where it is there, made once beside an application that runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.pipelines import class_archive
from headwater.pipelines.session import settings_for
from headwater.pipelines.spark_home import home

JAVA = "spark.driver.extraJavaOptions"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it belongs, for a Java that says its version; no archive there."""
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(mode=0o755)
    (java / "release").write_text('JAVA_VERSION="21.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(java))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    spark = home()
    assert spark is not None
    return spark.with_name(f"{spark.name}-java-21.0.1.jsa")


def test_a_session_on_this_machine_uses_the_archive_that_is_there(place: Path):
    assert class_archive.options() == ()
    place.touch()
    assert class_archive.options() == ()  # an empty one says only that it was tried
    place.write_bytes(b"classes")
    assert f"-XX:SharedArchiveFile={place}" in settings_for("local[2]", {})[JAVA].split()
    assert "SharedArchiveFile" not in settings_for("spark://host:7077", {})[JAVA]


def test_an_archive_that_could_not_be_made_is_tried_again_a_week_later(place: Path):
    assert class_archive.is_wanted()
    assert class_archive.make().startswith("no class archive")  # this Java can do nothing
    assert place.stat().st_size == 0 and not class_archive.is_wanted()
    os.utime(place, (0, 0))
    assert class_archive.is_wanted()
    place.write_bytes(b"classes")
    assert not class_archive.is_wanted()
    assert [each.name for each in place.parent.iterdir() if each.name.startswith(".")] == []


def test_a_spark_of_ones_own_has_no_archive(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_HOME", str(place.parent))
    assert class_archive.options() == () and not class_archive.is_wanted()


def test_an_application_that_ends_early_takes_the_making_with_it(place: Path):
    with class_archive.Maker(None):
        pass  # it has not come to rest
    with class_archive.Maker("local[2]", rest_s=0.0):
        pass
    assert not place.exists() or place.stat().st_size == 0
