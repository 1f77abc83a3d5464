"""A real MariaDB server for the tests, on a free loopback port, in a folder of its own.

The system tables are made once per process (about a second) and copied for each further server.
mariadbd refuses to run as root, so root starts it as another user.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pymysql
import pytest

from headwater.project.ports import free_port
from tests.capture.servers.builds import other_user, private_folder

INSTALL = "apt-get update && apt-get install -y mariadb-server"
START_S = 300.0
_template: Path | None = None


def require_server() -> None:
    """Skip, loudly, where the server is missing; fail where it has been promised."""
    if shutil.which("mariadbd", path=_path()) and shutil.which("mariadb-install-db", path=_path()):
        return
    sentence = f"MariaDB is not installed, so capture from it is NOT tested: {INSTALL}"
    if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/usr/libexec"


def run_apart(arguments: list[str], folder: Path) -> None:
    done = subprocess.run(
        [*other_user(), *arguments],
        cwd=folder,
        env={"PATH": _path(), "HOME": str(folder), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def _made_once() -> Path:
    global _template
    if _template is None:
        folder = private_folder("mariadb")
        run_apart(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={folder}/data",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ],
            folder,
        )
        _template = folder
    return _template


class MariaDB:
    """One server. `options` are appended to its command line; `restart` may change them."""

    scheme = "mariadb"

    def __init__(self, *options: str) -> None:
        self.folder = private_folder("mariadb")
        self.options = list(options)
        copied = ["cp", "-a", "--reflink=auto", "--sparse=always"]
        copied += [f"{self._template()}/data", f"{self.folder}/data"]
        subprocess.run(copied, check=True, timeout=START_S)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def _template(self) -> Path:
        """A folder with the system tables in `data`."""
        return _made_once()

    def _program(self) -> list[str]:
        return ["mariadbd", "--no-defaults", "--innodb-log-file-size=32M"]

    def gtids(self) -> str:
        """What its binary log has."""
        return str(self.execute("SELECT @@gtid_binlog_pos")[0][0])

    def start(self) -> None:
        with (self.folder / "server.out").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *other_user(),
                    *self._program(),
                    f"--datadir={self.folder}/data",
                    f"--socket={self.folder}/s.sock",
                    f"--pid-file={self.folder}/pid",
                    "--bind-address=127.0.0.1",
                    f"--port={self.port}",
                    "--server-id=1",
                    "--log-bin=binlog",
                    "--binlog-format=ROW",
                    "--binlog-row-metadata=FULL",
                    "--skip-name-resolve",
                    "--innodb-buffer-pool-size=48M",
                    "--innodb-flush-log-at-trx-commit=2",  # survives kill -9, which is what is done
                    "--performance-schema=OFF",
                    "--max-allowed-packet=64M",
                    *self.options,
                ],
                cwd=self.folder,
                env={"PATH": _path(), "HOME": str(self.folder), "TMPDIR": str(self.folder)},
                stdout=output,
                stderr=output,
            )
        self._wait()

    def _wait(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.connect().close()
                return
            except pymysql.err.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "server.out").read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"the server did not start:\n{said}") from None
                time.sleep(0.02)

    def connect(self, database: str | None = None, **more: Any) -> pymysql.Connection[Any]:
        # Without TLS: the driver would read all of the system's certificates for each connection.
        more = {
            "user": "root",
            "charset": "utf8mb4",
            "autocommit": True,
            "ssl_disabled": True,
            **more,
        }
        return pymysql.connect(host="127.0.0.1", port=self.port, database=database, **more)

    def execute(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements one after the other; the rows of the last."""
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def kill(self) -> None:
        """As a power switch would for the process: no farewell, no flush."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(START_S)
            self.process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_template() -> None:
    global _template
    if _template is not None:
        shutil.rmtree(_template, ignore_errors=True)
        _template = None
