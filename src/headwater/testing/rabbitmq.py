"""A real RabbitMQ on this machine, for tests: one node on free loopback ports, with its own folder.

    with rabbitmq() as rabbit:
        connection = await aio_pika.connect(rabbit.url)
        rabbit.kill(); rabbit.start()          # the same node again, on the same port

A node takes about five seconds to start, so share one among tests, each with queues of its own. Durable
queues and persistent messages that were confirmed survive `kill`. The name service of Erlang (epmd) that a
node needs is a process of ours, too: nothing is left behind, and no other node is met.
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
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.project.ports import free_port
from headwater.testing.kafka_jars import MissingServer, find_program

# Debian's script in /usr/sbin changes to the user rabbitmq, whose folders are not ours to write to.
_SCRIPTS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server")
_DEADLINE_S = 90.0
_AMQP_GREETING = b"AMQP\x00\x00\x09\x01"


class RabbitMQStartError(HeadwaterError):
    """It did not come up; the message carries the end of its log."""


class RabbitMQ:
    """One node; made by `rabbitmq()`."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self.folder = folder
        self.port = free_port()
        self._script = _script()
        self._settings = settings
        self._epmd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def log(self) -> str:
        return (self.folder / "rabbitmq.log").read_text(errors="replace")

    def start(self) -> None:
        environment = self._prepared()
        if self._epmd is None:
            self._epmd = subprocess.Popen(
                [find_program("epmd", "erlang-base")], env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        with (self.folder / "rabbitmq.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._script], env=environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _DEADLINE_S
        while not _greets(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RabbitMQStartError(f"RabbitMQ did not start:\n{self.log[-3000:]}")
            time.sleep(0.02)  # between two questions, not instead of one

    def kill(self) -> None:
        """kill -9 of the node: of its script and of all that it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(_DEADLINE_S)
            self._process = None

    def stop(self) -> None:
        """As `kill`: nobody reads the folder again, and a clean stop takes seconds."""
        self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(_DEADLINE_S)
            self._epmd = None

    def _prepared(self) -> dict[str, str]:
        home = self.folder
        cookie = home / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(os.urandom(16).hex().upper())
            cookie.chmod(0o400)
            (home / "enabled_plugins").write_text("[].\n")
            lines = {"log.console": "true", "log.file": "false", **self._settings}
            conf = "".join(f"{name} = {value}\n" for name, value in lines.items())
            (home / "rabbitmq.conf").write_text(conf)
            self._epmd_port, self._dist_port = free_port(), free_port()
        return {
            **os.environ,
            "HOME": str(home),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"headwater{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "no-such-file"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            # One scheduler that sleeps when idle: a test's node, not a server.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
        }


@contextlib.contextmanager
def rabbitmq(settings: Mapping[str, object] | None = None) -> Iterator[RabbitMQ]:
    """A running node; stopped, and its folder removed, at the end. `settings`: of rabbitmq.conf."""
    folder = Path(tempfile.mkdtemp(prefix="rabbitmq-"))
    try:
        server = RabbitMQ(folder, settings or {})
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _script() -> str:
    for script in _SCRIPTS:
        if Path(script).exists():
            return script
    raise MissingServer("RabbitMQ is not installed: sudo apt-get install rabbitmq-server")


def _greets(port: int) -> bool:
    """Whether it answers a client's first bytes with Connection.Start, a method frame on channel 0."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(_AMQP_GREETING)
            return connection.recv(3) == b"\x01\x00\x00"
    except OSError:
        return False
