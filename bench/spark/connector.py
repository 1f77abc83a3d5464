"""Spark's own Kafka connector: its jars, resolved once with Maven into headwater's cache folder.

The versions are those that work with this PySpark: the newest connector that the registry has, the only
token provider that it has, the Kafka client that the connector was built with. The jars are named one by
one, without what they depend on: Spark has the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headwater.testing.kafka_jars import MissingServer, find_program

CONNECTOR = "4.2.0"
_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


def connector_jars() -> list[Path]:
    """Paths for `spark.jars`; MissingServer where they cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    folder = cache / f"spark-kafka-{CONNECTOR}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        print("Spark's Kafka connector: Maven fetches it, once …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            staging = Path(scratch) / "jars"
            for jar in _JARS:
                _fetch(jar, staging)
            staging.rename(folder)
    return sorted(folder.glob("*.jar"))


def _fetch(jar: str, into: Path) -> None:
    command = [
        find_program("mvn", "maven"),
        *("-B", "-q", "dependency:copy", f"-Dartifact={jar}", f"-DoutputDirectory={into}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()[-600:]
        raise MissingServer(f"Maven could not resolve {jar}: {said}")
