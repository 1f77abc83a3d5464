"""What headwater's operators are compared with, each in a process of its own.

Quix Streams and Pathway want other versions of libraries that headwater has: they get a virtual environment
beside the benchmark's cache, made once by plain pip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.processing import data, esper

QUIX, PATHWAY, ESPER, LOOP = "Quix Streams", "Pathway", "Esper", "plain loop"
PACKAGES = {QUIX: "quixstreams", PATHWAY: "pathway"}
SCRIPTS = {QUIX: "quix_peer.py", PATHWAY: "pathway_peer.py"}
RUNS = {QUIX: ("windows", "sessions", "join", "as-of"), PATHWAY: ("windows", "sessions", "join")}
QUIX_ROWS = 100_000
"""The most that Quix Streams is given: its rate does not change with the number."""
DEADLINE_S = 600
Figures = dict[str, float]


class Missing(Exception):
    """A contestant that cannot run here, and why."""


def interpreter(peer: str) -> Path:
    """A Python that has the peer."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    folder = cache / f"bench-{PACKAGES[peer]}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if ready.exists():
        return python
    print(f"{peer}: a virtual environment of its own, once …", file=sys.stderr, flush=True)
    steps = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", PACKAGES[peer]],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"{peer} cannot be installed: {done.stderr.strip()[-300:]}")
    ready.touch()
    return python


def version(peer: str) -> str:
    if peer == ESPER:
        return esper.VERSION
    code = f"from importlib.metadata import version; print(version({PACKAGES[peer]!r}))"
    done = subprocess.run([interpreter(peer), "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def run(peer: str, words: Sequence[str]) -> Figures:
    """Let a peer's script measure itself."""
    script = Path(__file__).with_name(SCRIPTS[peer])
    command = [str(interpreter(peer)), str(script), *words]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, env=environment
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{peer} was not done after {DEADLINE_S} s") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise Missing(f"{peer} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    told = json.loads(lines[-1])
    if not told["per_s"]:
        raise Missing(f"{peer} took {told['rows']} rows and no more")
    return {name: float(told[name]) for name in ("per_s", "state_mb", "resident_mb")}


def esper_patterns(events: Iterable[data.Event], memory_mb: int = 3_000) -> Figures:
    """The same pattern in Esper, which has no limit of time that means the same: here it has none."""
    statement = (
        "select * from Row match_recognize (partition by key "
        "measures A.x as a, count(B.x) as rises, C.x as top after match skip past last row "
        "pattern (A B+ C) "
        "define A as A.x < 3, B as B.x between 3 and 6 and B.x > A.x, C as C.x > 6)"
    )
    rows = [(each.key, each.ms - data.START_MS, each.x, n) for n, each in enumerate(events)]
    warm = rows[: len(rows) // 10]
    _, answer = esper.ask(
        [(statement, warm), (statement, rows)], counting=True, jvm=(f"-Xmx{memory_mb}m",)
    )
    return {
        "per_s": len(rows) / answer.seconds,
        "state_mb": answer.heap_bytes / 1e6,
        "matches": answer.count,
    }


def loop(documents: Sequence[str], queries: Sequence[tuple[str, str]], seconds: float) -> Figures:
    """Each document against each query, for about so long."""
    begin, done, found = time.perf_counter(), 0, 0
    while time.perf_counter() - begin < seconds and done < len(documents):
        words = set(documents[done].split())
        for one, other in queries:
            if one in words and other in words:
                found += 1
        done += 1
    return {"per_s": done / (time.perf_counter() - begin)}
