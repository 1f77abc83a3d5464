"""How a join with a table decides, and its rows on the way from pandas to `versions` and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.processing.joins.versions import EVER, NEVER, Change, Event, Group, Joined

if TYPE_CHECKING:
    import pandas as pd

OUT = "_event STRING, _row STRING, mark TIMESTAMP"


@dataclass(frozen=True)
class Rule:
    """Of one join."""

    wait: int | None
    """Microseconds behind the newest event; None: decided at once."""
    keep: int
    """Where nothing waits, how long versions are kept behind the newest event."""
    forget: int
    """How long deletions are."""
    inner: bool

    def take(self, group: Group, frames: Iterator[pd.DataFrame], watermark: int = EVER) -> None:
        for frame in frames:
            told = frame["told"].to_numpy(dtype=bool)
            # Spark drops what is late, by a mark that times beyond `PANDAS_YEARS` do not have.
            beyond = frame["mark"].isna() & (frame["time"] > 0)
            late = (beyond & (frame["time"] <= watermark)).to_numpy(dtype=bool)
            group.take(_changes(frame[told]), _events(frame[~told & ~late]), self.wait or 0)

    def decide(self, group: Group, watermark: int | None) -> pd.DataFrame:
        """What is due now; the group lets go of what it needs no longer."""
        if watermark is None:
            joined = group.decide(NEVER)
            group.settle(group.newest - self.keep, self.forget)
        else:
            joined = group.decide(watermark)
            group.settle(watermark, self.forget)
        return self._frame(joined)

    def at_once(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One group of keys in a query that is no stream: everything is there."""
        group = Group()
        self.take(group, iter([frame]))
        return self._frame(group.decide(NEVER))

    def _frame(self, joined: list[Joined]) -> pd.DataFrame:
        import numpy as np
        import pandas as pd

        if self.inner:
            joined = [each for each in joined if each[1] is not None]
        found = pd.DataFrame(
            {"_event": [each[0] for each in joined], "_row": [each[1] for each in joined]},
            dtype=object,
        )
        times = [None if each[2] == EVER else each[2] for each in joined]
        found["mark"] = pd.Series(np.array(times, "datetime64[us]")).dt.tz_localize("UTC")
        return found


def _changes(frame: pd.DataFrame) -> Iterator[Change]:
    names = ("key", "time", "recorded", "partition", "offset")
    columns = [frame[name].tolist() for name in names]
    rows = [
        None if gone else row
        for gone, row in zip(frame["gone"].tolist(), frame["text"].tolist(), strict=True)
    ]
    return (Change(*each) for each in zip(*columns, rows, strict=True))


def _events(frame: pd.DataFrame) -> Iterator[Event]:
    columns = [frame[name].tolist() for name in ("time", "key", "text")]
    return (Event(*each) for each in zip(*columns, strict=True))
