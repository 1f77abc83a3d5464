"""Positions of MariaDB's replication: one sequence number per domain.

A GTID is `domain-server-sequence`; a position is the last GTID of each domain, written as a list
with commas. Used by `stream` (where we are), `replication` (where to begin) and `source`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headwater.capture.errors import CaptureError


class Gtid(NamedTuple):
    domain: int
    server: int
    sequence: int

    @classmethod
    def parse(cls, text: str) -> Gtid:
        parts = text.strip().split("-")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise CaptureError(f"{text!r} is not a GTID: it would read like 0-1-100")
        return cls(int(parts[0]), int(parts[1]), int(parts[2]))

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"


@dataclass(frozen=True, slots=True)
class GtidPosition:
    """The last GTID of each domain; what the server calls a slave's connect state."""

    last: dict[int, Gtid]

    @classmethod
    def parse(cls, text: str) -> GtidPosition:
        gtids = [Gtid.parse(part) for part in text.split(",") if part.strip()]
        return cls({gtid.domain: gtid for gtid in gtids})

    def __str__(self) -> str:
        return ",".join(str(self.last[domain]) for domain in sorted(self.last))

    def has(self, gtid: Gtid) -> bool:
        """Whether that transaction lies at or before this position."""
        last = self.last.get(gtid.domain)
        return last is not None and gtid.sequence <= last.sequence

    def covers(self, other: GtidPosition) -> bool:
        """Whether every transaction up to the other position lies at or before this one."""
        return all(map(self.has, other.last.values()))
