"""Spark's own way into PostgreSQL: its JDBC sink, with the driver that Maven fetches once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

from headwater.testing.kafka_jars import MissingServer, find_program

DRIVER = "org.postgresql:postgresql:42.7.4"
URL_OPTIONS = "&reWriteBatchedInserts=true"
"""Lets the driver send many rows as one statement: the advice that one finds when it is slow."""


def driver_jar() -> Path | None:
    """The driver; None, with a sentence, where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    jar = cache / f"{DRIVER.replace(':', '-')}.jar"
    if jar.exists():
        return jar
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        try:
            command = [find_program("mvn", "maven"), "-B", "-q", "dependency:copy"]
        except MissingServer as error:
            print(f"without Spark's JDBC sink: {error}", file=sys.stderr)
            return None
        command += [f"-Dartifact={DRIVER}", f"-DoutputDirectory={scratch}"]
        done = subprocess.run(command, capture_output=True, text=True)
        found = list(Path(scratch).glob("*.jar"))
        if done.returncode != 0 or not found:
            said = (done.stdout + done.stderr).strip()[-300:]
            print(f"without Spark's JDBC sink: {said}", file=sys.stderr)
            return None
        found[0].rename(jar)
    return jar


def jdbc_write(rows: DataFrame, address: str) -> None:
    """Adds rows to the table `sunk`: no upsert, no position, and twice after a failure."""
    (
        rows.write.format("jdbc")
        .options(url=address, dbtable="sunk", driver="org.postgresql.Driver", batchsize="10000")
        .mode("append")
        .save()
    )
