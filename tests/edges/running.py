"""Edges for tests: in this process on a free port, or as the process that a user runs, which can be killed.

with edges(log.bootstrap, {"hooks": {…}}) as running:       with process(folder, toml) as running:
    httpx.post(f"{running.url}/topics/orders", …)                running.kill()
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvicorn

from headwater.edges.app import make_app
from headwater.edges.config import read
from headwater.edges.context import Context
from headwater.edges.server import made_context
from headwater.project import http_server
from headwater.project.file import Project
from headwater.project.ports import free_port


@dataclass(frozen=True)
class Running:
    """Edges that answer."""

    url: str
    context: Context
    loop: asyncio.AbstractEventLoop

    def run(self, what: Any) -> Any:
        """A coroutine on the edges' own loop, from a test's thread."""
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(60)


@contextmanager
def edges(
    bootstrap: str, document: Mapping[str, Any] | None = None, project: Project | None = None
) -> Iterator[Running]:
    """The whole application with this [edges] section; stopped in order at the end."""
    settings, mistakes = read(document or {})
    assert not mistakes, mistakes
    context = made_context(settings, project, bootstrap, {})
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener, context.log:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        app = make_app(context, loopback_only=True)
        config = http_server.config(app, slow_s=settings.limits.slow_seconds, stop_s=2)
        server = uvicorn.Server(config)
        loops: list[asyncio.AbstractEventLoop] = []

        async def serve() -> None:
            loops.append(asyncio.get_running_loop())
            await server.serve(sockets=[listener])

        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="edges")
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive(), "the edges")
            assert thread.is_alive(), "the edges ended at their start"
            port = listener.getsockname()[1]
            yield Running(f"http://127.0.0.1:{port}", context, loops[0])
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive(), "the edges did not stop"


class Process:
    """`headwater edges`, as a user runs it."""

    def __init__(self, folder: Path, document: str, bootstrap: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        head = f'[log]\nbootstrap = "{bootstrap}"\n[edges]\nlisten = "127.0.0.1:{self.port}"\n'
        (folder / "headwater.toml").write_text(head + document)

    def start(self) -> None:
        words = [sys.executable, "-m", "headwater", "edges", "--project", "headwater.toml"]
        with (self._folder / "edges.log").open("ab") as told:
            self._child = subprocess.Popen(words, cwd=self._folder, stdout=told, stderr=told)
        until(self._answers, "the edges' answer")

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def told(self) -> str:
        return (self._folder / "edges.log").read_text()

    def _end(self, number: int) -> int:
        assert self._child is not None
        child, self._child = self._child, None
        os.kill(child.pid, number)
        return child.wait(60)

    def _answers(self) -> bool:
        assert self._child is not None
        assert self._child.poll() is None, f"the edges ended: {self.told()}"
        try:
            with urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def process(folder: Path, document: str, bootstrap: str) -> Iterator[Process]:
    """Started; `document` goes on below `[edges] listen = …`."""
    running = Process(folder, document, bootstrap)
    running.start()
    try:
        yield running
    finally:
        if running._child is not None:
            running.stop()


def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)  # between two looks
    return found
