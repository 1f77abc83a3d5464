"""One member of a classic group: what it said when it joined, and which of its requests wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.effects import Ticket
from headwater.broker.groups.subscription import topics_of

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors that a member knows, best first, each with its metadata (the subscription)."""


@dataclass(slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join: Ticket | None = None
    """The JoinGroup that waits for the group to be complete."""
    sync: Ticket | None = None
    """The SyncGroup that waits for the leader's assignment."""
    is_new: bool = False
    """Has never been told its member id, so it cannot send heartbeats yet."""
    session_deadline: int | None = None
    read: dict[str, frozenset[str] | None] = field(default_factory=dict)
    """What was read of each protocol's metadata; see `topics`."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Held by us in a join or sync, so its silence is no sign of death."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def topics(self, protocol: str) -> frozenset[str] | None:
        """What a consumer subscribes to; None if that cannot be understood."""
        if protocol not in self.read:
            try:
                self.read[protocol] = topics_of(self.metadata(protocol))
            except BadRecord:
                self.read[protocol] = None
        return self.read[protocol]

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.protocols)
