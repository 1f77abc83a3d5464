"""How large the records of a partition are on average: what turns a limit in bytes into one in records.

`stream` asks before it plans a batch. No request of Kafka's tells the bytes between two offsets; the bytes of
a partition on disk, and its first and last offset, are known. What is compressed counts as it is on disk.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headwater.client.connection import Disconnected
from headwater.client.errors import ClientError

if TYPE_CHECKING:
    from headwater.client.cluster import Metadata, TopicPartition
    from headwater.spark.source.plan import Planner

KEPT_S = 60.0


class RecordSizes:
    """Of one query's partitions; asked anew once a minute."""

    def __init__(self) -> None:
        self._found: dict[TopicPartition, float] = {}
        self._asked: float | None = None

    def of(
        self, plan: Planner, metadata: Metadata, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, float]:
        """Bytes of a record; nothing of partitions whose leaders do not tell."""
        wanted, now = set(places), time.monotonic()
        if self._asked is None or now - self._asked > KEPT_S or not wanted <= self._found.keys():
            self._asked = now
            self._found = dict.fromkeys(wanted, 0.0) | _averages(plan, metadata, wanted)
        return self._found


def _averages(
    plan: Planner, metadata: Metadata, places: set[TopicPartition]
) -> dict[TopicPartition, float]:
    try:
        sizes = plan.cluster.log_sizes(metadata, places)
    except (ClientError, Disconnected):
        return {}  # a right that the query does not need otherwise: then there is no such limit
    first, last = plan.earliest(metadata, sizes), plan.latest(metadata, sizes)
    return {place: size / max(last[place] - first[place], 1) for place, size in sizes.items()}
