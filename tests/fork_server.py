"""`headwater` commands without what their start costs: forked from a process that has imported them.

A command begins with three quarters of a second of imports, more than most of its work. Forked it is still
a process of its own, with its words, folder, environment, input, output and exit code. One server for each
worker of the tests, which it does not outlive. What a test says of the start itself needs a plain process.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OWN = "HEADWATER_"
"""So begin the variables that are read when a command runs; others may be read by an import."""
_PLAIN = {"COLUMNS": "80", "NO_COLOR": "1"}
_WARM = (
    "confluent_kafka.admin",
    "pydantic",
    "rich.console",
    "rich.progress",
    "rich.table",
    "typer._adapters",
    "headwater.client.log",
    "headwater.client.topics",
    "headwater.client.transaction",
    "headwater.record.records",
    "headwater.log.store",
    *(
        f"headwater.cli.{name}"
        for name in ("app", "check", "excise", "promote", "repair", "topics")
    ),
)
"""What most commands import, and nothing that starts a thread or looks at the environment."""


def headwater(
    *words: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 100,
    said: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run `headwater WORDS`; `env` adds to the environment, `said` is its input."""
    assert all(name.startswith(OWN) or name in _PLAIN for name in env or {}), env
    with tempfile.TemporaryDirectory(prefix="headwater-command-") as folder:
        place = Path(folder)
        (place / "in").write_text(said)
        ask = {
            "words": [str(each) for each in words],
            "cwd": str(cwd or Path.cwd()),
            "env": {**os.environ, **(env or {})},
            "place": folder,
        }
        code = _server().run(ask, timeout)
        out, err = (place / "out").read_text(), (place / "err").read_text()
    if code is None:
        raise subprocess.TimeoutExpired(["headwater", *map(str, words)], timeout, out, err)
    return subprocess.CompletedProcess(["headwater", *map(str, words)], code, out, err)


class ForkServer:
    """The process that forks, as whoever asks sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_PLAIN},
            text=True,
        )
        atexit.register(self.close)

    def run(self, ask: Mapping[str, Any], timeout: float) -> int | None:
        """Its exit code; None where it was killed because it took too long."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({**ask, "timeout": timeout}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the fork server has ended: {self._process.poll()}"
        code: int | None = json.loads(answer)
        return code

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@functools.cache
def _server() -> ForkServer:
    return ForkServer()


def serve() -> int:
    """Answer one question after the other, until whoever asks is gone; in a child, run the command."""
    for module in _WARM:
        importlib.import_module(module)
    from headwater.cli import main

    for line in sys.stdin:
        ask = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(ask)
            return main()
        print(json.dumps(_ended(child, ask["timeout"])), flush=True)
    return 0


def _become(ask: Mapping[str, Any]) -> None:
    """All that a new process would be given."""
    os.chdir(ask["cwd"])
    os.environ.clear()
    os.environ.update(ask["env"])
    sys.argv[:] = ["headwater", *ask["words"]]
    sys.path[0] = ask["cwd"]
    place = Path(ask["place"])
    for number, name, flags in (
        (0, "in", os.O_RDONLY),
        (1, "out", os.O_WRONLY | os.O_CREAT),
        (2, "err", os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(place / name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (the old one has read ahead)


def _ended(child: int, timeout: float) -> int | None:
    """The child's exit code."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(child, 0)
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    code = os.waitstatus_to_exitcode(status)
    return None if code == -signal.SIGKILL and left == 0 else code


if __name__ == "__main__":
    sys.exit(serve())
