"""The demo's cache: a Redis where this machine has one, else a table in a SQLite file.

Called by `job`. Redis is started for the demo alone, on a port and in a folder of its own, and so that it
keeps what it has acknowledged.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from headwater.project.demo.summary import DemoFailed
from headwater.project.parent_death import ends_with_parent
from headwater.project.ports import free_port

EMBEDDED = "sqlite:data/cache.db"
START_S = 30.0


@contextmanager
def cache(folder: Path) -> Iterator[tuple[str, str]]:
    """The cache's address for headwater.toml, and a sentence that says which one it is."""
    program = shutil.which("redis-server")
    if program is None or find_spec("redis") is None:
        lacking = "redis-server is not installed" if program is None else "headwater[redis] is not"
        yield EMBEDDED, f"a SQLite file, as {lacking}"
        return
    port = free_port()
    with _redis(program, port, folder):
        yield f"redis://127.0.0.1:{port}/0", "Redis, a server of its own"


@contextmanager
def _redis(program: str, port: int, folder: Path) -> Iterator[None]:
    home = folder / "redis"
    home.mkdir(parents=True)
    words = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(home), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]
    with (home / "redis.log").open("ab") as output:
        process = subprocess.Popen(
            ends_with_parent(program, *words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait(process, port, home)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, home: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise DemoFailed(
                    "redis-server did not start", hint=f"see {home / 'redis.log'}"
                ) from None
        time.sleep(0.02)
