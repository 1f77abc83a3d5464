"""One delivery, how it went, and who carries it out; the words that `deliverer` and its senders share."""

from __future__ import annotations

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
