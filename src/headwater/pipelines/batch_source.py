"""Where the batches of a query of the driver's own come from: how far the next one goes, and its records.

Used by `driver_query`. `TailSource` shares what it reads with other views over the same topics,
`StreamSource` is one view's alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from headwater.spark.source.arrival import Arrival
from headwater.spark.source.position import offsets
from headwater.spark.source.tail import Json, RangeReader, Tail

Changes = Callable[[Any], Any]
"""The records of a batch as its follower, who is handed in, wants them; read when it is called."""


@dataclass
class Next:
    """A batch: where it ends, and its records."""

    end: Json
    changes: Changes
    oldest_ms: int | None = None
    """When its oldest record was written, where that is at hand."""


class Source(Protocol):
    """Batches for one run of a query."""

    def initial(self) -> Json: ...

    def after(self, start: Json) -> Next | None:
        """The next batch from there; None if there is nothing."""

    def apart(self, start: Json, end: Json) -> Changes:
        """The records of a batch that was planned before."""

    def wait(self, start: Json, stopped: threading.Event) -> None:
        """Until something may have come, or it is time to look all the same."""

    def close(self) -> None: ...


@dataclass
class TailSource:
    """Shared with others where it is near the end, else its own; a follower decodes it."""

    make_reader: Callable[[], RangeReader]
    make_tail: Callable[[], Tail]
    once: bool
    _reader: RangeReader | None = field(default=None, init=False)
    _tail: Tail | None = field(default=None, init=False)

    @property
    def reader(self) -> RangeReader:
        if self._reader is None:
            self._reader = self.make_reader()
            if self.once:
                self._reader.stop_at_what_is_there()
        return self._reader

    @property
    def tail(self) -> Tail:
        if self._tail is None:
            self._tail = self.make_tail()
        return self._tail

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._tail = None

    def initial(self) -> Json:
        return self.reader.initial()

    def after(self, start: Json) -> Next | None:
        if not self.once:
            newer = self.tail.newer(start)
            if newer is not None:
                if offsets(newer.end) == offsets(start):
                    return None
                assert not _goes_back(start, newer.end), (start, newer.end)
                begin = offsets(start)
                changes: Changes = lambda view: view.shared(newer, begin)  # noqa: E731
                return Next(newer.end, changes, newer.oldest_ms(begin))
        end = self.reader.end_after(start)
        if not self.once:
            self.tail.begin(start if end is None else end)
        return None if end is None else Next(end, self.apart(start, end))

    def apart(self, start: Json, end: Json) -> Changes:
        return lambda view: view.decode(self.reader.records(start, end))

    def wait(self, start: Json, stopped: threading.Event) -> None:
        self.tail.wait(start, stopped)


@dataclass(frozen=True)
class StreamRange:
    """What a batch of a stream is to read; a follower decides who does."""

    reader: RangeReader
    start: Json
    end: Json

    @property
    def count(self) -> int:
        return count(self.start, self.end)


class StreamSource:
    """Ranges of one stream."""

    def __init__(self, reader: RangeReader, *, once: bool) -> None:
        self._reader = reader
        if once:
            reader.stop_at_what_is_there()
        options = reader.stream.options
        self._arrival = Arrival(options.client, options.isolation)

    def close(self) -> None:
        self._reader.close()
        self._arrival.close()

    def initial(self) -> Json:
        return self._reader.initial()

    def after(self, start: Json) -> Next | None:
        end = self._reader.end_after(start)
        return None if end is None else Next(end, self.apart(start, end))

    def apart(self, start: Json, end: Json) -> Changes:
        return lambda _: StreamRange(self._reader, start, end)

    def wait(self, start: Json, stopped: threading.Event) -> None:
        self._arrival.wait_long(offsets(start), stopped)


def count(start: Json, end: Json) -> int:
    """How many offsets lie between."""
    before = offsets(start)
    return sum(max(0, o - before.get(place, 0)) for place, o in offsets(end).items())


def _goes_back(start: Json, end: Json) -> bool:
    after = offsets(end)
    return any(after.get(place, 0) < o for place, o in offsets(start).items())
