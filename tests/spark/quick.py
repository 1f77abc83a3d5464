"""Java that is quick to start rather than fast later: its optimising compiler has no part in a short test.

A Spark session of a few dozen small queries spends most of its CPU on compiling them; with the first
compiler only, and the plainest collector, two cores are left to the processes under test.
"""

from __future__ import annotations

from headwater.pipelines.class_archive import options
from headwater.testing.kafka_jars import QUICK_JVM

QUICK_JAVA = " ".join((*QUICK_JVM, *options()))
QUICK_ENVIRONMENT = {"JDK_JAVA_OPTIONS": QUICK_JAVA}
"""The same for every Java of a process and of its children. They say so, each in one line."""


def end_java() -> None:
    """End the Java of this process, if there is one: the next session starts its own."""
    from pyspark import SparkContext

    if (left := SparkContext._active_spark_context) is not None:  # by a test of another folder
        left.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()  # it ends when whoever started it does
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None
