"""Who leads one partition: asked for once, and again after a failure. Batches come and go through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwater.client.cluster import LATEST, Cluster, Metadata, TopicPartition, TryAgain
from headwater.client.connection import Connection, Disconnected

Result = TypeVar("Result")


class Leader:
    """The way to one partition. Not for several threads at once."""

    def __init__(self, cluster: Cluster, place: TopicPartition) -> None:
        self.cluster, self.place = cluster, place
        self._known: Metadata | None = None

    def __str__(self) -> str:
        return f"{self.place[0]}-{self.place[1]}"

    def ask(self, attempt: Callable[[Connection], Result]) -> Result:
        """`attempt` with the leader's connection, again and again while brokers are away."""

        def once() -> Result:
            try:
                return attempt(self.connection())
            except (Disconnected, TryAgain):
                self._known = None
                raise

        return self.cluster.retrying(once)

    def end(self) -> int:
        """The offset that the next record will get."""
        if self._known is None:
            self._known = self.cluster.metadata([self.place[0]])
        return self.cluster.list_offsets({self.place: LATEST}, metadata=self._known)[self.place]

    def forget(self) -> None:
        """Connect anew, and ask anew who leads."""
        self._known = None
        self.cluster.forget()

    def connection(self, use: str = "") -> Connection:
        """To the leader; Disconnected or TryAgain where there is none just now."""
        topic, partition = self.place
        if self._known is None:
            self._known = self.cluster.metadata([topic])
        found = self._known.topics.get(topic)
        number = -1 if found is None else found.leaders.get(partition, -1)
        if number < 0:
            raise TryAgain(f"{self} has no leader")
        return self.cluster.node(number, use)
