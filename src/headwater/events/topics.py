"""The topics of an aggregate: made where they are missing, refused where they would lose history.

    NAME             events; never compacted, never expiring
    NAME.answers     refusals, and commands with nothing to do; kept for a week
    NAME.snapshots   compacted; can be thrown away at any time
    NAME.commands    commands from processes that do not own the partition; a day
    NAME.replies     their answers; an hour
    dlq.NAME.owners  commands that are not understood (`headwater deadletters list`)
    NAME.saga.SAGA.retry, dlq.NAME.saga.SAGA   events that a saga could not handle (`letters`)

All but the replies and the dead letters have as many partitions as the events, and the same partition
for the same aggregate.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from headwater.events.aggregate import Aggregate
from headwater.events.errors import BadTopic
from headwater.views.folding.keys import by_murmur2

TIMEOUT_S = 30.0
DAY_MS = 86_400_000


def ensure(admin: AdminClient, aggregate: Aggregate[Any], partitions: int) -> int:
    """Make what is missing, check what is there, and say how many partitions there are."""
    _create(admin, {aggregate.name: (partitions, {"retention.ms": "-1", "retention.bytes": "-1"})})
    count = _partitions(admin, aggregate.name)
    _check(admin, aggregate.name)
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
    _create(
        admin,
        {
            aggregate.answers: (count, {"retention.ms": str(7 * DAY_MS)}),
            aggregate.snapshots: (count, compact),
            aggregate.inbox: (count, {"retention.ms": str(DAY_MS)}),
            aggregate.replies: (min(count, 8), {"retention.ms": str(DAY_MS // 24)}),
            aggregate.letters: (1, {}),
        },
    )
    for name in (aggregate.answers, aggregate.snapshots, aggregate.inbox):
        if (found := _partitions(admin, name)) != count:
            raise BadTopic(
                f"{name} has {found} partitions and {aggregate.name} has {count}",
                hint="an aggregate's records must lie in the same partition of each",
            )
    return count


def ensure_letters(admin: AdminClient, source: str, letters: str, retry: str) -> None:
    """A saga's dead letters, and where they are sent back to."""
    count = _partitions(admin, source)
    _create(admin, {letters: (1, {}), retry: (count, {"retention.ms": str(7 * DAY_MS)})})


def _create(admin: AdminClient, wanted: Mapping[str, tuple[int, dict[str, str]]]) -> None:
    there = admin.list_topics(timeout=TIMEOUT_S).topics
    new = [
        NewTopic(name, num_partitions=count, replication_factor=-1, config=config)
        for name, (count, config) in wanted.items()
        if name not in there
    ]
    if not new:
        return
    for made in admin.create_topics(new, operation_timeout=TIMEOUT_S).values():
        try:
            made.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _partitions(admin: AdminClient, name: str) -> int:
    """Of a topic that was made just now, perhaps: a cluster needs a moment to know it everywhere."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = admin.list_topics(name, timeout=TIMEOUT_S).topics[name]
        if found.error is None and found.partitions:
            return len(found.partitions)
        if time.monotonic() > deadline:
            raise BadTopic(f"{name} was made, and is not there: {found.error}")
        time.sleep(0.05)


def _check(admin: AdminClient, name: str) -> None:
    """History must stay: no compaction, no expiry."""
    wanted = ConfigResource(ConfigResource.Type.TOPIC, name)
    (found,) = admin.describe_configs([wanted], request_timeout=TIMEOUT_S).values()
    configs = {key: entry.value for key, entry in found.result().items()}
    policy = configs.get("cleanup.policy") or "delete"
    if "compact" in policy:
        raise BadTopic(
            f"{name} is compacted by key, which would leave the last event of each aggregate only",
            hint=f"headwater topics alter {name} --set cleanup.policy=delete",
        )
    for setting in ("retention.ms", "retention.bytes"):
        if configs.get(setting, "-1") != "-1":
            raise BadTopic(
                f"{name} has {setting}={configs[setting]}: its history would be deleted",
                hint=f"headwater topics alter {name} --set {setting}=-1",
            )


@lru_cache(maxsize=200_000)
def partition_of(id: str, partitions: int) -> int:
    """Where Kafka's own partitioner would put the id; so what is unique is decided in one place."""
    return by_murmur2(id.encode(), partitions)
