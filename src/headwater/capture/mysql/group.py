"""A transaction while it is read: its events, kept until it is known which of them stay.

Called by `assembly`. The server leaves out what was rolled back, but for one case: where tables that
cannot roll back were changed too, it logs everything and then says what was rolled back.
"""

from __future__ import annotations

import re

from headwater.capture.errors import CaptureError
from headwater.capture.mysql import events, rows
from headwater.capture.mysql.encoding import GroupEncoder, Kept
from headwater.capture.mysql.gtid import Gtid
from headwater.capture.mysql.tables import Tables

_SAVEPOINT = re.compile(r"SAVEPOINT\s+(\S+)", re.IGNORECASE)
_ROLLBACK_TO = re.compile(r"ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?(\S+)", re.IGNORECASE)


class Group:
    """The transaction that is being read."""

    __slots__ = ("gtid", "flags", "kept", "kept_bytes", "savepoints", "encoder", "file")

    def __init__(self, gtid: Gtid, flags: int, file: str) -> None:
        self.gtid = gtid
        self.flags = flags
        self.file = file
        self.kept: list[Kept] = []
        self.kept_bytes = 0
        self.savepoints: dict[str, int] = {}
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
                "then take the snapshot anew (--resnapshot)",
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
