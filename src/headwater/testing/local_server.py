"""A server of others on this machine, for tests: on free loopback ports, with a folder of its own.

What `mosquitto` and `rabbitmq` have alike: its output in a file, a start that waits until it answers, a kill.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from headwater.errors import HeadwaterError
from headwater.project.ports import free_port

S = TypeVar("S", bound="LocalServer")


class ServerStartError(HeadwaterError):
    """It did not come up; the message carries the end of its log."""


class LocalServer:
    """One server; `start` after `kill` is the same one again, on the same port."""

    name: str
    greeting: bytes
    """What a client says first …"""
    answer: bytes
    """… and how an answer to it begins."""
    deadline_s = 60.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(errors="replace")

    def start(self) -> None:
        raise NotImplementedError

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Until it answers. Raises ServerStartError."""
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + self.deadline_s
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerStartError(f"{self.name} did not start:\n{self.log[-3000:]}")
            time.sleep(0.02)  # between two questions, not instead of one

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as connection:
                connection.sendall(self.greeting)
                return connection.recv(len(self.answer)) == self.answer
        except OSError:
            return False

    def kill(self) -> None:
        """kill -9, of it and of all that it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(self.deadline_s)
            self._process = None

    def stop(self) -> None:
        """As `kill`: nobody reads the folder again."""
        self.kill()


@contextlib.contextmanager
def running(make: Callable[[Path], S]) -> Iterator[S]:
    """Made in a temporary folder and started; stopped, and its folder removed, at the end."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-server-"))
    try:
        server = make(folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
