"""Where a subject still is: the topics that have records under its name, the tombstones for them, and whether
owners obey these.

`headwater forget` calls it. Views follow their topics: a view that has the subject as its key deletes the
row when the tombstone passes; a view in a topic gets one itself, so that compaction removes what was there.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from headwater.client.cluster import Cluster, TopicPartition
from headwater.client.errors import ClientError
from headwater.client.partitioner import by_crc32, by_murmur2
from headwater.client.publisher import Draft, Publisher
from headwater.events import excision_audit, partition_reader
from headwater.events.acknowledgement import seen
from headwater.events.derived_topics import source_of
from headwater.events.errors import EventsError

_LOOK_S = 0.1


def holds(cluster: Cluster, topic: str, key: bytes) -> bool:
    """Whether there is a record of this key with a value, in any partition."""
    every = cluster.metadata([topic]).topics[topic].leaders
    ends = {
        place: partition_reader.ends(cluster, place)[1] for place in ((topic, p) for p in every)
    }
    return any(holds_before(cluster, place, key, end) for place, end in ends.items())


def candidates(cluster: Cluster) -> list[str]:
    """Every topic that a view may read or be; not the log's own, nor those beside event topics."""
    known = cluster.metadata(None).topics
    return sorted(
        name
        for name, topic in known.items()
        if not topic.is_internal
        and not name.startswith(("_", "dlq."))
        and not (name.endswith(".retry") and ".saga." in name)
        and source_of(name, known) is None
    )


def standing(cluster: Cluster, topic: str, key: bytes) -> tuple[list[int], bool]:
    """The partitions in which the last record of this key has a value; and whether any record of it has.

    In all of them: not every client places a key by a hash that we know.
    """
    found, holds = [], False
    for partition in sorted(cluster.metadata([topic]).topics[topic].leaders):
        place = (topic, partition)
        start, end = partition_reader.ends(cluster, place)
        last: Any = None
        for records in partition_reader.pieces(cluster, place, start, end):
            for record in records:
                if record.key == key:
                    last = record
                    holds = holds or record.value is not None
        if last is not None and last.value is not None:
            found.append(partition)
    return found, holds


def places_of(cluster: Cluster, topic: str, key: bytes) -> list[int]:
    """The partitions in which records of the key are, or were: whatever is there now."""
    known = cluster.metadata([topic, f"{topic}.answers"]).topics
    count = len(known[topic].leaders)
    if f"{topic}.answers" in known:  # events have one partitioner
        return [by_murmur2(key, count)]
    return sorted({by_murmur2(key, count), by_crc32(key, count)})


def taken_out(cluster: Cluster, topics: Collection[str], key: bytes) -> list[TopicPartition]:
    """Where excisions took the key's records out, and no tombstone tells those who have read them.

    As after a run that was killed between the two. Where the broker has not said yet in which partitions
    there were some, those where clients put the key.
    """
    found = []
    for topic, counted in excision_audit.excised(cluster, key).items():
        if topic in topics:
            every = cluster.metadata([topic]).topics[topic].leaders
            places = [(topic, each) for each in counted or places_of(cluster, topic, key)]
            found += [
                place for place in places if place[1] in every and _is_bare(cluster, place, key)
            ]
    return found


def _is_bare(cluster: Cluster, place: TopicPartition, key: bytes) -> bool:
    """Whether there is no record of this key, not even a tombstone."""
    pieces = partition_reader.pieces(cluster, place, *partition_reader.ends(cluster, place))
    return not any(each.key == key for found in pieces for each in found)


def bury(
    settings: dict[str, Any], key: bytes, places: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """A tombstone for the key in each place; all on disk when this returns. Their offsets."""
    try:
        drafts = ((topic, Draft(key, None, partition=number)) for topic, number in places)
        return Publisher(settings).put_all(drafts)
    except ClientError as error:
        raise EventsError(
            f"not all tombstones were stored: {error}",
            hint="the key is destroyed already; run the command again for the rest",
        ) from error


class Obeyed(NamedTuple):
    """What owners have said of tombstones."""

    until: dict[TopicPartition, int]
    """What lies before these offsets of the events was written, or obeyed, before they said so."""
    unconfirmed: list[TopicPartition]
    """Where nobody has said anything in time."""


def wait_for_owners(
    cluster: Cluster, tombstones: Mapping[TopicPartition, int], patience_s: float
) -> Obeyed:
    """Until the owners of these events obey the tombstones, which lie at these offsets."""
    left, until = dict(tombstones), dict[TopicPartition, int]()
    since = dict.fromkeys(left, 0)
    deadline = time.monotonic() + patience_s
    while left:
        for place in list(left):
            answers = (f"{place[0]}.answers", place[1])
            said, since[place] = seen(cluster, answers, since[place])
            if said > left[place]:
                until[place] = said
                del left[place]
        if left and time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S if left else 0)
    return Obeyed(until, sorted(left))


def holds_before(cluster: Cluster, place: TopicPartition, key: bytes, end: int) -> bool:
    """Whether there is a record of this key with a value before that offset."""
    start, last = partition_reader.ends(cluster, place)
    return any(
        each.key == key and each.value is not None
        for found in partition_reader.pieces(cluster, place, start, min(end, last))
        for each in found
    )
