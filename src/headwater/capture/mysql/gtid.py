"""Positions of MariaDB's replication: one sequence number per domain.

A GTID is `domain-server-sequence`; a position is the last GTID of each domain, written as a list
with commas. Used by `stream` (where we are), `replication` (where to begin) and `source`.

Also here: positions of MySQL's replication: sets of transactions, by the server that first ran them.

    3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:11-18,4350f323-7565-11e5-a27f-0021cc6850ca:1-27

The counterpart of `gtid`, which is MariaDB's. Pure; used by `course`, `replication` and `source`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from headwater.capture.errors import BinlogUnreadable, CaptureError


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


class SetGtid(NamedTuple):
    """The name of one transaction; `server` is the number of the server that wrote the event."""

    origin: str
    number: int
    server: int = 0

    def __str__(self) -> str:
        return f"{self.origin}:{self.number}"


class GtidSet:
    """Which transactions; intervals with both ends, in order, apart from each other."""

    def __init__(self, intervals: dict[str, list[tuple[int, int]]] | None = None) -> None:
        self._intervals = intervals or {}

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        found = cls()
        for part in text.replace("\n", "").split(","):
            origin, *ranges = part.strip().split(":")
            if not origin:
                continue
            for given in ranges:
                first, _, last = given.partition("-")
                if not first.isdecimal() or (last and not last.isdecimal()):
                    raise BinlogUnreadable(
                        f"{part.strip()!r} is no GTID set that is known here",
                        hint="GTIDs with tags (MySQL 8.3 and later) are not read: leave gtid_next at "
                        "AUTOMATIC without a tag; RESET BINARY LOGS AND GTIDS forgets those there are "
                        "(and ends the server's replicas)",
                    )
                found._insert(str(UUID(origin)), int(first), int(last or first))
        return found

    def __str__(self) -> str:
        return ",".join(
            ":".join([origin, *(str(a) if a == b else f"{a}-{b}" for a, b in intervals)])
            for origin, intervals in sorted(self._intervals.items())
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return hash(str(self))

    def copy(self) -> GtidSet:
        return GtidSet({origin: list(found) for origin, found in self._intervals.items()})

    def has(self, gtid: SetGtid) -> bool:
        intervals = self._intervals.get(gtid.origin, ())
        return any(first <= gtid.number <= last for first, last in intervals)

    def covers(self, other: GtidSet) -> bool:
        """Whether every transaction of the other is in this one."""
        return all(
            any(first <= a and b <= last for first, last in self._intervals.get(origin, ()))
            for origin, intervals in other._intervals.items()
            for a, b in intervals
        )

    def add(self, gtid: SetGtid) -> None:
        intervals = self._intervals.get(gtid.origin)
        if intervals and gtid.number == intervals[-1][1] + 1:  # nearly always
            intervals[-1] = (intervals[-1][0], gtid.number)
        else:
            self._insert(gtid.origin, gtid.number, gtid.number)

    def _insert(self, origin: str, first: int, last: int) -> None:
        merged: list[tuple[int, int]] = []
        for a, b in sorted([*self._intervals.get(origin, []), (first, last)]):
            if merged and a <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
            else:
                merged.append((a, b))
        self._intervals[origin] = merged

    def encoded(self) -> bytes:
        """As COM_BINLOG_DUMP_GTID has it: ends lie one behind the last number."""
        parts = [struct.pack("<Q", len(self._intervals))]
        for origin, intervals in sorted(self._intervals.items()):
            parts.append(UUID(origin).bytes + struct.pack("<Q", len(intervals)))
            parts += [struct.pack("<QQ", first, last + 1) for first, last in intervals]
        return b"".join(parts)
