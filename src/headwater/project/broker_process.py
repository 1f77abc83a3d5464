"""The broker as a child process that can be started, killed and stopped.

Called by the demo and by promote. The address is fixed when the object is made, so that a broker that
was killed comes back where its clients look for it. It ends with its parent, however that ends: a broker
left alone would keep the lock of its data folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.log.meta import cluster_id
from headwater.project.hello import cluster_at
from headwater.project.parent_death import ends_with_parent
from headwater.project.ports import free_port

START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 30.0


class BrokerDied(HeadwaterError):
    """The child process ended, or did not answer, when it should have been up."""


class BrokerProcess:
    """`headwater broker` in a process of its own; use it as a context manager."""

    def __init__(
        self, data: Path, *, durability: str = "disk", settings: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self._settings = dict(settings or {})
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self._durability = durability
        self._process: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()
        self._output.close()

    def start(self) -> float:
        """Start it and return the seconds until it answered its first request.

        It ends with the thread that calls this, as Linux sees it: call it from one that stays.
        """
        assert self._process is None, "started twice"
        words = ["broker", "--data", str(self.data), "--listen", self.bootstrap]
        words += ["--durability", self._durability, "--log-level", "warning"]
        for name, value in self._settings.items():
            words += ["--set", f"{name}={value}"]
        begin = time.perf_counter()
        self._process = subprocess.Popen(
            ends_with_parent(sys.executable, "-m", "headwater", *words),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )
        while not self._answers():
            if self._process.poll() is not None:
                raise self._died(f"the broker ended with code {self._process.returncode}")
            if time.perf_counter() - begin > START_DEADLINE_S:
                raise self._died(f"the broker did not answer within {START_DEADLINE_S:.0f} s")
            time.sleep(0.002)
        return time.perf_counter() - begin

    def _answers(self) -> bool:
        own = cluster_id(self.data)
        return own is not None and cluster_at(self.bootstrap, timeout_s=1.0) == own

    def kill(self) -> None:
        """kill -9: no flush, no farewell."""
        process, self._process = self._process, None
        assert process is not None, "not running"
        process.kill()
        process.wait()

    def stop(self) -> float:
        """SIGTERM, as an operator would; returns the seconds until it was gone."""
        process = self._process
        assert process is not None, "not running"
        begin = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise self._died(f"the broker did not stop within {STOP_DEADLINE_S:.0f} s") from None
        self._process = None
        if code != 0:
            raise self._died(f"the broker stopped with code {code}")
        return time.perf_counter() - begin

    def resident_bytes(self) -> int | None:
        """Memory now; None where the system does not tell in /proc."""
        if self._process is None:
            return None
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        except OSError:
            return None
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def output(self) -> str:
        """What it has printed so far."""
        self._output.flush()
        return os.pread(self._output.fileno(), 16 << 20, 0).decode(errors="replace")

    def _died(self, sentence: str) -> BrokerDied:
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        said = f"; its last words: {' / '.join(lines[-3:])}" if lines else ""
        return BrokerDied(sentence + said, hint=f"try: headwater broker --data {self.data}")
