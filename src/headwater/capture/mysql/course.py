"""How far the binary log has been read, and whether nothing was left out; called by `assembly`.

Sequence numbers of a domain must go up by one: a jump would be a gap that nobody noticed. Where an XA
transaction waits for its commit, reading begins again before it, so what lies between comes a second
time and is known by its GTID.

That is MariaDB (`Course`). MySQL's server (`SetCourse`) is asked for what is not in our set, and answers with
an error if it no longer has all of it, so there is no jump to look for. A transaction that comes although the
set has it would be told twice: it is an error, but where reading began earlier for the sake of a prepared XA
transaction.
"""

from __future__ import annotations

from headwater.capture.change import Position
from headwater.capture.errors import Gap
from headwater.capture.mysql.gtid import Gtid, GtidPosition, GtidSet, SetGtid


class _Files:
    """The place of the last transaction in the server's files, and when its file was made."""

    def __init__(self, position: Position) -> None:
        self._file, self._pos = position.get("file", ""), position.get("pos", 0)
        self._made: int = position.get("made", 0)
        self.reading: str = self._file
        """The file that is read now; it may be another one than that of the position."""
        self._reading_made = self._made

    def rotated(self, file: str, pos: int, *, made_up: bool) -> None:
        """Another file. A rotation that the server made up only says what is read from now on."""
        if file != self.reading:
            self.reading, self._reading_made = file, 0
        if not made_up:
            self._file, self._pos, self._made = file, pos, self._reading_made

    def described(self, made: int) -> None:
        """The file that is read now was made then (seconds)."""
        self._reading_made = made
        if self._file == self.reading:
            self._made = made

    def _reached(self, pos: int) -> None:
        self._file, self._pos, self._made = self.reading, pos, self._reading_made

    def _place(self) -> Position:
        place: Position = {"file": self._file, "pos": self._pos}
        return {**place, "made": self._made} if self._made else place


class Course(_Files):
    """The last transaction of each domain that was read, and its place in the server's files."""

    def __init__(self, position: Position, *, jumps_allowed: bool) -> None:
        self.last = dict(GtidPosition.parse(position["gtid"]).last)
        self._delivered = self.gtid
        self._again: dict[int, Gtid] | None = None
        if "from" in position:
            self._again = dict(GtidPosition.parse(position["from"]).last)
        super().__init__(position)
        self.seconds = 0
        self._jumps_allowed = jumps_allowed

    @property
    def gtid(self) -> GtidPosition:
        return GtidPosition(dict(self.last))

    @property
    def before(self) -> GtidPosition:
        """Where to begin to read for the transaction that is read now."""
        return self.gtid if self._again is None else GtidPosition(dict(self._again))

    def position(self) -> Position:
        return {"gtid": str(self.gtid), **self._place()}

    def begins(self, gtid: Gtid) -> bool:
        """A transaction begins; whether the log has it already. Raises Gap where one is missing."""
        if self._again is not None and self._delivered.has(gtid):
            return True
        last = self.last.get(gtid.domain)
        if last is not None and gtid.sequence != last.sequence + 1:
            self._check_jump(last, gtid)
        return False

    def ended(self, gtid: Gtid, pos: int, seconds: int) -> None:
        """It is complete, and ended at that position of the file."""
        if self._again is not None:
            self.passed_again(gtid)
        self.last[gtid.domain] = gtid
        self._reached(pos)
        self.seconds = seconds

    def passed_again(self, gtid: Gtid) -> None:
        """One that the log has was read a second time."""
        assert self._again is not None, "only where reading began before the position"
        self._again[gtid.domain] = gtid
        if all(map(GtidPosition(self._again).has, self._delivered.last.values())):
            self._again = None  # all that comes twice is behind

    def _check_jump(self, last: Gtid, gtid: Gtid) -> None:
        if gtid.sequence <= last.sequence:
            raise Gap(
                f"the binary log went back: {gtid} came after {last}",
                hint="the server was reset or restored: take the snapshot again (--resnapshot)",
            )
        if not self._jumps_allowed:
            raise Gap(
                f"transactions are missing between {last} and {gtid}",
                hint="if this server leaves transactions out (a replica with filters), "
                "set gtid_jumps = true; otherwise take the snapshot again (--resnapshot)",
            )


class SetCourse(_Files):
    """The transactions that were read, and the place of the last one in the server's files."""

    def __init__(self, position: Position) -> None:
        self._seen = GtidSet.parse(position["gtid"])
        self._again: GtidSet | None = None
        if "from" in position:
            self._again = GtidSet.parse(position["from"])
        self._delivered = self._seen.copy()
        super().__init__(position)
        self.seconds = 0

    @property
    def gtid(self) -> GtidSet:
        return self._seen.copy()

    @property
    def before(self) -> GtidSet:
        """Where to begin to read for the transaction that is read now."""
        return (self._seen if self._again is None else self._again).copy()

    def position(self) -> Position:
        return {"gtid": str(self._seen), **self._place()}

    def begins(self, gtid: SetGtid) -> bool:
        """A transaction begins; whether the log has it already."""
        if self._again is not None and self._delivered.has(gtid):
            return True
        if self._seen.has(gtid):
            raise Gap(
                f"the binary log went back: {gtid} came a second time",
                hint="the server was reset or restored: take the snapshot again (--resnapshot)",
            )
        return False

    def ended(self, gtid: SetGtid, pos: int, seconds: int) -> None:
        if self._again is not None:
            self.passed_again(gtid)
        self._seen.add(gtid)
        self._reached(pos)
        self.seconds = seconds

    def passed_again(self, gtid: SetGtid) -> None:
        assert self._again is not None, "only where reading began before the position"
        self._again.add(gtid)
        if self._again.covers(self._delivered):
            self._again = None
