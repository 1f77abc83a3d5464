"""What a source hands over: records that are ready for the log, and the position behind them.

Made by sources (with `envelope`), taken by `runner` and `writer`. Work is per batch: a record is a
plain tuple, and the many rows of a batch share their table's encoder.

A position is a JSON object that only its source understands. Two things hold for all of them:
going on from it must yield each change after it and none before it, in the same order as the first
time; and the key `snapshot` is there while the first snapshot is not complete. The position
{"again": true} stands for a snapshot that is to start over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Position: TypeAlias = dict[str, Any]
Headers: TypeAlias = list[tuple[str, str | bytes | None]]

# topic, key, value; or topic, key, value, headers, partition.
PlainRecord: TypeAlias = tuple[str, bytes | None, bytes | None]
FullRecord: TypeAlias = tuple[str, bytes | None, bytes | None, Headers | None, int]
Record: TypeAlias = PlainRecord | FullRecord

BY_KEY = -1
EVERY_PARTITION = -2
"""As a record's partition: one copy in each, as for a truncate, which concerns all keys."""

# A batch goes to the log when it has so many bytes, or when the source has nothing more for now.
BATCH_BYTES = 1 << 20
# After a batch of so many rows there is more to come: for so long the next one gathers, because a Kafka
# transaction costs as much as a hundred rows. A database with a few commits at a time never waits.
BUSY_ROWS, GATHER_S = 64, 0.01
# A larger source transaction is cut: readers of committed data see its parts one after the other.
TRANSACTION_BYTES_MAX = 16 << 20


@dataclass(slots=True)
class Batch:
    """Some records and where to go on after them. Without records: only the position moves."""

    position: Position
    records: list[Record] = field(default_factory=list)
    rows: int = 0
    """Rows among the records: tombstones and BEGIN/END are not counted."""
    streamed: bool = False
    """Of a snapshot: changes that it catches up with, which no limit on its reading may hold up."""


class Announcements:
    """Records that others need to be read: schemas. Each goes to the log once per run, before them."""

    def __init__(self) -> None:
        self._known: set[bytes | None] = set()
        self._waiting: list[Record] = []

    def add(self, records: list[Record]) -> None:
        for record in records:
            if record[1] not in self._known:
                self._known.add(record[1])
                self._waiting.append(record)

    def take(self) -> list[Record]:
        taken, self._waiting = self._waiting, []
        return taken

    def reset(self) -> None:
        """Another run begins: nothing is known to be in the log."""
        self._known.clear()
        self._waiting.clear()


def in_snapshot(position: Position | None) -> bool:
    return position is None or "snapshot" in position or begins_again(position)


def begins_again(position: Position | None) -> bool:
    """A new first snapshot, into topics that have rows of an earlier one."""
    return position is not None and "again" in position


def phase_of(position: Position | None) -> str:
    """Where a capture with this position is, as people are told."""
    if position is None:
        return "never run"
    if begins_again(position):
        return "starting over"
    return "snapshot" if in_snapshot(position) else "streaming"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the log is behind the database, in what the source can measure."""

    bytes: int | None = None
    seconds: float | None = None
    detail: str = ""
    facts: tuple[tuple[str, str | int], ...] = ()
    """What the database keeps for the capture, name by name; whole numbers are bytes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a snapshot is; for the progress bar."""

    table: str
    rows: int
    rows_expected: int
    tables_done: int
    tables: int


class Throttle:
    """A snapshot that spares its database: at most so many rows a second; 0: no limit.

    Rows are paid for after they were read, so that a batch of any size goes through, and the next one
    waits for it.
    """

    def __init__(self, rows_per_second: int) -> None:
        self._rows_per_second = rows_per_second
        self._paid_until_s: float | None = None

    def pause_s(self, rows: int, now_s: float) -> float:
        """After `rows` were read; `now_s` is a clock that only goes forward."""
        if not self._rows_per_second:
            return 0.0
        begin_s = now_s if self._paid_until_s is None else max(self._paid_until_s, now_s)
        self._paid_until_s = begin_s + rows / self._rows_per_second
        return self._paid_until_s - now_s
