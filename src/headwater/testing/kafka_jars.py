"""Apache Kafka's jars on this machine, and its Java tools run from them.

Called by `apache_kafka` and by tests that point a tool at any address. Maven resolves the jars (its
own settings say from where) into `$XDG_CACHE_HOME/headwater` or `~/.cache/headwater`, once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.pipelines import maven

KAFKA_VERSION = "4.3.1"
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""For tests: a JVM that lives for seconds spends more on compiling well than it ever gets back."""

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
    """The folder with Kafka's jars, resolved with Maven the first time."""
    name = f"kafka-{KAFKA_VERSION}"
    if (maven.cache() / name).is_dir():
        return maven.fetched(name, _JARS)
    find_program("mvn", "maven")
    find_program("java", "openjdk-17-jre-headless")
    try:
        return maven.fetched(name, _JARS, beginning=_told)
    except maven.NotFetched as error:
        raise MissingServer(f"the jars of Apache Kafka {KAFKA_VERSION}: {error.args[0]}") from error


def _told() -> None:
    print(f"Apache Kafka {KAFKA_VERSION}: Maven fetches 54 MB, once …", file=sys.stderr, flush=True)


def find_program(name: str, debian_package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingServer(f"`{name}` is not installed: sudo apt-get install {debian_package}")
    return found
