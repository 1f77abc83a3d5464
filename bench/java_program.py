"""A peer in Java: its jars from Maven, and one small class of ours beside them, compiled once."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Sequence
from pathlib import Path

from headwater.pipelines import maven
from headwater.testing.kafka_jars import MissingServer, find_program


def built(
    name: str, jars: Sequence[maven.Jar], program: Path, *, beside: Path | None = None
) -> Path:
    """The folder with the jars and the compiled class; MissingServer where it cannot be made.

    `beside`: a folder with all that these jars, and the class, need besides."""
    try:
        folder = maven.fetched(name, jars, alone=beside is not None)
    except maven.NotFetched as error:
        raise MissingServer(f"the jars of {name}: {error.args[0]}", hint=error.hint) from error
    with (folder / "compiling.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _compile(program, folder, beside)
    return folder


def _compile(program: Path, folder: Path, beside: Path | None) -> None:
    made = folder / f"{program.stem}.class"
    if made.exists() and made.stat().st_mtime >= program.stat().st_mtime:
        return
    javac = find_program("javac", "openjdk-17-jdk-headless")
    known = f"{folder}/*" if beside is None else f"{folder}/*:{beside}/*"
    command = [javac, "-cp", known, "-d", str(folder), str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise MissingServer(f"{program.name} does not compile: {done.stderr.strip()[-800:]}")
