"""The processes of the demo's shop: ordinary commands, with their last words where one fails."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from headwater.project.demo.summary import DemoFailed

STOP_S = 60.0


class Command:
    """`headwater WORDS` for as long as the `with` lasts; stopped with SIGTERM."""

    def __init__(self, name: str, words: list[str], folder: Path) -> None:
        self._name, self._words, self._folder = name, words, folder
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Command:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headwater.project.leash", *self._command()],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "headwater", *self._words]

    def check(self) -> None:
        """Raise DemoFailed if it has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise self.failed(f"{self._name} ended with code {self._process.returncode}")

    def failed(self, sentence: str) -> DemoFailed:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        said = f"; its last words: {' / '.join(lines[-3:])}" if lines else ""
        return DemoFailed(sentence + said, hint="look at it with: headwater demo --data DIR")


class Deadline:
    """So long, and no longer; what is waited for must go on existing meanwhile."""

    def __init__(self, seconds: float, *commands: Command) -> None:
        self._end = time.monotonic() + seconds
        self._commands = commands

    def wait(self, what: str) -> None:
        """Between two looks."""
        for command in self._commands:
            command.check()
        if time.monotonic() > self._end:
            raise self._commands[-1].failed(f"waited in vain for {what}")
        time.sleep(0.02)
