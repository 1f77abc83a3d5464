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
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.project.ports import free_port
from headwater.testing.kafka_jars import MissingServer, find_program
from headwater.testing.local_server import LocalServer, running

# Debian's script in /usr/sbin changes to the user rabbitmq, whose folders are not ours to write to.
_SCRIPTS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server")


class RabbitMQ(LocalServer):
    """One node; made by `rabbitmq()`."""

    name = "rabbitmq"
    greeting = b"AMQP\x00\x00\x09\x01"
    answer = b"\x01\x00\x00"  # Connection.Start: a method frame on channel 0
    deadline_s = 300.0  # five seconds on a machine with nothing else to do, a minute on a busy one

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        super().__init__(folder)
        self._script = _script()
        self._settings = settings
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        environment = self._prepared()
        if self._epmd is None:
            self._epmd = subprocess.Popen(
                [find_program("epmd", "erlang-base")], env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self.run([self._script], environment)

    def stop(self) -> None:
        super().stop()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(self.deadline_s)
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
    with running(lambda folder: RabbitMQ(folder, settings or {})) as server:
        yield server


def _script() -> str:
    for script in _SCRIPTS:
        if Path(script).exists():
            return script
    raise MissingServer("RabbitMQ is not installed: sudo apt-get install rabbitmq-server")
