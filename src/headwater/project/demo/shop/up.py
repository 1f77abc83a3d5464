"""`headwater up` as a child process that can be watched, waited for and stopped.

Called by `job`. What the parts are doing is read where `headwater status` reads it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from headwater.project import record
from headwater.project.demo.summary import DemoFailed
from headwater.project.leash import leashed

_QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"}
"""A Java that lives for a minute spends more on compiling well than it ever gets back."""
STOP_S = 240.0
LOOK_S = 0.05


class Up:
    """A supervisor in a session of its own, so that Ctrl-C reaches only the demo."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._environment = {**_QUICK_JAVA, **os.environ, **(environment or {})}
        self._output = folder / "up.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Up:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                leashed(sys.executable, "-m", "headwater", "up"),
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the supervisor; its parts end with it."""
        process, self._process = self._process, None
        assert process is not None, "not started"
        process.kill()
        process.wait()

    def stop(self) -> int | None:
        """Ctrl-C, as a person would; the exit code, or None if it was not running."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self._failed(f"headwater up did not stop within {STOP_S:.0f} s") from None

    def parts(self) -> dict[str, record.Entry]:
        """The parts by name, as they are now."""
        _, entries = record.read(self.folder / record.FOLDER)
        return {entry.name: entry for entry in entries}

    def kill_part(self, name: str) -> None:
        """kill -9 of one part; the supervisor finds out by itself."""
        entry = self.parts().get(name)
        if entry is not None and entry.pid is not None:
            os.kill(entry.pid, signal.SIGKILL)

    def until(
        self,
        condition: Callable[[], bool],
        what: str,
        timeout_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """Wait for something that the project will do; `tell` hears in between how its parts are."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._process is not None and self._process.poll() is not None:
                raise self._failed(f"headwater up ended with code {self._process.returncode}")
            if time.monotonic() > deadline:
                raise self._failed(f"waited {timeout_s:.0f} s in vain for {what}")
            tell(self._state())
            time.sleep(LOOK_S)

    def _state(self) -> str:
        busy = [f"{p.name} {p.state}" for p in self.parts().values() if p.state != "running"]
        return ", ".join(busy) or "all parts run"

    def _failed(self, sentence: str) -> DemoFailed:
        lines = self._output.read_text(errors="replace").strip().splitlines()
        said = f"; its last words: {' / '.join(lines[-3:])}" if lines else ""
        return DemoFailed(
            sentence + said, hint="keep the folder and look: headwater demo --data DIR"
        )
