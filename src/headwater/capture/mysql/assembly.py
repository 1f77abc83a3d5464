"""From events to records: transactions held together, their rows numbered, BEGIN and END around them.

Called by `stream` with every event, in order. A transaction's row events are kept as they are until its
end, because the log may still say that a part of it was rolled back; then they are decoded and encoded.
One larger than GROUP_BYTES_MAX is encoded as it comes.

Invariants:
- `position` must name only what `take` has handed over: all transactions up to `gtid`, and the first
  `events` row events of the one after them (`within`), which a second run sees in the same order.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any
from zlib import crc32

from headwater.capture.change import BATCH_BYTES, TRANSACTION_BYTES_MAX, Batch, Position, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import BinlogUnreadable, Gap
from headwater.capture.mysql import ddl, events, rows
from headwater.capture.mysql.encoder import GroupEncoder, OnDdl
from headwater.capture.mysql.flavor import Flavor, Reached
from headwater.capture.mysql.group import Group, Prepared
from headwater.capture.mysql.gtid import Gtid, SetGtid
from headwater.capture.mysql.replication import Frame
from headwater.capture.mysql.tables import Tables

GROUP_BYTES_MAX = TRANSACTION_BYTES_MAX // 4  # records are several times as long as row events

_NUMBER = Struct("<I").unpack_from
_HEADER_BYTES, _GTID, _XID = events.HEADER_BYTES, events.GTID, events.XID
_TABLE_MAP = events.TABLE_MAP
_UNUSUAL = events.GTID_STANDALONE | events.GTID_PREPARED_XA | events.GTID_COMPLETED_XA


class Assembly:
    """The records of the batch at hand, and the transaction that is being put together."""

    def __init__(
        self, config: CaptureConfig, tables: Tables, position: Position, flavor: Flavor
    ) -> None:
        self._config = config
        self._tables = tables
        # Any: each flavor has its own GTIDs, and both sides of every call are of the same one.
        self._course: Any = flavor.course(
            position, jumps_allowed=config.option("gtid_jumps", False)
        )
        self._prepared = Prepared()
        self._within: dict[str, Any] = position.get("within", {})
        self._schemas: dict[str, str] = dict(position.get("schemas", {}))
        self.keys: dict[str, str] = dict(position.get("keys", {}))
        self._base = {
            k: v
            for k, v in position.items()
            if k not in ("gtid", "within", "from", "schemas", "keys", "file", "pos")
        }
        self._cut = 0  # bytes of checksum at the end of each event
        self._group: Group | None = None
        self._records: list[Record] = []
        self._bytes = 0
        self._rows = 0
        self._spare = GroupEncoder(config, tables, self._schemas, self.keys)

    def note(self, name: str, value: Any) -> None:
        """Keep something of another's in the position."""
        self._base[name] = value

    def on_ddl(self, act: OnDdl, redefined: Callable[[str], bool]) -> None:
        """What to do when a statement changes captured tables, and when a table's key is another."""
        self._spare.on_ddl, self._spare.on_redefined = act, redefined

    def skip(self, tables: frozenset[str]) -> None:
        """Tables whose changes are not wanted, because a snapshot will read them later."""
        self._spare.skipped_tables = tables

    # ── the batch ──────────────────────────────────────────────────────────────────────────────

    @property
    def gtid(self) -> Reached:
        reached: Reached = self._course.gtid
        return reached

    @property
    def due(self) -> bool:
        return self._bytes >= BATCH_BYTES

    @property
    def open(self) -> bool:
        return self._group is not None

    @property
    def waiting(self) -> bool:
        return bool(self._records)

    @property
    def behind_s(self) -> float | None:
        """How long ago the last transaction that was read had been committed."""
        seconds = self._course.seconds
        return max(0.0, time.time() - seconds) if seconds else None

    def take(self) -> Batch:
        position: Position = {**self._base, **self._course.position()}
        position["schemas"], position["keys"] = dict(self._schemas), dict(self.keys)
        if (since := self._prepared.since) is not None:
            position["from"] = since
        group = self._group
        if group is not None and group.encoder is not None:
            position["within"] = {"gtid": str(group.gtid), **group.encoder.progress()}
        elif self._within:
            position["within"] = self._within
        batch = Batch(position, self._records, self._rows)
        self._records, self._bytes, self._rows = [], 0, 0
        return batch

    # ── events ─────────────────────────────────────────────────────────────────────────────────

    def feed(self, frames: Sequence[Frame], at: int = 0) -> int:
        """Take events from that place on, until a batch is due; where to go on."""
        count = len(frames)
        self._spare.look_at_clock()
        while at < count and self._bytes < BATCH_BYTES:
            # Most transactions have four events: name, table map, rows, commit.
            if (
                frames[at][3] == _GTID
                and at + 3 < count
                and frames[at + 3][3] == _XID
                and self._short(*frames[at : at + 4])
            ):
                at += 4
                continue
            self._event(frames[at])
            at += 1
        return at

    def _short(self, name: Frame, mapped: Frame, changed: Frame, commit: Frame) -> bool:
        """A whole small transaction at once; False: it is not one, and nothing was done.

        The same as four times `_event`, at half the price.
        """
        if mapped[3] != _TABLE_MAP or changed[3] not in rows.ALL or self._within or self._group:
            return False
        cut = self._cut
        if cut:
            for frame in (name, mapped, changed, commit):
                data, end = frame[0], frame[2] - cut
                if crc32(data[frame[1] : end]) != _NUMBER(data, end)[0]:
                    raise events.damaged()
        data, start, end, _, _, server, _, _ = name
        gtid, flags = events.gtid(data, start + _HEADER_BYTES, end - cut, server)
        last = self._course.last.get(gtid.domain)
        if flags & _UNUSUAL or last is None or gtid.sequence != last.sequence + 1:
            return False
        encoder = self._spare
        encoder.begin(gtid, self._course.reading, commit[4])
        data, start, end, _, _, _, _, _ = mapped
        table = encoder.table(data[start + _HEADER_BYTES + 8 : end - cut], mapped[6] + start - end)
        if table is not None:
            data, start, end, kind, _, _, following, _ = changed
            if data[start + 19 : start + 25] != mapped[0][mapped[1] + 19 : mapped[1] + 25]:
                raise BinlogUnreadable("rows in the binary log follow another table's map")
            body = start + _HEADER_BYTES
            encoder.encode_rows(kind, table, data, body, end - cut, following + start - end)
            encoder.end()
            records, bytes_about, row_count = encoder.take()
            self._records += records
            self._bytes += bytes_about
            self._rows += row_count
        self._course.ended(gtid, commit[6], commit[4])
        return True

    def _event(self, frame: Frame) -> None:
        data, start, end, kind, seconds, server, following, flags = frame
        body = start + _HEADER_BYTES
        cut = self._cut
        if cut and kind not in _WITHOUT_CHECK:
            end -= cut
            if crc32(data[start:end]) != _NUMBER(data, end)[0]:
                raise events.damaged()
        if kind in _ROWS_AND_MAPS:
            group = self._group
            if group is None:
                raise BinlogUnreadable("rows stand outside a transaction in the binary log")
            group.kept.append((kind, data, body, end, seconds, following + start - end - cut))
            group.kept_bytes += end - start
            if group.kept_bytes >= GROUP_BYTES_MAX:
                self._encode_early(group)
        elif kind == _GTID:
            self._begin(*events.gtid(data, body, end, server))
        elif kind == _XID:
            self._end(seconds, following)
        elif kind == events.QUERY:
            self._query(events.query(data, body, end), seconds, following, end - start + cut)
        elif kind == events.QUERY_COMPRESSED:
            query = events.compressed_query(data, body, end)
            self._query(query, seconds, following, end - start + cut)
        else:
            self._other(kind, data, body, end, flags, seconds, following, server)

    def _other(
        self,
        kind: int,
        data: bytes,
        body: int,
        end: int,
        flags: int,
        seconds: int,
        following: int,
        server: int,
    ) -> None:
        if kind == events.FORMAT_DESCRIPTION:
            self._course.described(seconds)
            self._cut = events.format_description(data, body, end).checksum_bytes
        elif kind == events.ROTATE:
            # One that the server makes up for this connection may or may not have a checksum.
            if events.has_checksum(data, body - events.HEADER_BYTES, end):
                end -= events.CHECKSUM_BYTES
            made_up = bool(flags & events.FLAG_ARTIFICIAL)
            self._course.rotated(*events.rotate(data, body, end), made_up=made_up)
        elif kind == events.INCIDENT:
            raise Gap(
                "the server noted in its binary log that changes may be missing (an incident)",
                hint="see the server's error log, then take the snapshot again (--resnapshot)",
            )
        elif kind == events.SET_GTID:
            # Whatever does not begin with BEGIN or XA START is one statement.
            self._begin(events.set_gtid(data, body, end, server), events.GTID_STANDALONE)
        elif kind == events.PAYLOAD:
            self._payload(data, body, end, following)
        elif kind == events.XA_PREPARE:
            self._prepare(data, body, seconds, following)
        elif kind == events.EXECUTE_LOAD_QUERY:
            self._check_statement(events.load_query(data, body, end))
        elif kind in events.REFUSED:
            raise BinlogUnreadable(events.REFUSED[kind][0], hint=events.REFUSED[kind][1])
        elif kind not in events.IGNORED and not flags & events.FLAG_IGNORABLE:
            raise BinlogUnreadable(
                f"the binary log has an event of type {kind}, which is not known here",
                hint="a newer headwater may know it; this one does not go past it",
            )

    def _payload(self, data: bytes, body: int, end: int, following: int) -> None:
        """A transaction of MySQL that was compressed as a whole: its events, without checksums."""
        cut, self._cut = self._cut, 0
        try:
            for plain, start, stop in events.payload(data, body, end):
                seconds, kind, server, _, _, flags = events.HEADER.unpack_from(plain, start)
                self._event((plain, start, stop, kind, seconds, server, following, flags))
        finally:
            self._cut = cut

    def _begin(self, gtid: Gtid | SetGtid, flags: int) -> None:
        if self._group is not None:
            raise BinlogUnreadable("a transaction in the binary log begins within another")
        self._group = Group(gtid, flags, self._course.reading)
        self._group.seen = self._course.begins(gtid)

    def _query(self, query: events.Query, seconds: int, next_position: int, size: int) -> None:
        group = self._group
        if group is None:
            return  # what a server adds for itself, before its first transaction
        statement = query.statement.strip()
        word = statement[:9].upper()
        if word == "BEGIN":
            group.flags &= ~events.GTID_STANDALONE
            return
        if word in ("COMMIT", "ROLLBACK"):
            if word == "ROLLBACK":
                group.roll_back(0, self._tables)
            self._end(seconds, next_position)
            return
        if word.startswith(("SAVEPOINT", "ROLLBACK", "RELEASE")):
            group.savepoint(statement, self._tables)
            return
        if statement.startswith("XA "):
            self._xa(group, statement, seconds, next_position)
            return
        if _CREATE_SELECT.search(statement):
            group.flags &= ~events.GTID_STANDALONE  # MySQL: the rows of the SELECT follow
        elif ddl.changes_data(statement):
            self._check_statement(query)
        group.kept.append((events.QUERY, query, 0, 0, seconds, next_position - size))
        if group.flags & events.GTID_STANDALONE:
            self._end(seconds, next_position)

    # ── transactions ───────────────────────────────────────────────────────────────────────────

    def _xa(self, group: Group, statement: str, seconds: int, next_position: int) -> None:
        """XA END names a transaction before it is prepared; COMMIT and ROLLBACK decide it, later."""
        _, verb, xid = statement.split(None, 2)
        if verb in ("START", "END"):  # MariaDB says only the latter
            group.xid = xid
            group.flags = group.flags & ~events.GTID_STANDALONE | events.GTID_PREPARED_XA
            return
        kept = self._prepared.release(xid)
        if verb == "COMMIT" and not group.seen:
            if kept is None:
                raise Gap(
                    f"the XA transaction {xid} was prepared before this capture began to read",
                    hint="take the snapshot again (--resnapshot)",
                )
            group.kept = kept
        self._end(seconds, next_position)

    def _prepare(self, data: bytes, body: int, seconds: int, next_position: int) -> None:
        group = self._group
        if group is None or not group.xid:
            raise BinlogUnreadable("an XA transaction in the binary log has no name")
        if not data[body]:  # else it is committed at once
            self._prepared.hold(group, self._course.before)
            group.kept = []
        self._end(seconds, next_position)

    def _encoder(self, group: Group, seconds: int) -> GroupEncoder:
        encoder = self._spare
        encoder.begin(group.gtid, group.file, seconds)
        if self._within:
            if self._within["gtid"] == str(group.gtid):
                encoder.resume(self._within)
            self._within = {}
        return encoder

    def _encode_early(self, group: Group) -> None:
        if group.flags & events.GTID_PREPARED_XA or group.seen:
            return
        if group.encoder is None:
            group.encoder = self._encoder(group, group.kept[0][4])
        kept, group.kept, group.kept_bytes = group.kept, [], 0
        group.encoder.encode(kept)
        records, _, row_count = group.encoder.take()
        self._records += records
        self._rows += row_count
        self._bytes += BATCH_BYTES  # hand it over: the transaction is cut anyhow

    def _end(self, seconds: int, next_position: int) -> None:
        group = self._group
        if group is None:
            raise BinlogUnreadable("a transaction in the binary log ends without having begun")
        if group.seen:
            self._group = None
            self._course.passed_again(group.gtid)
            return
        if group.kept or group.encoder is not None:
            encoder = group.encoder or self._encoder(group, seconds)
            encoder.encode(group.kept)
            encoder.end()
            records, bytes_about, row_count = encoder.take()
            self._records += records
            self._bytes += bytes_about
            self._rows += row_count
        self._group = None
        self._within = {}
        self._course.ended(group.gtid, next_position, seconds)

    # ── what cannot be captured ────────────────────────────────────────────────────────────────

    def _check_statement(self, query: events.Query) -> None:
        ours = query.database == self._tables.database or ddl.mentions(
            query.statement, self._tables.database
        )
        if ours and any(ddl.mentions(query.statement, name) for name in self._tables.names()):
            raise Gap(
                f"a change of rows was logged as a statement, not as rows: {query.statement[:80]!r}",
                hint="SET GLOBAL binlog_format = 'ROW' (and reconnect clients), "
                "then take the snapshot again (--resnapshot)",
            )


_ROWS_AND_MAPS = rows.ALL | {events.TABLE_MAP, events.PARTIAL_UPDATE}
_WITHOUT_CHECK = {events.FORMAT_DESCRIPTION, events.ROTATE, events.HEARTBEAT, events.HEARTBEAT_V2}
# What MySQL logs for CREATE TABLE … SELECT since 8.0.21.
_CREATE_SELECT = re.compile(r"\bSTART\s+TRANSACTION\s*$", re.IGNORECASE)
