"""Kafka's own DumpLogSegments, asked whether it finds anything wrong in a partition's files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headwater.testing.apache_kafka import QUICK_JVM, java_tool

SUFFIXES = (".log", ".index", ".timeindex", ".snapshot")
COMPLAINTS = (
    "mismatch",
    "out of order",
    "isvalid: false",
    "invalid",
    "corrupt",
    "exception",
    "error",
    "is followed by",
    "could not",
)
# What the tool says of the first record of every file that does not begin at offset 0.
NO_COMPLAINT = "-1 is followed by"


def problems(folders: Iterable[Path]) -> tuple[list[str], int]:
    """(what the tool complains about, how many files it has looked at)."""
    files = [
        str(path)
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix in SUFFIXES and path.stat().st_size
    ]
    done = java_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--files", ",".join(files)),
        jvm=QUICK_JVM,
    )
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    found = [
        line
        for line in lines
        if any(word in line.lower() for word in COMPLAINTS) and NO_COMPLAINT not in line
    ]
    if done.returncode:
        found.append(f"exit status {done.returncode}")
    assert sum(line.startswith("Dumping ") for line in lines) == len(files), lines[-5:]
    return found, len(files)
