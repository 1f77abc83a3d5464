"""A declared view and how far it is; `headwater views` and the console ask.

A view in a store is asked there. Of one that goes to a topic or to files, the position is the one that
its query has told the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.pipelines.declared import View
from headwater.pipelines.handles import handle
from headwater.spark.connect import Cluster
from headwater.views import listing
from headwater.views.listing import Listed
from headwater.views.position import Position
from headwater.views.registry import is_target

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TIMEOUT_S = 10.0


def listed(view: View, cluster: Cluster, client: AdminClient) -> Listed:
    """One view, as it is now."""
    if is_target(view.to):
        return listing.in_target(handle(view), cluster)
    return listing.by_group(view.name, view.to, _committed(client, view.group), cluster)


def _committed(client: AdminClient, group: str) -> Position | None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)
    offsets: dict[str, dict[int, int]] = {}
    for place in found[group].result().topic_partitions or []:
        if place.offset >= 0:
            offsets.setdefault(place.topic, {})[place.partition] = place.offset
    return Position(offsets) if offsets else None
