"""A real MySQL for the tests, beside `server.MariaDB`, whose ways it shares: 9.7, or another build.

The programs of 9.7 are Debian sid's, so they run with that Debian's own loader and libraries; those of
8.0 are Oracle's, which run as they are.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from tests.capture.mysql.server import MariaDB, run_apart
from tests.capture.servers.builds import MYSQL_9, Build, private_folder, unpacked, within_reach

# Without name resolution nobody comes from `localhost`.
_ROOT = """CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
"""


class MySQL(MariaDB):
    """One server of MySQL, with GTIDs."""

    scheme = "mysql"

    def __init__(self, *options: str, build: Build = MYSQL_9) -> None:
        self._build = build
        super().__init__(*options)

    def _template(self) -> Path:
        """Made once per machine: it takes ten seconds."""
        made = unpacked(self._build).parent / f"{self._build.name}-system-tables"
        with made.with_name(f"{made.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.is_dir():
                folder = private_folder("mysql")
                (folder / "init.sql").write_text(_ROOT)
                words = [*_mysqld(folder, self._build), "--innodb-redo-log-capacity=8M"]
                words += ["--initialize-insecure"]
                words += [f"--datadir={folder}/data", f"--init-file={folder}/init.sql"]
                run_apart(words, folder)
                shutil.rmtree(folder / "programs", ignore_errors=True)
                shutil.move(folder, made)
        return made

    def _program(self) -> list[str]:
        return [
            *_mysqld(self.folder, self._build), "--innodb-redo-log-capacity=32M", "--mysqlx=OFF",
            "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
        ]  # fmt: skip

    def gtids(self) -> str:
        return str(self.execute("SELECT @@gtid_executed")[0][0]).replace("\n", "")


def _mysqld(folder: Path, build: Build) -> list[str]:
    ready = folder / "programs"
    root = ready if ready.is_dir() else within_reach(unpacked(build), folder)
    libraries, shared = root / "usr/lib/x86_64-linux-gnu", root / "usr/share/mysql"
    if not libraries.is_dir():
        return [str(root / "bin/mysqld"), "--no-defaults", f"--basedir={root}"]
    return [
        str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries),
        str(root / "usr/sbin/mysqld"), "--no-defaults", f"--lc-messages-dir={shared}",
        f"--character-sets-dir={shared}/charsets", f"--plugin-dir={root}/usr/lib/mysql/plugin",
        "--secure-file-priv=NULL",
    ]  # fmt: skip
