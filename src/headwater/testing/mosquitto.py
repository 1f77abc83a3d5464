"""A real Mosquitto on this machine, for tests: one MQTT broker on a free loopback port, with its own folder.

    with mosquitto() as broker:
        client.connect("127.0.0.1", broker.port)
        broker.save(); broker.kill(); broker.start()      # the same broker again, on the same port

Trap: what Mosquitto keeps for sessions that are away (QoS 1) is in its memory, acknowledged or not, and is
saved every second and on a clean stop. What came after the last `save` is lost by `kill`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.project.ports import free_port
from headwater.testing.certificates import Issued
from headwater.testing.kafka_jars import MissingServer
from headwater.testing.local_server import LocalServer, ServerStartError, running


class Mosquitto(LocalServer):
    """One broker; made by `mosquitto()`."""

    name = "mosquitto"
    # A CONNECT of MQTT 3.1.1 with an empty client id and a clean session (OASIS 3.1.1, section 3.1).
    greeting = bytes.fromhex("100c00044d5154540402003c0000")
    answer = b"\x20"

    def __init__(
        self, folder: Path, settings: Mapping[str, object], certificate: Issued | None = None
    ) -> None:
        super().__init__(folder)
        self.tls_port = free_port() if certificate is not None else 0
        self._certificate = certificate
        self._program = _program()
        self._settings = settings

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        conf = self.folder / "mosquitto.conf"
        conf.write_text(self._conf())
        self.run([self._program, "-c", str(conf), "-v"])

    def save(self) -> None:
        """Its state is on disk when this returns."""
        assert self._process is not None
        file = self.folder / "mosquitto.db"
        before = file.stat().st_mtime_ns if file.exists() else 0
        deadline = time.monotonic() + self.deadline_s
        while not (file.exists() and file.stat().st_mtime_ns > before):
            if time.monotonic() > deadline:
                raise ServerStartError(f"mosquitto did not save:\n{self.log[-2000:]}")
            self._process.send_signal(signal.SIGUSR1)  # "write the database now"
            time.sleep(0.02)

    def _conf(self) -> str:
        lines: dict[str, object] = {
            "listener": f"{self.port} 127.0.0.1",
            "allow_anonymous": "true",
            "persistence": "true",
            "persistence_location": f"{self.folder}/",
            "autosave_interval": 1,
            # Debian's starts as root and would change to a user who cannot write here.
            **({"user": "root"} if os.getuid() == 0 else {}),
            **self._settings,
        }
        text = "".join(f"{name} {value}\n" for name, value in lines.items())
        if self._certificate is None:
            return text
        key, certificate = self._certificate.key, self._certificate.certificate
        return f"{text}listener {self.tls_port} 127.0.0.1\ncertfile {certificate}\nkeyfile {key}\n"


@contextlib.contextmanager
def mosquitto(
    settings: Mapping[str, object] | None = None, certificate: Issued | None = None
) -> Iterator[Mosquitto]:
    """A running broker; stopped, and its folder removed, at the end. `settings`: of mosquitto.conf.

    With a `certificate` it also listens with TLS, at `tls_port`."""
    with running(lambda folder: Mosquitto(folder, settings or {}, certificate)) as server:
        yield server


def _program() -> str:
    # Debian puts servers where only root's PATH looks.
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise MissingServer("`mosquitto` is not installed: sudo apt-get install mosquitto")
    return found
