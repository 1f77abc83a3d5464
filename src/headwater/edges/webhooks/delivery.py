"""One delivery, how it went, and who carries it out: words that `deliverer`, senders and `member` share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headwater.client.records import Record

Place = tuple[str, int]
"""Topic and partition."""
ID_HEADER = "headwater-delivery"
"""On a dead letter, and so on what is sent again: the id that the first delivery had."""


@dataclass(frozen=True)
class Delivery:
    """`id` is the same at every attempt, also after a restart: receivers tell by it what they have."""

    id: str
    record: Record
    attempt: int = 1


@dataclass(frozen=True)
class Outcome:
    """`reason`: why it was not delivered, for people."""

    is_delivered: bool
    reason: str = ""
    retry_after_s: float = 0.0
    is_final: bool = False
    """No further attempt would change it."""


class Listener(Protocol):
    """Who is told what a member reads, on the loop."""

    def assign(self, place: Place, position: int, metadata: str | None) -> None: ...

    async def let_go(self, places: Iterable[Place]) -> None: ...

    def feed(self, records: Iterable[tuple[Record, bool]]) -> None:
        """Each with whether it is wanted."""

    def full(self) -> set[Place]:
        """Of these partitions nothing more is to be read for now."""

    @property
    def is_busy(self) -> bool:
        """Whether a commit may be asked for soon."""


class Sender(Protocol):
    """Hands one record over. An exception that it lets out is a mistake of ours."""

    async def send(self, delivery: Delivery) -> Outcome: ...

    async def close(self) -> None: ...


def id_of(record: Record, again: str | None = None) -> str:
    """Where the record lies; of one in the topic `again`, where it first lay."""
    if record.topic == again:
        for name, value in record.headers:
            if name == ID_HEADER and value is not None:
                return value.decode("utf-8", "replace")
    return record.id
