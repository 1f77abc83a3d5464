"""Apache Kafka's jars on this machine, and its Java tools run from them.

Called by `apache_kafka` and by tests that point a tool at any address. Maven resolves the jars (its
own settings say from where) into `$XDG_CACHE_HOME/headwater` or `~/.cache/headwater`, once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from headwater.errors import HeadwaterError

KAFKA_VERSION = "4.3.1"
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""For tests: a JVM that lives for seconds spends more on compiling well than it ever gets back."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headwater</groupId><artifactId>apache-kafka-jars</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies>
</project>
"""
_JARS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),  # Kafka is silent without a binding
)


class MissingServer(HeadwaterError):
    """A program this machine lacks; the message ends with the command that installs it."""


def java_tool(
    main_class: str,
    *args: str,
    input: str | None = None,
    timeout: float = 60.0,
    jvm: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's Java tools against any address; only warnings reach stderr."""
    command = [
        find_program("java", "openjdk-17-jre-headless"),
        *jvm,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        f"{kafka_jars()}/*",
        main_class,
        *args,
    ]
    return subprocess.run(command, input=input, capture_output=True, text=True, timeout=timeout)


def kafka_jars() -> Path:
    """The folder with Kafka's jars, resolved with Maven the first time.

    The folder appears by a rename, so it must be complete where it exists; a lock file makes a
    second process wait for the first instead of resolving the same jars beside it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    jars = cache / f"kafka-{KAFKA_VERSION}"
    if jars.is_dir():
        return jars
    maven = find_program("mvn", "maven")
    find_program("java", "openjdk-17-jre-headless")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"kafka-{KAFKA_VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            _resolve_jars(maven, cache, jars)
    return jars


def _resolve_jars(maven: str, cache: Path, jars: Path) -> None:
    started = time.monotonic()
    print(f"Apache Kafka {KAFKA_VERSION}: Maven fetches 54 MB, once …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        pom, staging = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_POM.format(dependencies="\n".join(_dependency(*jar) for jar in _JARS)))
        goal = "dependency:copy-dependencies"
        command = [maven, "-B", "-q", "-f", str(pom), goal, f"-DoutputDirectory={staging}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise MissingServer(
                f"Maven could not resolve Apache Kafka {KAFKA_VERSION}: "
                f"{(done.stdout + done.stderr).strip()[-800:]}\nTry it again with: {' '.join(command)}"
            )
        staging.rename(jars)
    seconds = time.monotonic() - started
    print(f"Apache Kafka {KAFKA_VERSION}: {jars} ({seconds:.0f} s)", file=sys.stderr, flush=True)


def _dependency(group: str, artifact: str, version: str) -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
    )


def find_program(name: str, debian_package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingServer(f"`{name}` is not installed: sudo apt-get install {debian_package}")
    return found
