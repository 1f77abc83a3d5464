"""Forgets changes that the log has; with them, rows of the outbox, where that was asked for.

Called by `source` after acknowledgements. Short transactions that give way: if an application holds the
lock, the next time will do. The row at the acknowledged place itself stays, as the proof that the file
still has the past that the log knows, and because the highest number must never be given out again.
"""

from __future__ import annotations

import sqlite3
import time

from headwater.capture.sqlite import state
from headwater.capture.sqlite.connection import quoted, writing
from headwater.capture.sqlite.triggers import CHANGES

EVERY_S = 1.0
EVERY_ROWS = 20_000
AT_ONCE = 5_000
"""Rows per transaction: some milliseconds during which nobody else can write."""
WAIT_MS = 20


class Pruner:
    """Knows how far the change table is cleared."""

    def __init__(self, connection: sqlite3.Connection, outbox: str | None) -> None:
        """`outbox`: the table whose rows go once their events are in the log; None: they stay."""
        self._connection = connection
        self._outbox = outbox
        self._floor: int | None = None
        self._acknowledged = 0
        self._last = time.monotonic()

    def acknowledge(self, seq: int) -> None:
        """The log has everything up to here, and nobody will ask for it again."""
        self._acknowledged = max(self._acknowledged, seq)

    def prune(self, *, now: bool = False) -> bool:
        """Delete some of it if it is time; whether something was deleted."""
        floor = self.lowest()
        waiting = self._acknowledged - floor
        since = time.monotonic() - self._last
        if waiting <= 0 or not (now or waiting >= EVERY_ROWS or since >= EVERY_S):
            return False
        self._last = time.monotonic()
        while floor < self._acknowledged:
            below = min(self._acknowledged, floor + AT_ONCE)
            if not self._delete_below(below):
                break
            floor = self._floor = below
        return True

    def lowest(self) -> int:
        """The first change that is still there."""
        if self._floor is None:
            row = self._connection.execute(f"SELECT min(seq) FROM {CHANGES}").fetchone()
            self._floor = int(row[0] or 0)
        return self._floor

    def _delete_below(self, seq: int) -> bool:
        try:
            with writing(self._connection, WAIT_MS):
                if self._outbox is not None:
                    self._delete_events(seq)
                self._connection.execute(f"DELETE FROM {CHANGES} WHERE seq < ?", (seq,))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            raise
        return True

    def _delete_events(self, seq: int) -> None:
        """In the same transaction, so that after a kill the events still to be deleted are known."""
        assert self._outbox is not None
        for sid, shape in state.active_shapes(self._connection).items():
            if shape.table.lower() != self._outbox.lower():
                continue
            place = [name.lower() for name in shape.names].index("id")
            self._connection.execute(
                f"DELETE FROM {quoted(shape.table)} WHERE {quoted(shape.names[place])} IN "
                f"(SELECT v{place} FROM {CHANGES} WHERE seq <= ? AND sid = ? AND op = 'c')",
                (seq, sid),
            )
