"""A real Redis for tests: Debian's, on a free port of the loopback, in a temporary folder.

Every write is on disk before it is answered, so that a kill -9 loses nothing that was acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
import redis

from headwater.project.ports import free_port

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
INSTALL = "apt install redis-server"


class RedisServer:
    """One server; stopped and removed by `redis_server()`."""

    def __init__(self, folder: Path, settings: tuple[str, ...] = DURABLE) -> None:
        self.folder = folder
        self.port = 0
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)

    def start(self) -> None:
        deadline = time.monotonic() + 100
        while not self._started(deadline):
            assert time.monotonic() < deadline, self._log()[-2000:]
            self.port = 0  # somebody else took it between asking and starting

    def _started(self, deadline: float) -> bool:
        self.port = self.port or free_port()
        command = [
            "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
            "--dir", str(self.folder), *self._settings,
        ]  # fmt: skip
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(redis.ConnectionError), self.client() as client:
                return bool(client.ping())  # also false while it loads its file
            time.sleep(0.01)  # the condition is the ping above
        return False

    def aimed(self) -> Callable[[], None]:
        """kill -9 of the process that runs now, and of no later one; from any thread."""
        assert self._process is not None
        return self._process.kill

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def last_file(self) -> Path:
        """The file to which Redis adds what it is told."""
        return max((self.folder / "appendonlydir").glob("*.incr.aof"))

    def _log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8")


@contextlib.contextmanager
def redis_server(settings: tuple[str, ...] = DURABLE) -> Iterator[RedisServer]:
    """A running server; where there is none to start, the test is skipped loudly or fails."""
    if shutil.which("redis-server") is None:
        sentence = f"Redis is not installed; install it with: {INSTALL}"
        if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
            pytest.fail(sentence)
        pytest.skip(sentence)
    folder = Path(mkdtemp(prefix="headwater-redis-"))
    server = RedisServer(folder, settings)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
