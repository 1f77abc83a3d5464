"""A real Apache Kafka as a log, for tests that ask it the same questions; a loud skip where it cannot run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from headwater.client.log import Log
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests.compat.missing import skip_or_fail


@contextlib.contextmanager
def kafka_log() -> Iterator[Log]:
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(apache_kafka(jvm=QUICK_JVM, heap="256m"))
        except MissingServer as missing:
            skip_or_fail(f"{missing}: Apache Kafka cannot run here")
        yield stack.enter_context(Log(server.bootstrap))
