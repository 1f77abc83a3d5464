"""Where interactive queries find a partition: each process that answers queries, with what it has.

`heartbeat` tells a member when its view is older than the group's. A task stands for the partition of
its number in each topic that its subtopology reads; a topic with fewer partitions has none of that number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from headwater.broker.groups.group import Image
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import Endpoint

Served = tuple[tuple[str, tuple[int, ...]], ...]
"""Topic and its partitions."""


class EndpointPartitions(NamedTuple):
    endpoint: Endpoint
    active: Served
    standby: Served


def partitions_by_endpoint(group: StreamsGroup, image: Image) -> tuple[EndpointPartitions, ...]:
    return tuple(
        EndpointPartitions(
            member.endpoint,
            tuple(_served(group, image, member.assigned.active)),
            tuple(_served(group, image, member.assigned.standby)),
        )
        for member in group.members.values()
        if member.endpoint is not None
    )


def _served(
    group: StreamsGroup, image: Image, tasks: Mapping[str, Iterable[int]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    known = group.configured.subtopologies if group.configured is not None else {}
    for subtopology, numbers in tasks.items():
        found, ordered = known.get(subtopology), tuple(sorted(numbers))
        for topic in sorted(set(found.subtopology.inputs())) if found is not None else ():
            there = image.topics.get(topic)
            if (
                there is not None
            ):  # there may be 100,000 partitions in all: most topics have each number
                yield topic, ordered[: bisect_left(ordered, there.partitions)]
