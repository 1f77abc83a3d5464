"""`headwater broker` as a child on a fixed port, so that clients find it again after its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from headwater.project.hello import Answer, hello
from headwater.project.ports import free_port

DEADLINE_S = 100.0
# Small segments and dense indexes, so that a few seconds of load roll, index and snapshot often.
SETTINGS = {"log.segment.bytes": 1 << 20, "log.index.interval.bytes": 1_000, "num.partitions": 3}


class BrokerProcess:
    """One broker's data and address; the process comes and goes."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: object) -> None:
        words = [sys.executable, "-m", "headwater", "broker"]
        words += ["--data", str(self.data), "--listen", self.bootstrap]
        for name, value in (SETTINGS | settings).items():
            words += ["--set", f"{name}={value}"]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(words, stdout=output, stderr=output)
        self.pid = self._process.pid
        end = time.monotonic() + DEADLINE_S
        while hello(self.bootstrap, timeout_s=1.0) is not Answer.BROKER:
            assert self._process.poll() is None, f"ended at once: {self.said()[-2000:]}"
            assert time.monotonic() < end, f"does not answer: {self.said()[-2000:]}"
            time.sleep(0.002)

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(DEADLINE_S)

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self.terminate()
        assert self.wait() == 0, self.said()[-2000:]

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def said(self) -> str:
        """Everything it ever wrote to its terminal."""
        return self.log.read_text(errors="replace")

    def folder(self, topic: str, partition: int = 0) -> Path:
        return self.data / f"{topic}-{partition}"

    def last_log(self, topic: str, partition: int = 0) -> Path:
        """The newest segment of a partition."""
        return max(self.folder(topic, partition).glob("*.log"))
