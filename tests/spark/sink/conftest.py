"""One broker process and one Spark session for all tests of the sink; a topic for each test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.client import cluster
from tests.spark.sink.sessions import session


@pytest.fixture(scope="session", autouse=True)
def connections() -> Iterator[None]:
    """Those that this process keeps, as a worker would."""
    yield
    for each in cluster._shared.values():
        each.close()


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = session()
    yield found
    found.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
