"""What the demo is asked to do, who watches, and what it found: the words its steps share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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

    def advance(self, done: int) -> None:
        """The step has come to `done`."""

    def end(self, outcome: str) -> None:
        """The step is over."""


@dataclass(frozen=True)
class Plan:
    """How much to do, and where; `seconds`, where given, wins over `records`."""

    data: Path
    topic: str
    records: int
    seconds: float | None = None
    durability: str = "disk"
    spark: bool = True
    shop: bool = True
    """Capture a database too, and keep views of it; needs Spark."""
    shop_seconds: float = 10.0


@dataclass
class Views:
    """What came of the shop: its database, and three views that follow it."""

    snapshot_s: float = 0.0
    build_s: float = 0.0
    writes: int = 0
    latency_p50_s: float = 0.0
    latency_p99_s: float = 0.0
    rows: int = 0
    different: int = 0
    """Rows that only one of the two has, database or view."""


@dataclass
class Spark:
    """What PySpark made of the same log."""

    start_s: float = 0.0
    records: int = 0
    crc_sum: int = 0
    read_s: float = 0.0
    derived: int = 0
    derived_crc_sum: int = 0
    derive_s: float = 0.0


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
    crc_sum: int = 0
    """Of all values' checksums; in any order it is the same."""
    spark: Spark | None = None
    views: Views | None = None

    @property
    def verified(self) -> bool:
        wrong = self.lost + self.duplicated + self.different + self.out_of_order
        came_back = wrong == 0 and 0 < self.produced == self.acknowledged == self.replayed
        return came_back and self.spark_agrees and self.views_agree

    @property
    def views_agree(self) -> bool:
        return self.views is None or (self.views.rows > 0 and not self.views.different)

    @property
    def spark_agrees(self) -> bool:
        """Whether Spark saw the same records, and so did a reader of what it derived."""
        seen, found = (self.replayed, self.crc_sum), self.spark
        return found is None or (
            (found.records, found.crc_sum) == seen == (found.derived, found.derived_crc_sum)
        )

    def as_json(self) -> dict[str, Any]:
        return {"verified": self.verified, **asdict(self)}
