"""MariaDB and MySQL as sources of changes: wires snapshot and stream together; used by the runner.

A position:

    gtid         every transaction up to here is in the log
    within       and so much of the one after it: gtid, events, order, counts
    from         where to begin to read, if an XA transaction before `gtid` waits for its commit
    server       the server's id; file, pos: the same place in its files; made: when that file was made
    schemas      table → digest of the columns that readers know
    tables       those that a snapshot has read
    requests     how many of the requests in the log were taken
    incremental  while tables are read again: tables, after (the last key)
    snapshot     while the first snapshot goes on: pending, table, after, again
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from headwater.capture.change import Batch, Lag, Position, Progress, begins_again
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured, SourceRefused
from headwater.capture.mysql import chunks, ddl, log_file, preflight, schema, stream
from headwater.capture.mysql import flavor as flavors
from headwater.capture.mysql.assembly import Assembly
from headwater.capture.mysql.columns import style_of
from headwater.capture.mysql.connection import Address, Connection
from headwater.capture.mysql.flavor import Flavor, Reached
from headwater.capture.mysql.incremental import Incremental
from headwater.capture.mysql.replication import SILENCE_S, BinlogStream
from headwater.capture.mysql.requests import Requests, ask, topic
from headwater.capture.mysql.selection import captured_now, check_selection
from headwater.capture.mysql.snapshot import CHUNK_ROWS, Snapshot
from headwater.capture.mysql.tables import Tables
from headwater.capture.mysql.views import Views
from headwater.capture.source import WHOLE, Finding, Range, check_range

OPTIONS = {"server_id", "decimals", "zero_dates", "chunk_rows", "gtid_jumps"}
OPTIONS |= {"snapshot_workers", "silence_s", "without_tables"}
SCAN_EVENTS_MAX = 20_000


class MariaDBSource:
    """One capture's side towards the database."""

    begins_again = True

    def __init__(self, config: CaptureConfig) -> None:
        config.refuse_unknown(OPTIONS)
        self._config = config
        self._address = Address.parse(config.url)
        self._style = style_of(config)
        self._server_id = _server_id(config)
        self._chunk_rows = config.option("chunk_rows", CHUNK_ROWS)
        self._connection: Connection | None = None
        self._binlog: BinlogStream | None = None
        self._assembly: Assembly | None = None
        self._view: Views | None = None
        self._known_flavor: Flavor | None = None
        self._silence_s = float(config.option("silence_s", int(SILENCE_S)))
        self._snapshot: Snapshot | None = None
        self._tables: Tables | None = None
        self._incremental: Incremental | None = None
        check_selection(config)

    # ── the contract ───────────────────────────────────────────────────────────────────────────

    def check(self) -> list[Finding]:
        return preflight.findings(self._config, self._address, self._style, self._server_id)

    def topics(self) -> list[str]:
        tables = self._known_tables()
        own = [self._config.transaction_topic, self._config.schema_topic, topic(self._config)]
        return [*tables.topics(), *own]

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        preflight.require(self._database(), self._address, self._server_id)
        first = position is None or begins_again(position)
        workers = self._config.option("snapshot_workers", 2)
        view = self._view = Views(self._flavor(), self._address, first=first, readers=workers)
        try:
            self._tables = None  # as they are now, not as they were before the view
            tables = self._known_tables()
            server = int(self._database().value("SELECT @@server_id"))
            if position is None or begins_again(position):
                pending = {"pending": sorted(tables.now)}
                position = {
                    "server": server,
                    "gtid": str(view.gtid),
                    "file": view.file,
                    "pos": view.pos,
                    "schemas": {},
                    "tables": sorted(tables.now),
                    "snapshot": pending if position is None else {**pending, "again": True},
                }
                yield Batch(position)
            else:
                self._check_continuity(position)
                position = self._on_this_server(position)
                for batch in self._catch_up(position, view.gtid):
                    position = batch.position
                    yield batch
            made = log_file.made(self._flavor(), self._address, view.file, self._server_id)
            position = {**position, "made": made}
            self._snapshot = Snapshot(self._config, tables, view, server, self._chunk_rows)
            yield from self._snapshot.read(position)
        finally:
            view.close()
            self._view = self._snapshot = None

    def stream(self, position: Position) -> Iterator[Batch]:
        preflight.require(self._database(), self._address, self._server_id)
        self._check_continuity(position)
        position = self._on_this_server(position)
        assembly = self._assembling(position)
        incremental = self._incremental = Incremental(
            self._config,
            self._known_tables(),
            self._database(),
            self._flavor(),
            position,
            self._chunk_rows,
        )
        new = self._new_tables(position)
        incremental.want(new)
        assembly.note("tables", sorted({*position.get("tables", ()), *new}))
        requests = Requests(self._config, position.get("requests", 0))
        assert self._binlog is not None
        try:
            for batch in stream.follow(self._binlog, assembly, lambda: incremental.active):
                incremental.want(requests.take())
                incremental.follow(batch)
                batch.position["requests"] = requests.offset
                yield batch
        finally:
            requests.close()

    def acknowledge(self, position: Position) -> None:
        """The server keeps its binary log by age, whoever reads it: there is nothing to tell it."""

    def lag(self) -> Lag:
        behind = self._assembly.behind_s if self._assembly is not None else None
        return Lag(seconds=behind, detail=f"the server is at {self._server_gtid()}")

    def progress(self) -> Progress | None:
        reading = self._snapshot or self._incremental
        return reading.progress if reading is not None else None

    def guard(self) -> str | None:
        """Called now and then: what could not be done."""
        return self._incremental.given_up() if self._incremental is not None else None

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        check_range(tables, within)
        known = self._known_tables()
        names = tables or [name for name in sorted(known.now) if name != self._config.outbox]
        for name in names:
            if name not in known.now or not known.wants(self._address.database, name):
                raise Misconfigured(
                    f"the capture has no table {name!r}", hint="name it in `tables` first"
                )
            if not chunks.continues(known.as_now(name)):
                raise Misconfigured(
                    f"{name} has no primary key in whose order it could be read",
                    hint=f"headwater capture run {self._config.name} --resnapshot reads all tables",
                )
        where = chunks.condition(known.as_now(names[0]), within) if not within.whole else None
        if where is not None:  # a mistake is told here, and not to the capture that runs
            statement, _ = chunks.query(
                self._address.database, known.as_now(names[0]), None, 0, where=where
            )
            self._database().execute(statement.replace("%%", "%"))
        ask(self._config, names, where)
        rows = "" if where is None else f" where {where}"
        return f"the capture will read {', '.join(names)}{rows} again, while it goes on"

    def forget(self) -> str | None:
        """The server keeps nothing for a capture."""
        return None

    def close(self) -> None:
        for part in (self._binlog, self._view, self._connection):
            if part is not None:
                part.close()
        self._binlog = self._view = self._connection = None

    # ── its parts ──────────────────────────────────────────────────────────────────────────────

    def _database(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._address)
        return self._connection

    def _server_gtid(self) -> str:
        return self._flavor().now(self._database())

    def _flavor(self) -> Flavor:
        if self._known_flavor is None:
            self._known_flavor = flavors.of(self._database())
        return self._known_flavor

    def _known_tables(self) -> Tables:
        if self._tables is None:
            database = self._database()
            now = self._described()
            self._tables = Tables(
                self._config,
                self._address.database,
                now,
                schema.charset_names(database),
                self._style,
                self._flavor(),
            )
        return self._tables

    def _described(self) -> dict[str, schema.Table]:
        return captured_now(self._database(), self._config, self._address.database)

    def _check_continuity(self, position: Position) -> None:
        flavor, database = self._flavor(), self._database()
        flavor.check_continuity(database, position)
        log_file.check_same(flavor, database, self._address, position, self._server_id)

    def _refresh(self, changed: list[str], file: str, pos: int) -> None:
        """A statement has changed these tables. They are known again, if nothing later did."""
        now = self._described()
        tables = self._known_tables()
        tables.refresh(now)
        for name in changed:
            tables.trusted.pop(name, None)
        if self._full_metadata():
            return  # rows say themselves what their columns are
        for name in changed:
            if name in now and not self._changes_later(name, file, pos):
                tables.trusted[name] = now[name]

    def _full_metadata(self) -> bool:
        return self._database().settings("binlog_row_metadata")["binlog_row_metadata"] == "FULL"

    def _changes_later(self, name: str, file: str, pos: int) -> bool:
        """Whether a later statement in the binary log may have changed the table as well."""
        database = self._database()
        files = [str(row[0]) for row in database.execute("SHOW BINARY LOGS")]
        for later in files[files.index(file) :] if file in files else []:
            begin = pos if later == file else 4
            found = database.execute(
                f"SHOW BINLOG EVENTS IN %s FROM {begin} LIMIT {SCAN_EVENTS_MAX}", [later]
            )
            if len(found) == SCAN_EVENTS_MAX or any(
                row[2].startswith("Query") and int(row[1]) != pos and ddl.mentions(row[5], name)
                for row in found
            ):
                return True
        return file not in files

    def _assembling(self, position: Position) -> Assembly:
        if self._binlog is not None:
            self._binlog.close()
        flavor, tables = self._flavor(), self._known_tables()
        after = flavor.parse(position["from"] if "from" in position else position["gtid"])
        self._binlog = BinlogStream(flavor, self._address, after, self._server_id, self._silence_s)
        tables.trust(position.get("schemas", {}))
        assembly = self._assembly = Assembly(self._config, tables, position, flavor)
        assembly.on_ddl(self._refresh)
        return assembly

    def _new_tables(self, position: Position) -> list[str]:
        """Tables that were named since the snapshot, which did not read them."""
        known = self._known_tables()
        before = position.get("tables", ())
        new = [name for name in self._config.tables if name in known.now and name not in before]
        for name in new:
            if not chunks.continues(known.as_now(name)):
                raise SourceRefused(
                    f"{name} was added to `tables` and has no primary key in whose order to read it",
                    hint=f"headwater capture run {self._config.name} --resnapshot reads all tables",
                )
        return new

    def _catch_up(self, position: Position, end: Reached) -> Iterator[Batch]:
        """Changes since an interrupted snapshot, of what it had read."""
        assembly = self._assembling(position)
        state = position["snapshot"]
        pending = set(state["pending"])
        tables = self._known_tables()
        name = state.get("table")
        if name in tables.now and state.get("after") and chunks.continues(tables.as_now(name)):
            pending.discard(name)
        assembly.skip(frozenset(pending))
        assert self._binlog is not None
        yield from stream.follow_until(self._binlog, assembly, end)
        self._binlog.close()
        self._binlog = None

    def _on_this_server(self, position: Position) -> Position:
        """Files and places in them are a server's own: after a failover they are not known yet."""
        server = int(self._database().value("SELECT @@server_id"))
        if position.get("server") == server:
            return position
        kept = {name: value for name, value in position.items() if name != "made"}
        return {**kept, "server": server, "file": "", "pos": 0}


def _server_id(config: CaptureConfig) -> int:
    """Every replica needs its own number: from the capture's name, high up, unless it is given."""
    given = config.option("server_id", 0)
    if not 0 <= given < 1 << 32:
        raise Misconfigured(
            f"capture {config.name}: server_id = {given} is no number of a server",
            hint="1 to 4294967295, another one for every replica",
        )
    return given or 0x40000000 | zlib.crc32(config.name.encode()) & 0x3FFFFFFF
