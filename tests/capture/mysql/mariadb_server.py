"""A MariaDB of another version than Debian's, from a build; its ways are those of `server.MariaDB`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.capture.mysql.server import START_S, MariaDB
from tests.capture.servers.builds import Build, other_user, private_folder, unpacked, within_reach

_SQL = ("mariadb_system_tables.sql", "mariadb_system_tables_data.sql")


class BuiltMariaDB(MariaDB):
    """One server of a build."""

    def __init__(self, *options: str, build: Build) -> None:
        self._build = build
        super().__init__(*options)

    def _template(self) -> Path:
        """Made once per machine. By the server alone: the script that ships with it finds no loader."""
        made = unpacked(self._build).parent / f"{self._build.name}-system-tables"
        with made.with_name(f"{made.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.is_dir():
                folder = private_folder("mariadb")
                self._bootstrap(folder)
                shutil.rmtree(folder / "programs", ignore_errors=True)
                shutil.move(folder, made)
        return made

    def _bootstrap(self, folder: Path) -> None:
        words = mariadbd(folder, self._build)
        shared = Path(next(word for word in words if "messages" in word).partition("=")[2])
        begin = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
        statements = begin + "".join((shared / name).read_text() for name in _SQL)
        (folder / "data").mkdir()
        if other_user():
            os.chown(folder / "data", 65534, 65534)
        done = subprocess.run(
            [*other_user(), *words, "--bootstrap", f"--datadir={folder}/data"],
            input=statements.encode(), cwd=folder, capture_output=True, timeout=START_S, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stderr.decode()[-3000:]

    def _program(self) -> list[str]:
        # From 11.4 on it would make itself a certificate at each start: half a minute on a busy machine.
        return [*mariadbd(self.folder, self._build), "--innodb-log-file-size=32M", "--skip-ssl"]


def mariadbd(folder: Path, build: Build) -> list[str]:
    ready = folder / "programs"
    root = ready if ready.is_dir() else within_reach(unpacked(build), folder)
    libraries, shared = root / "usr/lib/x86_64-linux-gnu", root / "usr/share/mariadb"
    loader: list[str] = []
    if libraries.is_dir():
        loader = [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)]
        program = root / "usr/sbin/mariadbd"
    else:
        program, shared = root / "bin/mariadbd", root / "share"
    return [
        *loader, str(program), "--no-defaults", f"--lc-messages-dir={shared}",
        f"--character-sets-dir={shared}/charsets",
    ]  # fmt: skip
