"""How far those are who read the topics: views, webhooks, bridges, and groups that have members now.

All of them commit offsets as consumer groups, so one question suffices. Groups that nobody is in any more,
and that are none of ours, are not waited for.
"""

from __future__ import annotations

import time

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

from headwater.browse import groups
from headwater.browse.errors import told
from headwater.browse.log import TIMEOUT_S, Log
from headwater.edges.tracing.pending import Place, Positions
from headwater.edges.tracing.spans import is_ours

LISTED_EVERY_S = 3.0
GROUPS_MAX = 200


class Readers:
    """Asked by one thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._names: list[str] = []
        self._listed = float("-inf")

    def positions(self) -> Positions:
        """As they are now. Raises Unreachable."""
        if time.monotonic() - self._listed > LISTED_EVERY_S:
            found = groups.listed(self._log)
            chosen = [each.name for each in found if each.is_active or is_ours(each.name)]
            self._names = chosen[:GROUPS_MAX]
            self._listed = time.monotonic()
        with told("asking how far groups are", self._log.bootstrap):
            asked = {
                name: self._log.admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(name)], request_timeout=TIMEOUT_S
                )[name]
                for name in self._names
            }
            return {name: _committed(future) for name, future in asked.items()}


def _committed(future: object) -> dict[Place, int]:
    try:
        places = future.result().topic_partitions  # type: ignore[attr-defined]
    except KafkaException as failure:
        if failure.args[0].name() == "GROUP_ID_NOT_FOUND":
            return {}
        raise
    return {(each.topic, each.partition): each.offset for each in places if each.offset >= 0}
