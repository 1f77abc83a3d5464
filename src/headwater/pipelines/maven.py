"""Jars that Maven resolves (its own settings say from where), in the user's cache: `~/.cache/headwater`.

A folder of jars appears by a rename, so it is complete where it exists; a lock lets a second process wait
for the first instead of resolving the same jars beside it.

Also here: Spark's own Kafka connector, which real-time speed needs: its jars on this machine.

Called before the session is made, where a file speaks of `real-time`. Maven resolves them (its
own settings say from where) into the user's cache, once. The versions are those that work together
with PySpark 4.2 and 4.3.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.pipelines.declarations import REAL_TIME, View
from headwater.pipelines.errors import NotRealTime
from headwater.pipelines.loader import Source

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


VERSION = "4.2.0"
_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
_NEEDED = "it needs the jars of Spark's Kafka connector"


@dataclass(frozen=True)
class Connector:
    """The jars, or why there are none."""

    jars: tuple[Path, ...] = ()
    reason: str | None = None

    def admit(self, view: View) -> None:
        """NotRealTime if the view asks for what is not there."""
        if view.speed == REAL_TIME and not self.jars:
            raise NotRealTime(
                f"the view {view.name!r} ({view.place}) cannot run at real-time speed: {self.reason}",
                hint="leave out speed= to run it in micro-batches",
            )


def connector_for(sources: Iterable[Source], remote: str | None) -> Connector:
    """What the files may need: the session takes jars only when it is made, before they are run."""
    if not any(REAL_TIME in source.text for source in sources):
        return Connector(reason="it says so in words that were not found in the files")
    if remote is not None:
        return Connector(reason="a Spark Connect server cannot be given the connector it needs")
    return _resolved()


def spark_connector(beginning: Callable[[], None] = lambda: None) -> tuple[Path, ...]:
    """The jars for `spark.jars`, without what else they depend on, which is in Spark already."""
    folder = fetched(f"spark-kafka-{VERSION}", _JARS, alone=True, beginning=beginning)
    return tuple(sorted(folder.glob("*.jar")))


def _resolved() -> Connector:
    try:
        return Connector(jars=spark_connector())
    except NotFetched as error:
        return Connector(reason=f"{_NEEDED}, and {error.args[0]}")
