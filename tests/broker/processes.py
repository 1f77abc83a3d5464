"""`headwater broker` as a process of its own: what it says, what it weighs, how it ends."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.compat.waiting import until
from tests.compat.wire import Wire, connected

BROKER = ("-m", "headwater", "broker")
QUIET = ("auto.create.topics.enable=false", "group.initial.rebalance.delay.ms=0")
_READY = re.compile(r"headwater: ready at (\S+), data in ")
_PAGE = resource.getpagesize()


class BrokerProcess:
    """A broker that has said that it is ready."""

    def __init__(self, process: subprocess.Popen[str], bootstrap: str, errors: Path) -> None:
        self.process = process
        self.bootstrap = bootstrap
        self._errors = errors

    @property
    def errors_path(self) -> Path:
        """The file of what it logs."""
        return self._errors

    @property
    def said(self) -> str:
        """What it has logged until now."""
        return self._errors.read_text()

    @property
    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE

    def until_said(self, words: str) -> None:
        until(lambda: words in self.said, f"the broker to log {words!r}")

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        with connected(self.bootstrap) as wire:
            yield wire

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(60)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """kill -9: no flush, no farewell."""
        self.process.kill()
        self.process.wait(60)


@contextmanager
def broker_process(
    data: Path,
    *settings: str,
    words: Sequence[str] = (),
    program: Sequence[str] = BROKER,
    listen: bool = True,
) -> Iterator[BrokerProcess]:
    """Start one on a folder and wait for its ready line; stopped at the end if it still runs.

    Without `listen` the settings say where.
    """
    errors = data.parent / f"{data.name}.stderr"
    chosen = [f"--set={each}" for each in (*QUIET, *settings)]
    place = ["--data", str(data), *(("--listen", "127.0.0.1:0") if listen else ())]
    with (
        errors.open("w") as out,
        subprocess.Popen(
            [sys.executable, *program, *place, *chosen, *words],
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            ready = _READY.match(process.stdout.readline())
            assert ready is not None, errors.read_text()
            running = BrokerProcess(process, ready[1], errors)
            yield running
            if process.poll() is None:
                assert running.stop() == 0, running.said
        finally:
            if process.poll() is None:
                process.kill()
