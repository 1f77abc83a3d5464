"""A real PostgreSQL for tests: Debian's, on a free port of the loopback, in a temporary folder.

`initdb` refuses root, so as root everything runs as another user. Killing and starting again is part of
the tests: `kill` is kill -9 of the whole server, as a power cut is to a process.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psutil
import psycopg

from headwater.project.ports import free_port
from tests.capture.servers.builds import Build, missing, unpacked, within_reach

SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "logical_decoding_work_mem": "64kB",  # so that small transactions are streamed too
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
    "fsync": "off",  # processes are killed here, machines are not
    "log_min_messages": "fatal",
    "wal_sender_timeout": "10s",
}
INSTALL = "apt install postgresql"


def programs() -> Path | None:
    """Where initdb and postgres are."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


class PostgresServer:
    """One server; stopped and removed by `postgres()`."""

    def __init__(
        self, folder: Path, settings: dict[str, str] | None = None, where: Path | None = None
    ) -> None:
        where = where or programs()
        assert where is not None
        self._programs = where
        self._folder = folder
        self._settings = {**SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self._as: dict[str, Any] = _other_user()
        libraries = where.parent / "usr/lib/x86_64-linux-gnu"
        if libraries.is_dir():  # of packages that were unpacked into a root of their own
            projections = {"PROJ_LIB": str(where.parent / "usr/share/proj")}
            self._as["env"] = {**os.environ, **projections, "LD_LIBRARY_PATH": str(libraries)}
        if "user" in self._as:
            os.chown(folder, self._as["user"], self._as["group"])

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    @property
    def data(self) -> Path:
        return self._folder / "data"

    def twin(self, folder: Path, settings: dict[str, str]) -> PostgresServer:
        """Another server of the same programs, which has no data yet."""
        return PostgresServer(folder, {**self._settings, **settings}, self._programs)

    def initialise(self) -> None:
        command = [
            self._programs / "initdb", "-D", self._folder / "data", "-U", "postgres",
            "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, cwd="/", **self._as, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        options = [
            word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")
        ]
        command = [
            self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-k", self._folder, *options,
        ]  # fmt: skip
        log = (self._folder / "server.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", start_new_session=True, **self._as
            )
        deadline = time.monotonic() + 100
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "server.log").read_text()[
                    -2000:
                ]
                assert time.monotonic() < deadline, "PostgreSQL did not answer within 100 s"
                time.sleep(0.02)  # the condition is the connection above

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: PostgreSQL's fast shutdown."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        """kill -9 of the server and everything it has started."""
        if self._process is not None:
            # They have sessions of their own, and would let no other server start for as long as they live.
            started = _started_by(self._process.pid)
            for each in (self._process, *started):
                each.kill()
            self._process.wait(60)
            psutil.wait_procs(started, 60)
            self._process = None
            _wait_for_free(self.port)

    def restart(self) -> None:
        self.stop()
        self.start()

    def execute(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run each by itself; the rows of the last."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            rows: list[tuple[Any, ...]] = []
            for statement in statements:
                cursor = connection.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else []
            return rows


@contextlib.contextmanager
def postgres(
    settings: dict[str, str] | None = None, build: Build | None = None
) -> Iterator[PostgresServer]:
    """A running server, Debian's or a build; where there is none, the test is skipped or fails."""
    if build is None and programs() is None:
        missing(f"PostgreSQL is not installed; install it with: {INSTALL}")
    folder = Path(mkdtemp(prefix="headwater-postgres-"))
    folder.chmod(0o755)  # it may hold the programs, which another user runs
    try:
        where = within_reach(unpacked(build), folder) / "bin" if build is not None else None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    server = PostgresServer(folder, settings, where)
    try:
        server.initialise()
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _other_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise AssertionError("running as root, and there is no other user to run PostgreSQL as")


def _started_by(number: int) -> list[psutil.Process]:
    """Stopped, so that they start nothing meanwhile; the server may be gone already."""
    with contextlib.suppress(psutil.NoSuchProcess):
        server = psutil.Process(number)
        server.suspend()
        return server.children(recursive=True)
    return []


def _wait_for_free(port: int) -> None:
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return
        time.sleep(0.02)
