"""A transaction while it is read: its events, kept until it is known which of them stay.

Called by `assembly`. The server leaves out what was rolled back, but for one case: where tables that
cannot roll back were changed too, it logs everything and then says what was rolled back.
"""

from __future__ import annotations

import re

from headwater.capture.errors import CaptureError
from headwater.capture.mysql import events, rows
from headwater.capture.mysql.encoder import GroupEncoder, Kept
from headwater.capture.mysql.flavor import Reached
from headwater.capture.mysql.gtid import Gtid, SetGtid
from headwater.capture.mysql.tables import Tables

PREPARED_BYTES_MAX = 64 << 20

_SAVEPOINT = re.compile(r"SAVEPOINT\s+(\S+)", re.IGNORECASE)
_ROLLBACK_TO = re.compile(r"ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?(\S+)", re.IGNORECASE)


class Group:
    """The transaction that is being read."""

    __slots__ = (
        "gtid",
        "flags",
        "kept",
        "kept_bytes",
        "savepoints",
        "encoder",
        "file",
        "seen",
        "xid",
    )

    def __init__(self, gtid: Gtid | SetGtid, flags: int, file: str) -> None:
        self.gtid = gtid
        self.flags = flags
        self.file = file
        self.kept: list[Kept] = []
        self.kept_bytes = 0
        self.savepoints: dict[str, int] = {}
        self.seen = False
        """The log has it already; it is read again for the sake of an XA transaction."""
        self.xid = ""
        self.encoder: GroupEncoder | None = None
        """There once a large transaction has begun to be encoded."""

    def savepoint(self, statement: str, tables: Tables) -> None:
        """SAVEPOINT, ROLLBACK TO, RELEASE."""
        to = _ROLLBACK_TO.match(statement)
        made = _SAVEPOINT.match(statement)
        if to is not None:
            self.roll_back(self.savepoints.get(to[1], 0), tables)
        elif made is not None:
            self.savepoints[made[1]] = len(self.kept)

    def roll_back(self, place: int, tables: Tables) -> None:
        """Drop what was kept from that place on, but for tables that cannot roll back."""
        if self.encoder is not None:
            raise CaptureError(
                f"transaction {self.gtid} was rolled back in part after changing a table that "
                "cannot roll back, and is too large to be held until its end",
                hint="convert such tables (ALTER TABLE … ENGINE = InnoDB), "
                "then take the snapshot again (--resnapshot)",
            )
        stays = []
        transactional: dict[bytes, bool] = {}
        for kept in self.kept[place:]:
            kind, data, body, end, _, _ = kept
            if kind == events.TABLE_MAP:
                table = tables.by_map(data[body + 8 : end])
                transactional[data[body : body + 6]] = table is None or table.transactional
            elif kind in rows.ALL and transactional.get(data[body : body + 6], True):
                continue
            stays.append(kept)
        self.kept[place:] = stays


class Prepared:
    """XA transactions between their two phases: their rows are in the binary log, but not yet real.

    They are held until the commit comes. `since` is where reading has to begin again after a restart.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[list[Kept], int, str]] = {}

    def hold(self, group: Group, before: Reached) -> None:
        """`before`: the position before it."""
        # Without the rest of the bytes that they came with.
        kept: list[Kept] = [
            item if item[0] == events.QUERY else _alone(item) for item in group.kept
        ]
        self._held[group.xid] = (kept, group.kept_bytes, str(before))
        if sum(size for _, size, _ in self._held.values()) > PREPARED_BYTES_MAX:
            raise CaptureError(
                f"prepared XA transactions have more than {PREPARED_BYTES_MAX >> 20} MB of changes",
                hint="see XA RECOVER; commit or roll back those that were forgotten",
            )

    def release(self, xid: str) -> list[Kept] | None:
        found = self._held.pop(xid, None)
        return None if found is None else found[0]

    @property
    def since(self) -> str | None:
        return next((before for _, _, before in self._held.values()), None)


def _alone(item: Kept) -> Kept:
    kind, data, body, end, seconds, position = item
    return (kind, data[body:end], 0, end - body, seconds, position)
