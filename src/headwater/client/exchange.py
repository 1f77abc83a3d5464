"""One question to the cluster in Kafka's own messages, for what librdkafka has no words for.

Called by `topics`, `share_groups`, `quotas`, `setting_details` and `group_offsets`. That nobody answers, and
that the broker says no, leave as one sentence each.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from kio.schema.errors import ErrorCode

from headwater.client.cluster import Cluster, TryAgain
from headwater.client.connection import DESCRIBE_LOG_DIRS, FIND_COORDINATOR, Disconnected
from headwater.client.errors import BrokerUnreachable, RequestRefused, hint_for
from headwater.client.log import Log
from headwater.errors import HeadwaterError

_GROUP_KEY = 0


@contextmanager
def asking(log: Log, what: str) -> Iterator[Cluster]:
    """A cluster for one question; `what` was attempted."""
    with log.cluster() as asked:
        try:
            yield asked
        except (BrokerUnreachable, Disconnected, TryAgain) as error:
            raise BrokerUnreachable(f"{what}: {error}", hint="is the broker running?") from None


def check(code: int, what: str, message: str | None = None) -> None:
    """Nothing for success; else RequestRefused with the broker's own words, where it has any."""
    found = ErrorCode(code)
    if found is ErrorCode.none:
        return
    name = found.name.upper()
    said = (message or "").strip().rstrip(".") or "the broker refused"
    raise RequestRefused(f"{what}: {said} ({name})", hint=hint_for(name), code=int(code))


def by_coordinator(asked: Cluster, groups: Sequence[str]) -> dict[int, list[str]]:
    """Node → those of the groups that it answers for."""
    body = {"key_type": _GROUP_KEY, "coordinator_keys": list(groups)}

    def attempt() -> dict[int, list[str]]:
        found: dict[int, list[str]] = defaultdict(list)
        for each in asked.anyone().ask(FIND_COORDINATOR, body).coordinators:
            if each.error_code is not ErrorCode.none:
                raise TryAgain(f"nobody answers for group {each.key} yet")
            asked.locate(each.node_id, (each.host, each.port))
            found[each.node_id].append(each.key)
        return found

    return asked.retrying(attempt)


def log_sizes(log: Log, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Bytes on disk, by partition; nothing where they cannot be had: a right is missing."""
    wanted = set(places)
    found: dict[tuple[str, int], int] = {}
    try:
        with log.cluster() as asked:
            for place, size in asked.retrying(lambda: _told_sizes(asked)):
                if place in wanted:
                    found[place] = max(found.get(place, 0), size)
    except HeadwaterError:
        return {}
    return found


def _told_sizes(asked: Cluster) -> list[tuple[tuple[str, int], int]]:
    nodes = asked.metadata([]).brokers
    answers = [asked.node(node).ask(DESCRIBE_LOG_DIRS, {"topics": None}) for node in nodes]
    return [
        ((topic.name, each.partition_index), each.partition_size)
        for answer in answers
        for folder in answer.results
        for topic in folder.topics
        for each in topic.partitions
        if not each.is_future_key
    ]
