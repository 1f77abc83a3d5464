"""Windows over event time, as values: which ones an event is in, and when each is over.

    tumbling   ├────────┤├────────┤├────────┤      each event in one
    hopping    ├────────┤                          each event in size / every
                   ├────────┤
    session    ├─e──e──────e─gap┤   ├─e─gap┤       as long as events come

`event_stream` gives each event its `window`; all three are Spark's own functions. The source asks the same
value when the windows of an event end (`first_end`, `last_end`), to know what Spark would drop as late.
Windows begin at multiples of their length since 1970, in UTC, moved by `offset`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from headwater.errors import HeadwaterError
from headwater.processing.durations import Duration, micros

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql import Column

Times = TypeVar("Times", int, "NDArray[np.int64]")
TUMBLING, HOPPING, SESSION = "tumbling", "hopping", "session"


class BadWindow(HeadwaterError):
    """A window that cannot be."""


@dataclass(frozen=True)
class Window:
    """Made by `tumbling`, `hopping` and `session_window`; lengths are microseconds."""

    kind: str
    size: int
    every: int
    offset: int = 0

    def column(self, time: str | Column) -> Column:
        """The windows of an event as Spark's column, a struct of `start` and `end`."""
        from pyspark.sql import functions as F  # noqa: N812

        if self.kind == SESSION:
            return F.session_window(time, f"{self.size} microseconds").alias("window")
        return F.window(
            time,
            f"{self.size} microseconds",
            f"{self.every} microseconds",
            f"{self.offset} microseconds",
        ).alias("window")

    def first_end(self, times: Times) -> Times:
        """When the first window of each event ends; numbers and arrays, in microseconds."""
        if self.kind == SESSION:
            return times + self.size
        turned = self.offset + self.size
        return ((times - turned) // self.every + 1) * self.every + turned

    def last_end(self, times: Times) -> Times:
        """When its last one does: then it belongs nowhere any more."""
        if self.kind == SESSION:
            return times + self.size
        return (times - self.offset) // self.every * self.every + self.offset + self.size

    def missed(self, time: int, watermark: int) -> list[tuple[int, int]]:
        """Start and end of those windows of an event that are over at a watermark."""
        if self.kind == SESSION:
            return [(time, time + self.size)] if time + self.size <= watermark else []
        first, last = self.first_end(time), min(self.last_end(time), watermark)
        return [(end - self.size, end) for end in range(first, last + 1, self.every)]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Window:
        return cls(**json.loads(text))


def tumbling(size: Duration, *, offset: Duration = "0 seconds") -> Window:
    """Windows of one length, one after the other."""
    length = _positive(size, "its length")
    return Window(TUMBLING, length, length, micros(offset) % length)


def hopping(size: Duration, every: Duration, *, offset: Duration = "0 seconds") -> Window:
    """Windows of one length, of which a new one begins every so often; they overlap."""
    length, step = _positive(size, "its length"), _positive(every, "every")
    if step > length:
        raise BadWindow(
            f"a hopping window of {size} that begins every {every} leaves events out in between",
            hint="let every be at most the length",
        )
    return Window(HOPPING, length, step, micros(offset) % step)


def session_window(gap: Duration) -> Window:
    """From a first event on, for as long as the next one comes within the gap; one for each key."""
    length = _positive(gap, "the gap")
    return Window(SESSION, length, length)


def _positive(duration: Duration, what: str) -> int:
    found = micros(duration)
    if found <= 0:
        raise BadWindow(f"{what} must be longer than nothing: {duration!r}")
    return found
