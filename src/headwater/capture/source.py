"""The contract of a source, and where each kind of database is found.

Called by `runner` and the command line. A source is used from one thread; its iterators yield at least
every `IDLE_S`, with an empty batch if need be, so that the runner can stop, and positions can move while
a database is idle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from threading import Event
from typing import Protocol, cast, runtime_checkable

from headwater.capture.change import Batch, Lag, Position, Progress
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured
from headwater.errors import nearest

IDLE_S = 0.5
LOOK_AGAIN_S = 1.0

# Scheme of `from` → package; each has open_source(config) in its __init__ and imports its driver there.
PACKAGES = {
    "postgresql": "postgres",
    "postgres": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
    "mongodb": "mongodb",
    "mongodb+srv": "mongodb",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `check` looked at."""

    name: str
    ok: bool
    sentence: str
    remedy: str | None = None
    """The command that puts it right."""


@dataclass(frozen=True, slots=True)
class Range:
    """Which rows of one table are to be read again; the default: all."""

    where: str | None = None
    """A condition in the database's own SQL."""
    first: str | None = None
    last: str | None = None
    """Values of the key's first column, both included."""

    @property
    def whole(self) -> bool:
        return self == Range()


WHOLE = Range()


def check_range(tables: list[str], within: Range) -> None:
    if not within.whole and len(tables) != 1:
        raise Misconfigured(
            "a part of the rows can be read again of one table at a time", hint="name one table"
        )


class Source(Protocol):
    """A database whose changes are captured."""

    def check(self) -> list[Finding]:
        """Look at everything that capture needs; changes nothing."""
        ...

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        """The first snapshot, or the rest of it; positions have the key `snapshot` but the last.

        With the position {"again": true}, which only a source with `begins_again = True` is given:
        from the start, each table's rows after a truncate event, so that readers start over too.
        """
        ...

    def stream(self, position: Position) -> Iterator[Batch]:
        """Changes after the position, for ever. Raises Gap if the database no longer has them."""
        ...

    def acknowledge(self, position: Position) -> None:
        """The log has everything up to here on disk: the database may forget it."""
        ...

    def lag(self) -> Lag: ...

    def progress(self) -> Progress | None:
        """Of the snapshot that runs now."""
        ...

    def topics(self) -> list[str]:
        """The topics that it will write to, to be created before the first record."""
        ...

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        """Ask the capture that runs to read these tables again, all if none; a sentence on how.

        `within`: of one table, only these rows."""
        ...

    def forget(self) -> str | None:
        """Remove what the database keeps for this capture; the next run begins with a snapshot.

        A sentence about what stays, because it is not this capture's to remove."""
        ...

    def close(self) -> None:
        """Let go of connections; what the database keeps for this capture stays."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """A source that watches what the database keeps for it."""

    def guard(self) -> str | None:
        """Called now and then: a sentence to say; raises Gap or StartOver where it has given up."""
        ...


@runtime_checkable
class Replicated(Protocol):
    """A source that knows how its database's replicas fare."""

    def replica_lag_s(self) -> float | None:
        """By how much the last of them is behind; infinite: it stands still; None: there are none."""
        ...


def spare_replicas(
    source: Source, config: CaptureConfig, say: Callable[[str], None], stopping: Event
) -> None:
    """Wait, between two batches of a snapshot, until no replica is further behind than it may be."""
    if not config.snapshot_max_lag_s or not isinstance(source, Replicated):
        return
    told = False
    while (lag_s := source.replica_lag_s()) is not None and lag_s > config.snapshot_max_lag_s:
        if not told:
            behind = "stands still" if math.isinf(lag_s) else f"is {lag_s:.0f} s behind"
            say(f"the snapshot waits: a replica of the database {behind}")
            told = True
        if stopping.wait(LOOK_AGAIN_S):
            return


def open_source(config: CaptureConfig) -> Source:
    """The source for the scheme of `from`."""
    package = PACKAGES.get(config.scheme)
    if package is None:
        known = sorted({name for name in PACKAGES if name.isalpha()})
        raise Misconfigured(
            f"capture {config.name}: {config.scheme!r} is no kind of database known here"
            f"{nearest(config.scheme, known)}",
            hint=f"begin `from` with one of: {', '.join(known)}",
        )
    module = import_module(f"headwater.capture.{package}")
    make = cast("Callable[[CaptureConfig], Source]", module.open_source)
    return make(config)
