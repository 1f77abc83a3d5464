"""SQLite behind the contract of a source: looks, waits, prunes, follows the schema.

Opened by `headwater.capture.sqlite.open_source`, driven by `headwater.capture.runner`.

`SqliteSource.forget` takes everything out of a database that capture has put in.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NoReturn

from headwater.capture.change import Batch, Lag, Position, Progress, begins_again
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Gap, Interrupted
from headwater.capture.source import IDLE_S, WHOLE, Finding, Range, check_range
from headwater.capture.sqlite import connection as connections
from headwater.capture.sqlite import preflight, state
from headwater.capture.sqlite.commits import Commits
from headwater.capture.sqlite.connection import plainly, quoted, writing
from headwater.capture.sqlite.drain import Drain, SchemaMoved, WentBack
from headwater.capture.sqlite.place import Pending, Place
from headwater.capture.sqlite.prune import Pruner
from headwater.capture.sqlite.reconcile import TRIGGER, reconcile, request_backfill
from headwater.capture.sqlite.shape import is_wanted, user_tables
from headwater.capture.sqlite.triggers import CHANGES, SCHEMAS, STATE
from headwater.capture.sqlite.watch import Watch

WAITING_MANY = 100_000


class SqliteSource:
    """One database file."""

    begins_again = True

    def __init__(self, config: CaptureConfig) -> None:
        self._config = config
        self._patterns = (
            (*config.tables, config.outbox) if config.tables and config.outbox else (config.tables)
        )
        self._path = connections.file_of(config.url)
        self._connection = connections.connect(self._path)
        self._watch = Watch(self._path)
        self._commits = Commits(self._path)
        self._drain = Drain(self._connection, config, self._path, self._commits)
        delete = config.option("outbox_delete", False)
        self._pruner = Pruner(self._connection, config.outbox if delete else None)
        self._rows_expected: dict[str, int] = {}
        self._tables = 0

    def check(self) -> list[Finding]:
        with plainly(self._path):
            return preflight.check(self._connection, self._path, self._config, self._patterns)

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        """Rows in chunks between changes; after the last one, the same looks go on in `stream`."""
        with plainly(self._path):
            if position is None or begins_again(position):
                self._reconcile()
                yield self._first_batch(again=position is not None)
            else:
                self._go_on(position)
            self._count()
            while self._drain.place.first:
                batch = self._look()
                if not self._drain.place.pending and self._drain.place.commit is None:
                    self._drain.place.first = False
                    batch.position = self._drain.place.to_position()
                yield batch

    def stream(self, position: Position) -> Iterator[Batch]:
        with plainly(self._path):
            self._go_on(position)
            while True:
                batch = self._look()
                yield batch
                if not batch.records and not self._drain.place.pending:
                    self._idle()

    def acknowledge(self, position: Position) -> None:
        with plainly(self._path):
            self._pruner.acknowledge(min([position["seq"], *position.get("held", ())]))
            self._pruner.prune()

    def lag(self) -> Lag:
        with plainly(self._path):
            if not state.is_installed(self._connection):
                return Lag(detail="no triggers in this database")
            if not self._drain.place.identity:  # asked without a run, by `status`
                kept = state.last_seq(self._connection) - self._pruner.lowest()
                return Lag(detail=f"{kept} changes are kept in the database")
            row = self._connection.execute(
                f"SELECT count(*), (julianday('now') - min(at)) * 86400 FROM {CHANGES} WHERE seq > ?",
                (self._drain.place.seq,),
            ).fetchone()
        return Lag(seconds=max(0.0, row[1] or 0.0), detail=f"{row[0]} changes not yet in the log")

    def guard(self) -> str | None:
        """Changes that the log does not take stay in the file: a sentence, when they are many."""
        if (said := self._drain.given_up) is not None:
            self._drain.given_up = None
            return said
        with plainly(self._path):
            if not state.is_installed(self._connection):
                return None
            waiting = self._connection.execute(
                f"SELECT max(seq) - min(seq) FROM {CHANGES}"
            ).fetchone()[0]
        if (waiting or 0) < WAITING_MANY:
            return None
        return f"{waiting:,} changes wait in {self._path} for the log, and take room there"

    def progress(self) -> Progress | None:
        pending = list(
            self._drain.place.pending
        )  # asked for by another thread than the one that reads
        if not pending:
            return None
        return Progress(
            table=pending[0],
            rows=self._drain.chunk_rows,
            rows_expected=sum(self._rows_expected.values()),
            tables_done=self._tables - len(pending),
            tables=self._tables,
        )

    def topics(self) -> list[str]:
        found = {self._config.schema_topic, *self._drain.tables.topics}
        if self._config.transactions:
            found.add(self._config.transaction_topic)
        return sorted(found)

    def close(self) -> None:
        self._watch.close()
        self._commits.close()
        self._connection.close()

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        """Have tables read again while the capture runs (here or in another process)."""
        check_range(tables, within)
        with plainly(self._path):
            asked = request_backfill(self._connection, self._config.name, tables, within)
        return f"{', '.join(asked)}: will be read again, beside the changes"

    def forget(self) -> None:
        """Take triggers and tables of this capture out of the database."""
        with plainly(self._path):
            if state.is_installed(self._connection):
                state.require_owner(self._connection, self._config.name)
            remove(self._connection)

    def _first_batch(self, again: bool) -> Batch:
        connection = self._connection
        seq = state.last_seq(connection)
        at = connection.execute(f"SELECT at FROM {CHANGES} WHERE seq = ?", (seq,)).fetchone()
        place = Place(state.get(connection, "identity"), seq, at[0] if at else 0.0, first=True)
        for shape in state.active_shapes(connection).values():
            place.pending[shape.table] = Pending()
        self._drain.go_on(place)
        records = self._drain.describe()
        if again:  # readers may have rows that are no more
            records += self._drain.truncate_all()
        return Batch(place.to_position(), records)

    def _go_on(self, position: Position) -> None:
        place = Place.from_position(position)
        self._prove_past(place)
        self._drain.verified = place.seq
        self._drain.go_on(place)
        self._pruner.acknowledge(min([place.seq, *place.held]))
        self._reconcile()

    def _prove_past(self, place: Place) -> None:
        """Make sure that the place is in the past of this file: a copy may have been put back."""
        connection = self._connection
        if not state.is_installed(connection):
            self._gap("the triggers of this capture were removed from the database")
        state.require_owner(connection, self._config.name)
        if state.get(connection, "identity") != place.identity:
            self._gap("this is not the database that the log knows under this name")
        if not place.seq and self._pruner.lowest() <= 1:
            return  # from before the first change, which is still there
        row = connection.execute(f"SELECT at FROM {CHANGES} WHERE seq = ?", (place.seq,)).fetchone()
        if row is None or row[0] != place.at:
            self._gap(f"change {place.seq}, the last one in the log, is not in {CHANGES}")

    def _gap(self, sentence: str) -> NoReturn:
        raise Gap(
            f"{self._path}: {sentence} (restored from a copy?); what changed since is not known",
            hint=f"take a new first snapshot: headwater capture run {self._config.name} --resnapshot",
        )

    def _reconcile(self) -> None:
        drain = self._drain
        arguments = (self._connection, self._config.name, self._patterns, drain.verified)
        try:
            drain.version, moved = reconcile(*arguments)
        except sqlite3.OperationalError as error:
            if not connections.is_damaged_text(error):
                raise
            connections.tolerate_damaged_text(self._connection)
            drain.version, moved = reconcile(*arguments)
        drain.forget_shapes()
        if moved:
            # VACUUM may have numbered rows anew: tables that are read by rowid begin again.
            for shape in state.active_shapes(self._connection).values():
                if shape.rowid is not None and shape.table in drain.place.pending:
                    drain.place.pending[shape.table] = Pending(fresh=False)

    def _look(self) -> Batch:
        while True:
            try:
                return self._drain.look()
            except SchemaMoved:
                self._prove_past(self._drain.place)
                self._reconcile()
            except WentBack:
                self._gap("changes that the log has are gone")
            except sqlite3.OperationalError as error:
                if not connections.is_damaged_text(error):
                    raise
                connections.tolerate_damaged_text(self._connection)
                self._drain.begin_again()

    def _idle(self) -> None:
        """Nothing new: tidy up, then wait until somebody writes."""
        if self._pruner.prune():
            return
        if not self._watch.wait(IDLE_S) and self._watch.was_replaced():
            raise Interrupted(f"{self._path}: another file was put in its place")

    def _count(self) -> None:
        """For the progress bar."""
        for table in self._drain.place.pending:
            quoted = connections.quoted(table)
            row = self._connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()
            self._rows_expected[table] = row[0]
        names = user_tables(self._connection)
        self._tables = sum(is_wanted(name, self._patterns) for name in names)


def remove(connection: sqlite3.Connection) -> None:
    """Drop our triggers and tables, in one transaction."""
    with writing(connection):
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        for (name,) in found.fetchall():
            if TRIGGER.fullmatch(name):
                connection.execute(f"DROP TRIGGER {quoted(name)}")
        for table in (CHANGES, SCHEMAS, STATE):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
