"""A place that librdkafka cannot pass by itself: a segment of which compaction left only an empty batch.

An answer with only that batch is taken for one that was cut off; the client asks for more and more bytes at
the same offset, and gives up with MSG_SIZE_TOO_LARGE. `ranges` and `tailing` then drop the client, whose
fetches have become huge, and go on with another from the next offset that has a record.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from confluent_kafka import KafkaError

from headwater.browse.errors import Refused
from headwater.browse.log import Log
from headwater.browse.wire import cluster

_TRIES_MAX = 3


class Stuck(Exception):
    """Reading this partition does not go on at its position."""

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.partition = partition


def is_stuck(error: Any) -> bool:
    return error.code() == KafkaError.MSG_SIZE_TOO_LARGE


class Detour:
    """Finds where to go on; gives up on a record that is really too large."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic
        self._tries: Counter[tuple[int, int]] = Counter()

    def next_offset(self, partition: int, offset: int, end: int) -> int:
        """Of the first record from that offset on; `end` if there is none before it."""
        from headwater.views.folding.search import Stretch, first_record

        with cluster(self._log) as connected:
            found = first_record(connected, Stretch(self._topic, partition, offset, end))
        at = end if found is None else found.offset
        self._tries[partition, at] += 1
        if self._tries[partition, at] > _TRIES_MAX:
            raise Refused(
                f"the record at {partition}:{at} of {self._topic} is larger than can be read here",
                hint="begin behind it",
            )
        return at
