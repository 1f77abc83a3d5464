"""MariaDB and MySQL as sources of changes: wires snapshot and stream together; used by the runner.

A position:

    gtid         every transaction up to here is in the log
    within       and so much of the one after it: gtid, events, order, counts
    from         where to begin to read, if an XA transaction before `gtid` waits for its commit
    server       the server's id; file, pos: the same place in its files; made: when that file was made
    schemas      table → digest of the columns that readers know
    keys         table → form of the keys under which readers have its rows
    tables       those that a snapshot has read
    requests     how many of the requests in the log were taken
    incremental  while tables are read again: tables, after (the last key)
    snapshot     while the first snapshot goes on: pending, table, after, again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.capture.change import Batch, Lag, Position, Progress, begins_again
from headwater.capture.config import CaptureConfig
from headwater.capture.mysql import address, charsets, chunks, log_file, preflight, schema, stream
from headwater.capture.mysql import flavor as flavors
from headwater.capture.mysql.assembly import Assembly
from headwater.capture.mysql.cascades import Cascades
from headwater.capture.mysql.columns import style_of
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.flavor import Flavor, Reached
from headwater.capture.mysql.incremental import Incremental, added, readable
from headwater.capture.mysql.replication import SILENCE_S, BinlogStream
from headwater.capture.mysql.selection import captured_now, check_selection, server_id
from headwater.capture.mysql.snapshot import (
    CHUNK_ROWS,
    Snapshot,
    begun_anew,
    first_position,
    with_new_tables,
)
from headwater.capture.mysql.tables import Tables
from headwater.capture.mysql.views import Views, opened, replica_of
from headwater.capture.requests import Requests, ask, topic
from headwater.capture.source import WHOLE, Finding, Range


class MariaDBSource:
    """One capture's side towards the database."""

    begins_again = True

    def __init__(self, config: CaptureConfig) -> None:
        self._config = config
        self._address = address.Address.parse(config.url)
        self._style = style_of(config)
        self._server_id = server_id(config)
        self._replica = replica_of(config)
        self._chunk_rows = config.option("chunk_rows", CHUNK_ROWS)
        self._connection: Connection | None = None
        self._binlog: BinlogStream | None = None
        self._assembly: Assembly | None = None
        self._view: Views | None = None
        self._known_flavor: Flavor | None = None
        self._cascades = Cascades()
        self._silence_s = float(config.option("silence_s", int(SILENCE_S)))
        self._snapshot: Snapshot | None = None
        self._tables: Tables | None = None
        self._incremental: Incremental | None = None
        self._begin_anew: Callable[[str], bool] = lambda _name: False
        check_selection(config)

    # ── the contract ───────────────────────────────────────────────────────────────────────────

    def check(self) -> list[Finding]:
        found = preflight.findings(self._config, self._address, self._style, self._server_id)
        if self._replica is None or not all(finding.ok for finding in found):
            return found
        return [*found, *self._replica.findings(self._flavor())]

    def topics(self) -> list[str]:
        tables = self._known_tables()
        own = [self._config.transaction_topic, self._config.schema_topic, topic(self._config)]
        return [*tables.topics(), *own]

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        preflight.require(self._database(), self._address, self._server_id)
        workers = self._config.option("snapshot_workers", 2)
        flavor, database, replica = self._flavor(), self._database(), self._replica
        view = self._view = opened(flavor, database, replica, position, workers)
        try:
            self._tables = None  # as they are now, not as they were before the view
            tables = self._known_tables()
            if position is None or begins_again(position):
                position = first_position(self._config, view, tables.now, position)
                yield Batch(position)
            else:
                self._check_continuity(position)
                position = with_new_tables(self._on_this_server(position), tables.now)
                for batch in self._catch_up(position, view.gtid):
                    position, batch.streamed = batch.position, True
                    yield batch
            made = log_file.made(flavor, view.address, view.file, self._server_id)
            position = {**position, "made": made, "server": view.server}
            self._snapshot = Snapshot(self._config, tables, view, self._chunk_rows)
            yield from self._snapshot.read(position)
        finally:
            view.close()
            self._view = self._snapshot = None
            if replica is not None:
                self._tables = None  # the stream is the primary's

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
            assembly.keys,
        )
        self._begin_anew = incremental.begin
        new = added(self._config, self._known_tables(), position)
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

    def replica_lag_s(self) -> float | None:
        """Of the replica that is read from: a primary does not know how its replicas fare."""
        return None if self._replica is None else self._replica.lag_s()

    def progress(self) -> Progress | None:
        reading = self._snapshot or self._incremental
        return reading.progress if reading is not None else None

    def guard(self) -> str | None:
        """Called now and then: what could not be done, or cannot be seen."""
        if self._incremental is None:
            return None
        place = self._database(), self._address
        said = self._incremental.given_up()
        return said or self._cascades.untold(*place, self._known_tables().now)

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        known, database = self._known_tables(), self._database()
        names, where = readable(database, self._config, known, tables, within)
        ask(self._config, names, where)
        rows = "" if where is None else f" where {where}"
        return f"the capture will read {', '.join(names)}{rows} again, while it goes on"

    def forget(self) -> str | None:
        """The server keeps nothing for a capture."""
        return None

    def close(self) -> None:
        for part in (self._binlog, self._view, self._connection, self._replica):
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
            folds = database.settings("lower_case_table_names")["lower_case_table_names"] == "1"
            name = self._address.database
            self._tables = Tables(
                self._config,
                name.lower() if folds else name,
                now,
                charsets.by_collation(database),
                self._style,
                self._flavor(),
            )
            self._tables.folds_names = folds
        return self._tables

    def _described(self) -> dict[str, schema.Table]:
        reading = self._replica if self._view is not None else None
        database = self._database() if reading is None else reading.database()
        return captured_now(database, self._config, self._address.database)

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
            if name in now and not log_file.changes_later(self._database(), name, file, pos):
                tables.trusted[name] = now[name]

    def _full_metadata(self) -> bool:
        return self._database().settings("binlog_row_metadata")["binlog_row_metadata"] == "FULL"

    def _assembling(self, position: Position) -> Assembly:
        if self._binlog is not None:
            self._binlog.close()
        flavor, tables = self._flavor(), self._known_tables()
        after = flavor.parse(position["from"] if "from" in position else position["gtid"])
        self._binlog = BinlogStream(flavor, self._address, after, self._server_id, self._silence_s)
        tables.trust(position.get("schemas", {}))
        assembly = self._assembly = Assembly(self._config, tables, position, flavor)
        assembly.on_ddl(self._altered, lambda name: self._begin_anew(name))
        return assembly

    def _altered(self, changed: list[str], arrived: list[str], file: str, pos: int) -> list[str]:
        """A statement has changed these tables; of those that had another name, which will be read."""
        self._refresh(changed, file, pos)
        return [name for name in arrived if self._begin_anew(name)]

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

        def begin_anew(name: str) -> bool:
            nonlocal state
            state = begun_anew(state, name)
            assembly.note("snapshot", state)
            return True

        self._begin_anew = begin_anew
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
