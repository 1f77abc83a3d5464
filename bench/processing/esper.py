"""Esper as a child process: jars from Maven, one small Java class; asked by the benchmark and by a test.

Esper's `match_recognize` is the peer of `headwater.processing.patterns`: rows of a partition, one after the
other, in memory.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.testing.kafka_jars import MissingServer, find_program

VERSION = "9.0.0"
PROGRAM = Path(__file__).with_name("Esper.java")
Row = tuple[str, int, int, int]
"""key, time in ms, x, id"""
_MODULES = ("esper-common", "esper-compiler", "esper-runtime")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headwater</groupId><artifactId>esper-jars</artifactId><version>1</version>
<dependencies>
{dependencies}
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies>
</project>
"""


@dataclass(frozen=True)
class Answer:
    matches: list[str]
    count: int
    seconds: float
    heap_bytes: int


def ask(
    questions: Iterable[tuple[str, Sequence[Row]]],
    *,
    counting: bool = False,
    jvm: Sequence[str] = (),
    timeout: float = 300,
) -> list[Answer]:
    """What Esper answers to each statement over its rows; one process for all of them."""
    lines = []
    for statement, rows in questions:
        lines += [" ".join(statement.split()), str(len(rows))]
        lines += [",".join(map(str, row)) for row in rows]
    folder = jars()
    java = find_program("java", "openjdk-17-jre-headless")
    command = [java, *jvm, "-cp", f"{folder}:{folder}/*", "Esper", *(["count"] if counting else [])]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=timeout
    )
    if done.returncode != 0:
        raise RuntimeError(f"Esper failed: {done.stderr.strip()[-1500:]}")
    return list(_answers(done.stdout.splitlines()))


def _answers(lines: list[str]) -> Iterable[Answer]:
    matches: list[str] = []
    for line in lines:
        if not line.startswith("done,"):
            matches.append(line)
            continue
        _, count, nanoseconds, heap = line.split(",")
        yield Answer(matches, int(count), int(nanoseconds) / 1e9, int(heap))
        matches = []


def jars() -> Path:
    """The folder with Esper's jars and the compiled class, made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    folder = cache / f"esper-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"esper-{VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _resolve(cache, folder)
        _compile(folder)
    return folder


def _resolve(cache: Path, folder: Path) -> None:
    maven = find_program("mvn", "maven")
    dependencies = "\n".join(
        f"<dependency><groupId>com.espertech</groupId><artifactId>{module}</artifactId>"
        f"<version>{VERSION}</version></dependency>"
        for module in _MODULES
    )
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        pom, staging = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_POM.format(dependencies=dependencies))
        goal = "dependency:copy-dependencies"
        command = [maven, "-B", "-q", "-f", str(pom), goal, f"-DoutputDirectory={staging}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-800:]
            raise MissingServer(f"Maven could not resolve Esper {VERSION}: {said}")
        staging.rename(folder)


def _compile(folder: Path) -> None:
    made = folder / "Esper.class"
    if made.exists() and made.stat().st_mtime >= PROGRAM.stat().st_mtime:
        return
    javac = find_program("javac", "openjdk-17-jdk-headless")
    command = [javac, "-cp", f"{folder}/*", "-d", str(folder), str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise MissingServer(f"{PROGRAM.name} does not compile: {done.stderr.strip()[-800:]}")
