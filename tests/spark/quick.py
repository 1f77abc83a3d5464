"""Java that is quick to start rather than fast later: its optimising compiler has no part in a short test.

A Spark session of a few dozen small queries spends most of its CPU on compiling them; with the first
compiler only, and the plainest collector, two cores are left to the processes under test.
"""

from __future__ import annotations

from headwater.testing.kafka_jars import QUICK_JVM

QUICK_JAVA = " ".join(QUICK_JVM)
QUICK_ENVIRONMENT = {"JDK_JAVA_OPTIONS": QUICK_JAVA}
"""The same for every Java of a process and of its children. They say so, each in one line."""
