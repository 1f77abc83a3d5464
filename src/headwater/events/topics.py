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

from functools import lru_cache
from typing import Any

from headwater.client import creation, settings
from headwater.client.cluster import Cluster
from headwater.client.creation import Wanted
from headwater.client.librdkafka import AdminClient
from headwater.client.partitioner import by_murmur2
from headwater.events.aggregate import Aggregate
from headwater.events.errors import BadTopic

TIMEOUT_S = 30.0
DAY_MS = 86_400_000


def ensure(cluster: Cluster, admin: AdminClient, aggregate: Aggregate[Any], partitions: int) -> int:
    """Make what is missing, check what is there, and say how many partitions there are."""
    kept = {"retention.ms": "-1", "retention.bytes": "-1"}
    count = len(creation.ensure_one(cluster, aggregate.name, partitions, kept).leaders)
    _check(admin, aggregate.name)
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
    found = creation.ensure(
        cluster,
        [
            Wanted(aggregate.answers, count, {"retention.ms": str(7 * DAY_MS)}),
            Wanted(aggregate.snapshots, count, compact),
            Wanted(aggregate.inbox, count, {"retention.ms": str(DAY_MS)}),
            Wanted(aggregate.replies, min(count, 8), {"retention.ms": str(DAY_MS // 24)}),
            Wanted(aggregate.letters, 1),
        ],
    )
    for name in (aggregate.answers, aggregate.snapshots, aggregate.inbox):
        if len(found[name].leaders) != count:
            raise BadTopic(
                f"{name} has {len(found[name].leaders)} partitions and {aggregate.name} has {count}",
                hint="an aggregate's records must lie in the same partition of each",
            )
    return count


def ensure_letters(cluster: Cluster, source: str, letters: str, retry: str) -> None:
    """A saga's dead letters, and where they are sent back to."""
    known = cluster.metadata([source]).topics.get(source)
    if known is None:
        raise BadTopic(f"there is no topic {source}", hint="start its application first")
    count = len(known.leaders)
    week = {"retention.ms": str(7 * DAY_MS)}
    creation.ensure(cluster, [Wanted(letters, 1), Wanted(retry, count, week)])


def _check(admin: AdminClient, name: str) -> None:
    """History must stay: no compaction, no expiry."""
    found = settings.of_topic(admin, name, TIMEOUT_S)
    configs = {key: entry.value for key, entry in found.items()}
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
