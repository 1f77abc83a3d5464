"""One Java for all pages that use Spark: it starts once, and has loaded what the next page needs.

PySpark joins a JVM that is there already where its environment names the port (PYSPARK_GATEWAY_PORT).
Each program of a page is still a process and a Spark application of its own; only the JVM outlives it.
It stands in one folder, which is therefore the folder of every such page, emptied in between.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from headwater.pipelines.java import java_home
from headwater.pipelines.session import ARROW
from headwater.pipelines.spark_home import compiled_pyspark
from tests.spark.quick import QUICK_ENVIRONMENT


class WarmJava:
    """A JVM that waits for Spark applications, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        folder.mkdir()
        with self.log.open("wb") as log:
            self._gateway = _launch({"cwd": folder, "stdout": log, "stderr": log})
        self.environment = {
            "PYSPARK_GATEWAY_PORT": str(self._gateway.gateway_parameters.port),
            "PYSPARK_GATEWAY_SECRET": str(self._gateway.gateway_parameters.auth_token),
        }

    def empty(self) -> None:
        """Stop what a program left, which its own JVM would have taken along; clear the folder."""
        left = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
        if left.isDefined():
            left.get().stop()
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def close(self) -> None:
        process: subprocess.Popen[bytes] = self._gateway.proc
        self._gateway.shutdown()
        assert process.stdin is not None
        process.stdin.close()  # it ends when whoever started it does
        process.wait(30)


def _launch(where: dict[str, Any]) -> Any:
    from pyspark.java_gateway import launch_gateway

    before = dict(os.environ)  # which is all that launch_gateway hands on to the JVM
    os.environ.update(QUICK_ENVIRONMENT | ARROW)
    os.environ.update(PYSPARK_PYTHON=sys.executable, JAVA_HOME=str(java_home()))
    try:
        with compiled_pyspark():
            return launch_gateway(popen_kwargs=where)
    finally:
        os.environ.clear()
        os.environ.update(before)
