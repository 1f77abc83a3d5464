"""Esper as a child process: jars from Maven, one small Java class; asked by the benchmark and by a test.

Esper's `match_recognize` is the peer of `headwater.processing.patterns`: rows of a partition, one after the
other, in memory.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.java_program import built
from headwater.testing.kafka_jars import find_program

VERSION = "9.0.0"
PROGRAM = Path(__file__).with_name("Esper.java")
Row = tuple[str, int, int, int]
"""key, time in ms, x, id"""
_JARS = (
    ("com.espertech", "esper-common", VERSION),
    ("com.espertech", "esper-compiler", VERSION),
    ("com.espertech", "esper-runtime", VERSION),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)


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
    return built(f"esper-{VERSION}", _JARS, PROGRAM)
