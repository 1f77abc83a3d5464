"""One record as it is read, and `Cursor`: a place in every partition, which goes into links and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.client.errors import BadRequest

Headers = tuple[tuple[str, bytes | None], ...]
Range = tuple[int, int]
"""Offsets of one partition: the first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def id(self) -> str:
        """Where it lies: the same each time that it is sent somewhere, so that a receiver can tell."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    @property
    def is_tombstone(self) -> bool:
        return self.value is None


Keep = Callable[[Record], bool]
"""Whether a record is meant."""


def record_of(message: Any) -> Record:
    """What confluent-kafka hands out, as ours; a header's name may come as bytes where it is no UTF-8."""
    headers = tuple((str(name), value) for name, value in message.headers() or ())
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers,
    )


@dataclass(frozen=True)
class Cursor:
    """Partition → offset. As text: `0=12,1=340`.

    Going forward it names the next offset of each partition; going back, the one after the next.
    """

    offsets: Mapping[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return ",".join(f"{partition}={offset}" for partition, offset in sorted(self))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.offsets.items())

    @classmethod
    def parse(cls, text: str) -> Cursor:
        try:
            parts = [part.split("=") for part in text.split(",") if part]
            return cls({int(partition): int(offset) for partition, offset in parts})
        except ValueError:
            raise BadRequest(
                f"{text!r} is no cursor", hint="write PARTITION=OFFSET,…, as in 0=12,1=340"
            ) from None
