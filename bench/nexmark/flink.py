"""Flink SQL beside headwater: its own virtual environment and jar, made once, and one process per run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from headwater.pipelines import maven

NAME, PACKAGE, CONNECTOR = "Flink", "apache-flink", "4.0.1-2.0"
REPOSITORY = Path(__file__).resolve().parents[2]
Figures = dict[str, float]


class Missing(Exception):
    """Flink cannot run here, and why."""


def interpreter() -> Path:
    """A Python that has Flink."""
    folder = maven.cache() / f"bench-{PACKAGE}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if ready.exists():
        return python
    print("Flink: a virtual environment of its own, once …", file=sys.stderr, flush=True)
    for step in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", PACKAGE],
    ):
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"Flink cannot be installed: {done.stderr.strip()[-300:]}")
    ready.touch()
    return python


def version() -> str:
    code = f"from importlib.metadata import version; print(version({PACKAGE!r}))"
    done = subprocess.run([interpreter(), "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def connector() -> Path:
    jar = ("org.apache.flink", "flink-sql-connector-kafka", CONNECTOR)
    try:
        folder = maven.fetched(f"flink-kafka-{CONNECTOR}", [jar], alone=True)
    except maven.NotFetched as error:
        raise Missing(f"Flink's Kafka connector: {error}") from error
    return next(folder.glob("*.jar"))


def run(
    bootstrap: str, home: Path, queries: Sequence[str], deadline_s: float
) -> Iterator[tuple[str, Figures | str]]:
    """Each query with its figures, or with why it has none."""
    command = [
        str(interpreter()),
        "-m",
        "bench.nexmark.flink_peer",
        bootstrap,
        str(connector()),
        str(home),
        *queries,
    ]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=deadline_s, env=environment
        )
        said, error = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode()
        error = f"not done after {deadline_s:.0f} s"
    told = {each["query"]: each for each in map(json.loads, said.splitlines()) if "query" in each}
    for query in queries:
        figures = told.get(query, {"failed": error.strip()[-300:]})
        if "failed" in figures:
            yield query, str(figures["failed"])
        else:
            yield query, {name: figures[name] for name in ("seconds", "cpu_s", "resident_mb")}
