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
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.project.ports import free_port
from headwater.testing.certificates import Issued
from headwater.testing.kafka_jars import MissingServer

_DEADLINE_S = 60.0
# A CONNECT of MQTT 3.1.1 with an empty client id and a clean session (OASIS 3.1.1, section 3.1).
_CONNECT = bytes.fromhex("100c00044d5154540402003c0000")


class MosquittoStartError(HeadwaterError):
    """It did not come up; the message carries the end of its log."""


class Mosquitto:
    """One broker; made by `mosquitto()`."""

    def __init__(
        self, folder: Path, settings: Mapping[str, object], certificate: Issued | None = None
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.tls_port = free_port() if certificate is not None else 0
        self._certificate = certificate
        self._program = _program()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "mosquitto.log").read_text(errors="replace")

    def start(self) -> None:
        conf = self.folder / "mosquitto.conf"
        conf.write_text(self._conf())
        with (self.folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-c", str(conf), "-v"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _DEADLINE_S
        while not _accepts(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise MosquittoStartError(f"mosquitto did not start:\n{self.log[-2000:]}")
            time.sleep(0.01)  # between two questions, not instead of one

    def save(self) -> None:
        """Its state is on disk when this returns."""
        assert self._process is not None
        file = self.folder / "mosquitto.db"
        before = file.stat().st_mtime_ns if file.exists() else 0
        deadline = time.monotonic() + _DEADLINE_S
        while not (file.exists() and file.stat().st_mtime_ns > before):
            if time.monotonic() > deadline:
                raise MosquittoStartError(f"mosquitto did not save:\n{self.log[-2000:]}")
            self._process.send_signal(signal.SIGUSR1)  # "write the database now"
            time.sleep(0.02)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_DEADLINE_S)
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(15)
            self.kill()

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
    folder = Path(tempfile.mkdtemp(prefix="mosquitto-"))
    try:
        server = Mosquitto(folder, settings or {}, certificate)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> str:
    # Debian puts servers where only root's PATH looks.
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise MissingServer("`mosquitto` is not installed: sudo apt-get install mosquitto")
    return found


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(_CONNECT)
            return connection.recv(4)[:1] == b"\x20"
    except OSError:
        return False
