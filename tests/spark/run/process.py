"""`headwater run` as a process of its own: started, killed, stopped, and heard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.spark.quick import QUICK_ENVIRONMENT


class RunProcess:
    """Use it as a context manager: whatever happens, nothing is left running."""

    def __init__(self, folder: Path, *words: str, env: dict[str, str] | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self._output = folder / f"output-{time.monotonic_ns()}"
        with self._output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headwater", "run", *words],
                cwd=folder,
                env={**os.environ, **QUICK_ENVIRONMENT, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> RunProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def wait_until(self, done: Callable[[], object], what: str, timeout_s: float = 600.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            assert self.process.poll() is None, f"it ended, waiting for {what}: {self.output}"
            assert time.monotonic() < deadline, f"waited for {what}: {self.output}"
            time.sleep(0.1)  # between two looks

    def kill(self) -> None:
        """kill -9 of the driver's Python alone; Spark's JVM notices and ends."""
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """A signal to all its processes, as a supervisor sends it; returns the exit code."""
        os.killpg(self.process.pid, number)
        return self.process.wait(200)
