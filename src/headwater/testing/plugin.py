"""The pytest plugin: installed with headwater, so that tests ask for `headwater_test` and have it.

    headwater_test            a broker of the test's own, a clock to turn, and its queries (`Rehearsal`)
    headwater_broker          a broker of the test's own, without Spark; its `faults` let things go wrong
    headwater_spark           the Spark session that all tests of a run share
    headwater_spark_settings  override it in conftest.py to give that session other settings

pytest loads this in every run of an environment: it imports nothing heavy before a test asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.testing.clock import ManualClock
    from headwater.testing.embedded_broker import EmbeddedBroker
    from headwater.testing.rehearsal import Rehearsal

FOREVER_MS = str(10**15)
# A test that lets a year pass means its events: the broker's own housekeeping must not answer.
BROKER = {
    "num.partitions": 1,
    "log.retention.ms": -1,
    "transactional.id.expiration.ms": 2**31 - 1,
    "log.message.timestamp.after.max.ms": FOREVER_MS,
}
SPARK = {
    "spark.sql.shuffle.partitions": "2",
    # How long a query without work waits before it looks again; it looks for as long as it runs.
    "spark.sql.streaming.pollingDelay": "300ms",
    # For a few rows, compiling a query to bytecode takes longer than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@contextmanager
def spark_for_tests(folder: Path, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session that is quick to start; one that is there already is used as it is."""
    from headwater.pipelines.session import require_pyspark, session
    from headwater.testing.kafka_jars import QUICK_JVM

    require_pyspark()
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JDK_JAVA_OPTIONS", " ".join(QUICK_JVM))
        log = folder / "spark.log"
        made = session(
            "local[2]", name="headwater test", settings={**SPARK, **settings}, log_file=log
        )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def headwater_spark_settings() -> Mapping[str, str]:
    """Settings of the session, on top of those for tests."""
    return {}


@pytest.fixture(scope="session")
def headwater_spark(
    tmp_path_factory: pytest.TempPathFactory, headwater_spark_settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """One session for all tests of a run."""
    folder = tmp_path_factory.mktemp("spark")
    with spark_for_tests(folder, headwater_spark_settings) as session:
        yield session


@pytest.fixture
def headwater_broker() -> Iterator[EmbeddedBroker]:
    """A broker of this test's own."""
    from headwater.testing.embedded_broker import broker

    with broker() as running:
        yield running


@pytest.fixture
def headwater_test(headwater_spark: SparkSession, tmp_path: Path) -> Iterator[Rehearsal]:
    """A broker, a clock and queries of this test's own."""
    from headwater.pipelines.declarations import DECLARED
    from headwater.testing.clock import ManualClock
    from headwater.testing.embedded_broker import broker
    from headwater.testing.rehearsal import Rehearsal

    clock = ManualClock()
    before = DECLARED.views()
    folder = tmp_path / "headwater"
    folder.mkdir()
    with broker(settings=dict(BROKER), clock=_Clock(clock)) as running:
        rehearsal = Rehearsal(headwater_spark, running, clock, folder)
        try:
            yield rehearsal
        finally:
            rehearsal.close()
            DECLARED.clear()
            for view in before:
                DECLARED.add(view)


class _Clock:
    """The broker's: timestamps are the test's, but time-outs of its clients are real."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic(self) -> float:
        return time.monotonic()
