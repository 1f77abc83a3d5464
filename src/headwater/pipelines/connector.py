"""Spark's own Kafka connector, which real-time speed needs: its jars on this machine.

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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.pipelines.declared import REAL_TIME, View
from headwater.pipelines.errors import NotRealTime
from headwater.pipelines.loading import Source

VERSION = "4.2.0"
_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headwater</groupId><artifactId>spark-kafka-connector</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies>
</project>
"""
_NEEDED = "it needs the jars of Spark's Kafka connector"
# Only the jars themselves: what else they depend on is in Spark already.
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


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


def _resolved() -> Connector:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    folder = cache / f"spark-kafka-{VERSION}"
    if not folder.is_dir():
        maven = shutil.which("mvn")
        if maven is None:
            return Connector(reason=f"{_NEEDED}, and Maven, which would fetch them, is missing")
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits for the first
            if not folder.is_dir() and (failure := _fetch(maven, cache, folder)):
                return Connector(reason=f"{_NEEDED}, and Maven could not fetch them: {failure}")
    return Connector(jars=tuple(sorted(folder.glob("*.jar"))))


def _fetch(maven: str, cache: Path, folder: Path) -> str | None:
    """Let Maven copy the jars; what it says if it cannot."""
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        pom, staging = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_POM.format(dependencies="\n".join(_dependency(*jar) for jar in _JARS)))
        command = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={staging}"], capture_output=True, text=True
        )
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            return lines[0].removeprefix("[ERROR] ")[:300] if lines else "it gave no reason"
        staging.rename(folder)  # whole or not at all
    return None


def _dependency(group: str, artifact: str, version: str) -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{_ALONE}</dependency>"
    )
