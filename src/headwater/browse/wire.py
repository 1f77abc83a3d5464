"""The small Kafka client of `headwater.spark`, where confluent-kafka does not speak a request or is too slow.

One per question: it is for one thread only. It needs numpy, which comes with `headwater[spark]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.browse.log import TIMEOUT_S, Log
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.spark.connect import Cluster

_NOT_OURS = (
    "log_level",
    "error_cb",
    "socket.connection.setup.timeout.ms",
    "reconnect.backoff.ms",
    "metadata.recovery.strategy",
)


class MissingLibrary(HeadwaterError):
    """A library that this question needs is not installed."""


@contextmanager
def cluster(log: Log, timeout_s: float = TIMEOUT_S) -> Iterator[Cluster]:
    try:
        from headwater.spark.connect import Cluster
        from headwater.spark.options import Options
    except ImportError as error:
        raise MissingLibrary(
            f"this needs the package {error.name}", hint="pip install 'headwater[spark]'"
        ) from None
    named = {
        f"kafka.{name}": str(value) for name, value in log.settings.items() if name not in _NOT_OURS
    }
    named["kafka.default.api.timeout.ms"] = str(int(timeout_s * 1000))
    found = Cluster(Options(named).client_settings())
    try:
        yield found
    finally:
        found.close()
