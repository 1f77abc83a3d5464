"""Servers and a Spark session, each started once and only if a test asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from headwater.client import cluster
from headwater.pipelines.spark_home import compiled_pyspark
from tests.spark.quick import QUICK_JAVA, end_java


@pytest.fixture(scope="session", autouse=True)
def connections() -> Iterator[None]:
    """Those that this process keeps, as a worker would."""
    yield
    for each in cluster._shared.values():
        each.close()


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """Nothing is registered here: Spark finds the source by itself."""
    end_java()  # which remembers the settings of its first session
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    with compiled_pyspark():
        found = builder.getOrCreate()
    yield found
    found.stop()


@pytest.fixture
def topic(new_name: Callable[[], str]) -> str:
    return new_name()
