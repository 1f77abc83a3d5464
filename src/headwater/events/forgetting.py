"""Where a subject still is: the topics that have records under its name, and the tombstones for them.

`headwater forget` calls it. Views follow their topics: a view that has the subject as its key deletes the
row when the tombstone passes; a view in a topic gets one itself, so that compaction removes what was there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, Producer

from headwater.events import reading
from headwater.events.derived import source_of
from headwater.events.errors import EventsError
from headwater.spark import connect
from headwater.spark.connect import READ_COMMITTED, Cluster
from headwater.views.folding.keys import by_crc32, by_murmur2


def holds(cluster: Cluster, topic: str, key: bytes) -> bool:
    """Whether there is a record of this key with a value, in any partition."""
    for partition in cluster.metadata([topic]).topics[topic].leaders:
        place = (topic, partition)
        for found in reading.pieces(cluster, place, *reading.ends(cluster, place)):
            if any(each.key == key and each.value is not None for each in found):
                return True
    return False


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


def standing(cluster: Cluster, topic: str, key: bytes) -> list[int]:
    """The partitions in which the last record of this key has a value."""
    count = len(cluster.metadata([topic]).topics[topic].leaders)
    found = []
    for partition in sorted({by_murmur2(key, count), by_crc32(key, count)}):
        place = (topic, partition)
        start = cluster.list_offsets({place: connect.EARLIEST})[place]
        end = cluster.list_offsets({place: connect.LATEST}, READ_COMMITTED)[place]
        last: Any = None
        for records in reading.pieces(cluster, place, start, end):
            for record in records:
                if record.key == key:
                    last = record
        if last is not None and last.value is not None:
            found.append(partition)
    return found


def bury(settings: dict[str, Any], key: bytes, places: Iterable[tuple[str, int]]) -> None:
    """A tombstone for the key in each place; all on disk when this returns."""
    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 0})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    for topic, partition in places:
        producer.produce(topic, None, key, partition, on_delivery=delivered)
    if producer.flush(30) or failed:
        raise EventsError(
            f"not all tombstones were stored: {failed[0].str() if failed else 'no answer'}",
            hint="the key is destroyed already; run the command again for the rest",
        )
