"""What the demo is asked to do, who watches, and what it found: the words its steps share."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headwater.errors import HeadwaterError

KEYS = 1000
PARTITIONS = 4
VALUE_BYTES = 100
TIMEOUT_S = 60.0


class DemoFailed(HeadwaterError):
    """A step could not be done at all, so that there is nothing to compare."""


class Audience(Protocol):
    """Who watches: the command line's progress bars, its plain lines, or nobody."""

    def begin(self, what: str, total: int | None = None) -> None:
        """A step begins; `total` is what `advance` will count to, where that is known."""

    def advance(self, done: int, note: str = "") -> None:
        """The step has come to `done`; `note` says how it is just now."""

    def end(self, outcome: str) -> None:
        """The step is over."""


@dataclass(frozen=True)
class Plan:
    """How much to do, and where."""

    data: Path
    topic: str
    records: int
    durability: str = "disk"
    shop: bool = True
    """Capture a database too, and keep views of it; needs Spark."""
    seconds: float = 30.0
    """How long the shop is written to."""
    database: str | None = None
    """postgresql://… of a server for the shop; None: a SQLite file."""
    browser: bool = False
    """Open the console in one."""
    stay: bool = False
    """Write on after the load, slowly and until Ctrl-C, for somebody who takes the console's tour."""


@dataclass
class ViewFound:
    """A view, compared with the database that it follows."""

    name: str
    to: str
    rows: int = 0
    different: int = 0
    """Rows that only one of the two has, database or view."""
    example: str | None = None
    """One of them."""


@dataclass(frozen=True)
class ViewFreshness:
    """How long the oldest change of a batch had waited in the log when the view showed it."""

    median_s: float
    most_s: float
    after_kill_s: float | None = None
    """The most in the moments after the kill, which the others leave out."""


@dataclass
class ShopFound:
    """What came of the shop: its database, and the views that follow it."""

    database: str
    cache: str
    """What serves as the cache, and why."""
    console: str | None = None
    """Where the console was."""
    ready_s: float = 0.0
    """From `headwater up` until every view had what was there before."""
    load_s: float = 0.0
    writes: int = 0
    records: int = 0
    """That the writes made in the log."""
    killed: str = ""
    latency_p50_s: float = 0.0
    latency_p99_s: float = 0.0
    measured: int = 0
    """Orders whose latency was seen; those around the kill are not among them."""
    held_up: int = 0
    """Orders that the kill has held up."""
    back_s: float | None = None
    """From the kill until an order was seen that was committed after it."""
    freshness: dict[str, ViewFreshness] = field(default_factory=dict)
    """By view."""
    settled_s: float = 0.0
    """From the last write until all views had it."""
    interrupted: bool = False
    """By Ctrl-C: the load ended early, and was verified like any other."""
    restarts: dict[str, int] = field(default_factory=dict)
    views: list[ViewFound] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether every view has rows, and those that the database says."""
        return bool(self.views) and all(v.rows > 0 and not v.different for v in self.views)


@dataclass
class Summary:
    """What happened, in numbers; `verified` is the verdict."""

    topic: str
    durability: str
    data: str
    partitions: int = PARTITIONS
    produced: int = 0
    acknowledged: int = 0
    acknowledged_before_kill: int = 0
    unacknowledged_at_kill: int = 0
    replayed: int = 0
    lost: int = 0
    duplicated: int = 0
    different: int = 0
    out_of_order: int = 0
    start_s: float = 0.0
    restart_s: float = 0.0
    stop_s: float = 0.0
    produce_before_kill_s: float = 0.0
    produce_s: float = 0.0
    replay_s: float = 0.0
    resident_bytes: int | None = None
    data_bytes: int = 0
    checksum: str = ""
    left_out: str | None = None
    """Why there was no shop, where one was wanted."""
    shop: ShopFound | None = None

    @property
    def verified(self) -> bool:
        return self.log_agrees and (self.shop is None or self.shop.verified)

    @property
    def log_agrees(self) -> bool:
        """Whether every acknowledged record came back, once and in order."""
        wrong = self.lost + self.duplicated + self.different + self.out_of_order
        return wrong == 0 and 0 < self.produced == self.acknowledged == self.replayed

    def as_json(self) -> dict[str, Any]:
        return {"verified": self.verified, **asdict(self)}
