"""Spark with its Python compiled: a SPARK_HOME in the user's cache, for sessions on this machine.

PySpark's Python processes import it from `python/lib/pyspark.zip`, which holds sources only: each process
compiles them again, half a second of CPU, and every query starts several. The folder made here is that of
the installed package, link by link, but for this archive, in whose place stands the package itself, which
pip has compiled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from headwater.pipelines.maven import cache

ARCHIVE = Path("python") / "lib" / "pyspark.zip"


@contextmanager
def compiled_pyspark() -> Iterator[None]:
    """Let a JVM that is started inside use it. A SPARK_HOME that somebody has set is left alone."""
    found = None if os.environ.get("SPARK_HOME") else home()
    if found is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(found)
    try:
        yield
    finally:
        os.environ.pop("SPARK_HOME", None)


def home() -> Path | None:
    """The folder, made where it is missing; None where the package is none that we know."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    package = Path(found.origin).parent
    try:
        if not (package / ARCHIVE).is_file():
            return None
        named = hashlib.sha256(str(package).encode()).hexdigest()[:12]
        made = cache() / f"spark-{version('pyspark')}-{named}"
        if not made.is_dir():
            _remove_archives_of_gone_environments(made.parent)
            _make(package, made)
    except (OSError, PackageNotFoundError):
        return (
            None  # a file system without links, or a home that cannot be written: slower, not wrong
        )
    return made


def _remove_archives_of_gone_environments(folder: Path) -> None:
    """They are large. Were the environment only out of sight (another container's, with the same cache), it
    would make itself another; its home, which it needs, stays."""
    for home in folder.glob("spark-*/"):
        package = home / ARCHIVE / "pyspark"
        if package.is_symlink() and not package.exists():
            for archive in folder.glob(f"{home.name}-java-*.jsa"):
                archive.unlink(missing_ok=True)


def _make(package: Path, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        replaced = [
            ARCHIVE,
            *list(ARCHIVE.parents)[:-1],
        ]  # python/lib/pyspark.zip, python/lib, python
        for folder in [Path(), *reversed(replaced[1:])]:
            (making / folder).mkdir(exist_ok=True)
            for entry in (package / folder).iterdir():
                if folder / entry.name not in replaced:
                    (making / folder / entry.name).symlink_to(entry)
        (making / ARCHIVE).mkdir()
        (making / ARCHIVE / package.name).symlink_to(package)
        making.rename(home)
    except OSError:
        shutil.rmtree(making, ignore_errors=True)
        if not home.is_dir():  # another process may have made it meanwhile
            raise
