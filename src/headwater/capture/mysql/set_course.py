"""How far MySQL's binary log has been read; the counterpart of `course`, which is MariaDB's.

The server is asked for what is not in our set, and answers with an error if it no longer has all of it,
so there is no jump to look for. A transaction that comes although the set has it would be told twice: it
is an error, but where reading began earlier for the sake of a prepared XA transaction.
"""

from __future__ import annotations

from headwater.capture.change import Position
from headwater.capture.errors import Gap
from headwater.capture.mysql.gtid_set import GtidSet, SetGtid


class SetCourse:
    """The transactions that were read, and the place of the last one in the server's files."""

    def __init__(self, position: Position) -> None:
        self._seen = GtidSet.parse(position["gtid"])
        self._again: GtidSet | None = None
        if "from" in position:
            self._again = GtidSet.parse(position["from"])
        self._delivered = self._seen.copy()
        self._file, self._pos = position.get("file", ""), position.get("pos", 0)
        self.reading: str = self._file
        self.seconds = 0

    @property
    def gtid(self) -> GtidSet:
        return self._seen.copy()

    @property
    def before(self) -> GtidSet:
        """Where to begin to read for the transaction that is read now."""
        return (self._seen if self._again is None else self._again).copy()

    def position(self) -> Position:
        return {"gtid": str(self._seen), "file": self._file, "pos": self._pos}

    def rotated(self, file: str, pos: int, *, made_up: bool) -> None:
        self.reading = file
        if not made_up:
            self._file, self._pos = file, pos

    def begins(self, gtid: SetGtid) -> bool:
        """A transaction begins; whether the log has it already."""
        if self._again is not None and self._delivered.has(gtid):
            return True
        if self._seen.has(gtid):
            raise Gap(
                f"the binary log went back: {gtid} came a second time",
                hint="the server was reset or restored: take the snapshot anew (--resnapshot)",
            )
        return False

    def ended(self, gtid: SetGtid, pos: int, seconds: int) -> None:
        if self._again is not None:
            self.passed_again(gtid)
        self._seen.add(gtid)
        self._file, self._pos, self.seconds = self.reading, pos, seconds

    def passed_again(self, gtid: SetGtid) -> None:
        assert self._again is not None, "only where reading began before the position"
        self._again.add(gtid)
        if self._again.covers(self._delivered):
            self._again = None
