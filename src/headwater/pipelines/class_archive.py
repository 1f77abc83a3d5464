"""Spark's Java classes as one archive (Java's class data sharing): a session starts with half the CPU.

    python -m headwater.pipelines.class_archive       makes it, once per Spark and Java, in half a minute

It lies in the user's cache, 200 MB; `session` uses it where it is there, and Java by itself leaves out one
that does not fit it. To make it, a small program does once what views do with Spark, and Java keeps the
classes that were loaded meanwhile. An application that runs has it made when it has come to rest (`Maker`),
at the lowest priority: so the first start is as slow as ever, and every later one is quicker.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.pipelines.java import java_home
from headwater.pipelines.spark_home import home

REST_S = 60.0
"""Of an application, from its start until its archive is made."""
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.M)
_LIMIT_S = 900
_BYTES_FREE_MIN = 1_000_000_000
_LOWEST_PRIORITY = 19
_TRY_AGAIN_S = 7 * 86_400


def options() -> tuple[str, ...]:
    """Of a Java that uses the archive; none where there is none."""
    found = _place()
    if found is None or not found.is_file() or not found.stat().st_size:
        return ()
    return (f"-XX:SharedArchiveFile={found}", *_SILENT)


def is_wanted() -> bool:
    """Whether there is none yet, and nobody has tried lately."""
    place = _place()
    try:
        if place is None or shutil.disk_usage(place.parent).free < _BYTES_FREE_MIN:
            return False
        tried = place.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not tried.st_size and time.time() - tried.st_mtime > _TRY_AGAIN_S


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
    """What was done, in a sentence. Where it cannot be made, an empty file keeps others from trying."""
    place = _place()
    if place is None:
        return (
            "no class archive: this Java does not say its version, or Spark has a home of its own"
        )
    if place.is_file() and place.stat().st_size:
        return "the class archive of Spark is there"
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as folder:
        made = Path(folder) / "classes.jsa"
        said = _dumped(made)
        if said is None:
            made.rename(place)
            return "made the class archive of Spark"
    place.touch()
    return f"no class archive, Spark starts more slowly: {said}"


def _dumped(made: Path) -> str | None:
    """Why it could not be; None where it was."""
    words = (*_QUICK, f"-XX:ArchiveClassesAtExit={made}", *_SILENT)
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, " ".join(words)],
        cwd=made.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"it took longer than {_LIMIT_S} s"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # its Java too
            child.communicate()
    if child.returncode == 0 and made.is_file():
        return None
    said = output.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"its program ended with {child.returncode}"


class Maker:
    """Has the archive made beside an application, in a process of its own; ended with the application."""

    def __init__(self, master: str | None, *, lasts: bool = True, rest_s: float = REST_S) -> None:
        """`lasts`: whether the application goes on until it is told to stop."""
        self._is_of_use = lasts and (master or "local").startswith("local")
        self._rest_s = rest_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="class archive", daemon=True)

    def __enter__(self) -> Maker:
        if self._is_of_use and is_wanted():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if self._ended.wait(self._rest_s):
            return
        process = subprocess.Popen(
            ["nice", "-n", str(_LOWEST_PRIORITY), sys.executable, "-m", __name__],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None:
            if self._ended.wait(1.0):
                process.send_signal(signal.SIGINT)
                process.wait()


_PROGRAM = """
import sys
from pathlib import Path
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from headwater.pipelines.session import session


class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "at TIMESTAMP, value STRING"

    def simpleStreamReader(self, schema):
        return Ten()


class Ten(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"n": 0}

    def read(self, start):
        from datetime import datetime

        rows = [] if start["n"] else [(datetime(2000, 1, 1), '{"a": %d}' % n) for n in range(10)]
        return iter(rows), {"n": 10}

    def readBetweenOffsets(self, start, end):
        return self.read(start)[0]


spark = session("local[2]", name="classes", settings={
    "spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": sys.argv[1]})
spark.dataSource.register(Numbers)
left = pa.table({"id": [1, 2], "other": [1, 2], "name": ["a", "b"]})
right = pa.table({"other": [1, 2], "city": ["x", "y"]})
joined = spark.createDataFrame(left).join(spark.createDataFrame(right), "other")
of_tables = joined.select("id", "name", "city")
of_tables._jdf.queryExecution().analyzed().toJSON()
of_tables.toArrow()
of_tables.groupBy("city").agg(F.count("*"), F.max("id")).toArrow()
of_tables.write.parquet("rows")
spark.read.parquet("rows").toArrow()
rows = spark.readStream.format("numbers").load()
typed = rows.select(F.from_json("value", "a INT").alias("v"), "at").withWatermark("at", "1 minute")
counted = typed.groupBy(F.window("at", "1 minute"), "v.a").count()


def each(batch, number):
    batch.persist()
    batch.join(batch.select("a"), "a").toArrow()
    batch.mapInArrow(lambda parts: parts, batch.schema).collect()


query = (counted.writeStream.outputMode("update").foreachBatch(each)
         .option("checkpointLocation", Path("points").absolute().as_uri()).start())
query.processAllAvailable()
query.stop()
gateway = SparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait(600)  # it writes the archive as it ends
"""


if __name__ == "__main__":
    print(make())
