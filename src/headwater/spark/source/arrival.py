"""Waiting for records: one request that the broker answers when there are some, instead of looking again.

Used by `tail`, where one waits on behalf of all who follow the same topics, and by `stream`, for a query of
Spark's that has found nothing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from headwater.client import batches, connection
from headwater.client import cluster as connect
from headwater.client.connection import Disconnected
from headwater.client.constants import TopicPartition
from headwater.client.errors import ClientError

WAIT_MS, LONG_WAIT_MS = 500, 2000
QUIET_WAITS = 10
"""After so many without anything, one lasts long: an idle project asks less, and takes as long to stop."""
LOOK_EVERY_S = 5.0
"""Who is told again and again that nothing has come looks so often by itself: partitions may be new."""
_AGAIN_S = 0.05


class Arrival:
    """Waits for records in a Fetch that the broker answers when there are some; any thread may."""

    def __init__(self, client: Mapping[str, str], isolation: int) -> None:
        self._client = {**client, "client.id": f"{client.get('client.id', '')}-wait"}
        self._isolation = isolation
        self._asking = threading.Lock()
        self._came = threading.Condition()
        self._leaders: dict[int, list[TopicPartition]] | None = None
        self._quiet_waits = 0
        self._quiet: Mapping[TopicPartition, int] | None = None
        """After which position nothing had come when the broker was last asked."""

    @property
    def wait_ms(self) -> int:
        """How long the broker may take to say that nothing has come."""
        return WAIT_MS if self._quiet_waits < QUIET_WAITS else LONG_WAIT_MS

    def close(self) -> None:
        connect.cluster(self._client).close()

    def wait(self, position: Mapping[TopicPartition, int], stopped: threading.Event) -> bool:
        """Until something may have come after this position, or `wait_ms` have passed without anything
        (False)."""
        if not self._asking.acquire(blocking=False):
            with self._came:
                told = self._came.wait(self.wait_ms / 1000)
                return not (told and self._quiet == position)
        found: bool | None = None
        try:
            found = self._ask(position)
            if found is None:
                stopped.wait(_AGAIN_S)
            return found is not False
        finally:
            self._quiet_waits = self._quiet_waits + 1 if found is False else 0
            self._asking.release()
            with self._came:
                self._quiet = dict(position) if found is False else None
                self._came.notify_all()

    def wait_long(self, position: Mapping[TopicPartition, int], stopped: threading.Event) -> None:
        """Until something may have come after this position, or it is time to look all the same."""
        until = time.monotonic() + LOOK_EVERY_S
        while not self.wait(position, stopped):
            if stopped.is_set() or time.monotonic() >= until:
                return

    def _ask(self, position: Mapping[TopicPartition, int]) -> bool | None:
        """Whether something has come; None if nobody could be asked, or the answer was no answer."""
        cluster = connect.cluster(self._client)
        try:
            if self._leaders is None or _places(self._leaders) != position.keys():
                self._leaders = _by_leader(cluster, position)
            if len(self._leaders) != 1 or -1 in self._leaders:
                self._leaders = None if -1 in self._leaders else self._leaders
                return None
            ((leader, places),) = self._leaders.items()
            began, wait_ms = time.monotonic(), self.wait_ms
            wanted = {place: position[place] for place in places}
            body = batches.request(wanted, self._isolation, bytes_max=1, wait_ms=wait_ms)
            answer = cluster.node(leader, "wait").ask(connection.FETCH, body, batches.VERSION)
        except (Disconnected, connect.TryAgain, ClientError):
            cluster.forget()
            self._leaders = None
            return None
        found = [each for topic in answer.responses for each in topic.partitions]
        if any(int(each.error_code) for each in found):
            self._leaders = None
            return None
        if any(each.records for each in found):
            return True
        return False if time.monotonic() - began > wait_ms / 2000 else None


def _places(leaders: Mapping[int, list[TopicPartition]]) -> set[TopicPartition]:
    return {place for places in leaders.values() for place in places}


def _by_leader(
    cluster: connect.Cluster, position: Mapping[TopicPartition, int]
) -> dict[int, list[TopicPartition]]:
    known = cluster.metadata({topic for topic, _ in position}).topics
    found: dict[int, list[TopicPartition]] = {}
    for topic, partition in position:
        leader = known[topic].leaders.get(partition, -1) if topic in known else -1
        found.setdefault(leader, []).append((topic, partition))
    return found
