"""Jars that Maven resolves (its own settings say from where), in the user's cache: `~/.cache/headwater`.

A folder of jars appears by a rename, so it is complete where it exists; a lock lets a second process wait
for the first instead of resolving the same jars beside it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from headwater.errors import HeadwaterError

Jar = tuple[str, str, str]
"""Group, artifact, version."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headwater</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies>
</project>
"""
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


class NotFetched(HeadwaterError):
    """The jars are not there, and Maven is missing or could not get them."""


def cache() -> Path:
    """What can be made or fetched again, for all versions of headwater on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"


def fetched(
    name: str,
    jars: Sequence[Jar],
    *,
    alone: bool = False,
    beginning: Callable[[], None] = lambda: None,
) -> Path:
    """The folder `name` of the cache with these jars; `alone`: without what they depend on.

    `beginning` is called where they are fetched now, and by this process.
    """
    folder = cache() / name
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise NotFetched(
            "Maven, which would fetch them, is missing", hint="sudo apt-get install maven"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            beginning()
            _fetch(maven, jars, folder, alone)
    return folder


def _fetch(maven: str, jars: Sequence[Jar], folder: Path, alone: bool) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pom, staging = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        dependencies = "\n".join(_dependency(*jar, alone=alone) for jar in jars)
        pom.write_text(_POM.format(dependencies=dependencies))
        goal = "dependency:copy-dependencies"
        command = [maven, "-B", "-q", "-f", str(pom), goal, f"-DoutputDirectory={staging}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            said = lines[0].removeprefix("[ERROR] ")[:300] if lines else "it gave no reason"
            raise NotFetched(f"Maven could not fetch them: {said}")
        staging.rename(folder)


def _dependency(group: str, artifact: str, version: str, *, alone: bool) -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{_ALONE if alone else ''}</dependency>"
    )
