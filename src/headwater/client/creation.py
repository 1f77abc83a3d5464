"""Topics that must be there: made where they are missing, and waited for until every broker knows them."""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from headwater.client import connection as api
from headwater.client.cluster import Cluster, Topic
from headwater.client.error_codes import TryAgain, check

_TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class Wanted:
    """A topic as it is made where it is missing. -1 partitions: as many as the broker gives a new one."""

    name: str
    partitions: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


def ensure(cluster: Cluster, wanted: Iterable[Wanted]) -> dict[str, Topic]:
    """All of them as they are now, whether they had to be made or were there, with other settings perhaps."""
    named = {each.name: each for each in wanted}
    there = dict(cluster.metadata(named).topics)
    missing = [each for name, each in named.items() if name not in there]
    if missing:
        _create(cluster, missing)
        there = _known(cluster, named)
    return there


def ensure_one(
    cluster: Cluster, name: str, partitions: int = -1, config: Mapping[str, str] | None = None
) -> Topic:
    return ensure(cluster, [Wanted(name, partitions, config or {})])[name]


def _create(cluster: Cluster, wanted: Iterable[Wanted]) -> None:
    topics = [
        {
            "name": each.name,
            "num_partitions": each.partitions,
            "replication_factor": -1,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in each.config.items()],
        }
        for each in wanted
    ]

    def attempt() -> None:
        body = {"topics": topics, "timeout": _TIMEOUT_MS}
        for each in cluster.anyone().ask(api.CREATE_TOPICS, body).topics:
            if each.error_code is ErrorCode.not_controller:
                raise TryAgain("the controller has moved")
            if each.error_code is not ErrorCode.topic_already_exists:
                check(each.error_code, f"creating the topic {each.name}", each.error_message)

    cluster.retrying(attempt)


def _known(cluster: Cluster, names: Iterable[str]) -> dict[str, Topic]:
    """A cluster takes a moment to tell all its brokers."""

    def attempt() -> dict[str, Topic]:
        found = dict(cluster.metadata(names).topics)
        for name in names:
            if name not in found or min(found[name].leaders.values(), default=-1) < 0:
                raise TryAgain(f"{name} was created and is not there yet")
        return found

    return cluster.retrying(attempt)
