"""What every type of group has in common: the coordinator's registry holds these.

`ClassicGroup` is one type; others stand next to it in the same registry, because a group id belongs
to one type at a time and offsets, listing, deletion and expiry treat all types alike.

The topics that there are, as groups see them: handed in, so that this package knows no catalogue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker.groups.effects import Turn


class Group(Protocol):
    id: str
    type: str
    """The name that ListGroups shows: `classic`, `consumer`, `streams`, `share`."""
    protocol_type: str | None
    wake_at: int | None

    @property
    def members(self) -> Mapping[str, Any]: ...

    @property
    def static_ids(self) -> Mapping[str, str]:
        """Instance id → member id."""

    @property
    def state_name(self) -> str: ...

    @property
    def is_empty(self) -> bool: ...

    @property
    def is_idle(self) -> bool:
        """Empty, and nobody is on the way in: may be removed when it has no offsets."""

    def commit_error(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool = False,
        knows_epochs: bool = True,
    ) -> ErrorCode:
        """May offsets be committed by this caller? `transactional` is for TxnOffsetCommit,
        `knows_epochs` for clients of a version that has member epochs."""

    def partition_commit_error(
        self, member_id: str, generation: int, topic: str, topic_id: UUID | None, partition: int
    ) -> ErrorCode:
        """May this caller, who may commit, do so for this partition?"""

    def fetch_error(self, member_id: str | None, generation: int) -> ErrorCode:
        """May this caller read the group's offsets?"""

    def delete_error(self) -> ErrorCode: ...

    def offset_delete_error(self) -> ErrorCode: ...

    def subscribes(self, topic: str) -> bool: ...

    def offsets_idle_since(self, commit_timestamp: int) -> int | None:
        """From when the retention of an offset counts; None while the group still needs it."""

    def set_dead(self, dead: bool) -> None:
        """While its tombstones are written a group is dead; if they fail it is empty again."""

    def tombstone_keys(self) -> list[bytes]: ...


class GroupProtocol(Protocol):
    """The module that drives groups of one type; the group is of that type."""

    def tick(self, group: Any, turn: Turn) -> None:
        """Do what is due and set the group's `wake_at` anew."""

    def stop(self, group: Any, turn: Turn) -> None:
        """Answer everything that waits: the coordinator goes away."""

    def committed_by(self, group: Any, turn: Turn, member_id: str) -> None:
        """A member has committed, which shows that it lives."""


class Topic(Protocol):
    @property
    def id(self) -> UUID: ...

    @property
    def partitions(self) -> int: ...


class Image(Protocol):
    """The broker's catalogue is one; `version` grows with every change."""

    @property
    def version(self) -> int: ...

    @property
    def topics(self) -> Mapping[str, Topic]: ...


class NoTopics:
    """An image without topics."""

    version = 0
    topics: Mapping[str, Topic] = {}


def topics_hash(names: Iterable[str], image: Image) -> int:
    """64 bits of what an assignment of these topics depends on; 0 for no topics at all."""
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = image.topics.get(name)
        if topic is not None:
            found = True
            digest.update(f"{name}\0{topic.id}\0{topic.partitions}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


class HeartbeatRefused(Exception):
    """A request that changes nothing, and why."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
