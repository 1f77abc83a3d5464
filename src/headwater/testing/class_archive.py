"""Spark's Java classes as one archive (Java's class data sharing): a session starts with half the CPU.

    python -m headwater.testing.class_archive       makes it, once per Spark and Java, in half a minute

It lies in the user's cache, 160 MB. `headwater_spark` and headwater's own tests use it where it is there;
Java by itself leaves out one that does not fit it. To make it, a small program does once what tests do
with Spark, and Java keeps the classes that were loaded meanwhile.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.pipelines.java import java_home
from headwater.pipelines.spark_home import home
from headwater.testing.kafka_jars import QUICK_JVM

_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.M)
_LIMIT_S = 300


def options() -> tuple[str, ...]:
    """Of a Java that is quick to start, with the archive where there is one."""
    found = _place()
    if found is None or not found.is_file():
        return QUICK_JVM
    return (*QUICK_JVM, f"-XX:SharedArchiveFile={found}", *_SILENT)


def _place() -> Path | None:
    spark = home()
    if spark is None or os.environ.get("SPARK_HOME"):
        return None  # classes from another folder than the archive's would not fit
    try:
        release = java_home() / "release"
        version = _RELEASE.search(release.read_text()) if release.is_file() else None
    except (HeadwaterError, OSError):
        return None
    return spark.with_name(f"{spark.name}-java-{version[1]}.jsa") if version else None


def make() -> str:
    """What was done, in a sentence."""
    place = _place()
    if place is None:
        return (
            "no class archive: this Java does not say its version, or Spark has a home of its own"
        )
    if place.is_file():
        return "the class archive of Spark is there"
    with tempfile.TemporaryDirectory(prefix="headwater-classes-") as folder:
        made = place.with_name(f".{place.name}-{os.getpid()}")
        words = (*QUICK_JVM, f"-XX:ArchiveClassesAtExit={made}", *_SILENT)
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=folder,
            env={**os.environ, "JDK_JAVA_OPTIONS": " ".join(words)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            check=False,
        )
    if done.returncode or not made.is_file():
        made.unlink(missing_ok=True)
        said = done.stdout.decode(errors="replace").strip().splitlines()
        return f"no class archive, tests are slower: {said[-1] if said else done.returncode}"
    made.rename(place)
    return "made the class archive of Spark"


_PROGRAM = """
from pathlib import Path
from headwater.client.librdkafka import Producer
from pyspark import SparkContext
from pyspark.sql import functions as F
from headwater.pipelines.session import session
from headwater.testing import broker

with broker() as log:
    spark = session("local[2]", name="classes", log_file=Path("spark.log").absolute(),
                    settings={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"})
    producer = Producer({"bootstrap.servers": log.bootstrap})
    for number in range(10):
        producer.produce("events", key=b"k", value=b'{"a": %d}' % number)
    producer.flush()
    source = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": "events", "startingOffsets": "earliest"}
    rows = spark.readStream.format("headwater").options(**source).load()
    typed = rows.select(F.from_json(F.col("value").cast("string"), "a INT").alias("v"), "timestamp")
    counted = (typed.withWatermark("timestamp", "1 minute")
               .groupBy(F.window("timestamp", "1 minute"), "v.a").count())

    def each(batch, number):
        batch.persist()
        batch.join(batch.select("a"), "a").toArrow()
        batch.mapInArrow(lambda parts: parts, batch.schema).collect()

    query = counted.writeStream.outputMode("update").foreachBatch(each).trigger(availableNow=True).start()
    query.awaitTermination()
    out = {"kafka.bootstrap.servers": log.bootstrap, "topic": "out", "checkpointLocation": "points"}
    query = (rows.select("key", "value").writeStream.format("headwater").options(**out)
             .trigger(availableNow=True).start())
    query.awaitTermination()
    gateway = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(240)  # it writes the archive as it ends
"""


if __name__ == "__main__":
    print(make())
